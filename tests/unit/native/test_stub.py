"""The stub agrees with the binary in names, arguments, defaults and docstrings, and its examples run."""

from __future__ import annotations

import ast
import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill import _native

pytestmark = pytest.mark.slow("compare the stub with the binary")

ROOT = Path(__file__).resolve().parents[3]


def test_stub_and_binary_agree(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("tidemill._native.__all__\n")  # PyO3 adds it; no code imports `*`
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "tidemill._native", "--concise", "--ignore-disjoint-bases"),
            *("--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", allowed),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


STUB = ast.parse((ROOT / "pyspark_jobs" / "tidemill" / "_native.pyi").read_text(encoding="utf-8"))
EXAMPLES = {
    node.name: text
    for node in STUB.body
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and ">>> " in (text := ast.get_docstring(node) or "")
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_stub_run(name: str) -> None:
    found = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    done = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(found)
    assert done.attempted > 0
    assert done.failed == 0


def test_every_class_of_states_has_an_example() -> None:
    assert {"State", "GroupState", "ValueState", "ListState", "MapState"} <= set(EXAMPLES)


USERS = ["GroupState", "State", "ValueState", "ListState", "MapState", "Timers", "TimerValues", "ExpiredTimerInfo"]


@pytest.mark.parametrize("name", USERS)
def test_docstrings_of_the_binary_are_those_of_the_stub(name: str) -> None:
    (written,) = [one for one in STUB.body if isinstance(one, ast.ClassDef) and one.name == name]
    kind = getattr(_native, name)
    assert words(kind.__doc__) == words(ast.get_docstring(written))
    members = [one for one in written.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    assert members
    for member in members:
        said = words(ast.get_docstring(member))
        assert said, f"{name}.{member.name} has no docstring"
        assert words(getattr(kind, member.name).__doc__) == said


def words(text: str | None) -> list[str]:
    """Without line breaks."""
    return (text or "").split()
