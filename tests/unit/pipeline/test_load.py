"""References: errors of the user's code while it is loaded are alike for a file and for a module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidemill.errors import Fenced, InvalidInput
from tidemill.pipeline.load import load

PLACES = ("file", "module")


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a reference of `place` to the pipeline `p` of a module with `code`."""

    def make(place: str, code: str) -> str:
        name = f"loaded_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        return f"{tmp_path / name}.py:p" if place == "file" else f"{name}:p"

    return make


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_users_code_is_invalid_input_with_its_traceback(place: str, reference) -> None:
    named = reference(place, "def half():\n    return 1 / 0\n\np = half()\n")
    with pytest.raises(InvalidInput) as caught:
        load(named)
    first, *rest = caught.value.message.splitlines()
    assert first.startswith(f"pipeline reference {named!r}: running ")
    assert first.endswith("raised `ZeroDivisionError: division by zero`")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[1].endswith(", line 4, in <module>")
    assert rest[-1] == "ZeroDivisionError: division by zero"
    assert "tidemill/pipeline" not in caught.value.message and "importlib" not in caught.value.message
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", ["import no_such_module_at_all\n", "p = (\n"])
def test_a_missing_import_and_bad_syntax_are_reported_alike(place: str, code: str, reference) -> None:
    with pytest.raises(InvalidInput, match=r"running .* raised `(ModuleNotFoundError: No module named|SyntaxError: )"):
        load(reference(place, code))


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_five_kinds_keeps_its_kind(place: str, reference) -> None:
    with pytest.raises(Fenced, match="^another run$"):
        load(reference(place, "from tidemill.errors import Fenced\nraise Fenced('another run')\n"))


@pytest.mark.parametrize("place", ["nowhere_at_all", "nowhere_at_all.pipeline", "tests.nowhere_at_all"])
def test_a_missing_module_is_named(place: str) -> None:
    with pytest.raises(InvalidInput, match="no module named `(tests.)?nowhere_at_all`") as caught:
        load(f"{place}:p")
    assert caught.value.hint == "give a file instead (path.py:name), or install the module"
