"""Every example in a docstring runs, and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tidemill
from tidemill.actions.registry import ACTIONS

PACKAGE = Path(tidemill.__file__).parent


def modules_with_examples() -> list[str]:
    """Names of all modules whose text has an example. Those of actions run where they are written to."""
    of_actions = {action.__module__ for action in ACTIONS.values()}
    found = pkgutil.walk_packages([str(PACKAGE)], "tidemill.")
    paths = {module.name: PACKAGE.joinpath(*module.name.split(".")[1:]) for module in found}
    sources = {name: path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for name, path in paths.items()}
    has_examples = (name for name, at in sources.items() if at.is_file() and ">>> " in at.read_text("utf-8"))
    return sorted(name for name in has_examples if name not in of_actions)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 0
    assert done.failed == 0


def test_no_module_with_examples_imports_airflow() -> None:
    """Airflow reads its settings when it is first imported, which must be left to its own tests."""
    names = [name for name in modules_with_examples() if name.startswith("tidemill.airflow.")]
    assert names
    for name in names:
        text = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py").read_text("utf-8")
        assert not re.search(r"^(from|import) airflow\b", text, re.MULTILINE), name


def test_there_are_examples() -> None:
    assert {"tidemill.operators.window", "tidemill.pipeline.pipeline"} <= set(modules_with_examples())
