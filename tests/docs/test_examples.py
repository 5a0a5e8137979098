"""Every script in `examples/` runs unchanged, and prints the output in its docstring."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("run every example")

EXAMPLES = Path(__file__).parents[2] / "examples"
WITH_INPUT_OF_THEIR_OWN = {"flights.py"}
"""Pipelines over files, which other tests run."""

LOGGED = {
    "quarantine.py": "batch 1, operator `totals`: 1 key failed: function `add` of operator `totals` raised "
    "`ValueError: amount -1` for key `'ann'`\n"
}
"""What scripts log, to stderr."""

SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in WITH_INPUT_OF_THEIR_OWN)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_prints_the_output_in_its_text(name: str, tmp_path: Path) -> None:
    script = EXAMPLES / name
    docstring = ast.get_docstring(ast.parse(script.read_text("utf-8"))) or ""
    _, heading, printed = docstring.partition("\nPrints:\n")
    assert heading, f"{name}: its docstring ends with `Prints:` and what it prints"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, LOGGED.get(name, ""))
    assert done.stdout.strip() == textwrap.dedent(printed).strip()


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert SCRIPTS
    assert not [name for name in (*SCRIPTS, *WITH_INPUT_OF_THEIR_OWN) if f"`{name}`" not in listed]
