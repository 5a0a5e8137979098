"""The typed stub against the binary: every name, argument and default, both ways, by mypy's own stubtest."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill import _native

ROOT = Path(__file__).resolve().parents[3]


def test_stub_and_binary_agree(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("tidemill._native.__all__\n")  # PyO3 makes it; nobody imports `*`
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


USERS = ["GroupState", "State", "ValueState", "ListState", "MapState", "Timers", "TimerValues", "ExpiredTimerInfo"]


@pytest.mark.parametrize("name", USERS)
def test_help_says_of_what_users_are_handed_what_the_stub_says(name: str) -> None:
    stub = ast.parse((ROOT / "pyspark_jobs" / "tidemill" / "_native.pyi").read_text(encoding="utf-8"))
    (written,) = [one for one in stub.body if isinstance(one, ast.ClassDef) and one.name == name]
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
