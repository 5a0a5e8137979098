"""What a type checker finds in a call of `tm.Files`: every wrong option and value, and nothing in a right call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CALLS = """
import tidemill as tm

S = "a int"
tm.Files("x", schema=S)
tm.Files("x", "csv", S, True)
tm.Files("x", format="csv", schema=S, header="true", mode="permissive", sep=";", maxFilesPerTrigger="10")
tm.Files("x", format="json", schema=S, allowComments=True, badFiles="quarantine", start="latest")
tm.schema_of("x", format="csv", header=True)
tm.Files("x", format="cvs", schema=S)  # wrong
tm.Files("x", schema=S, mode="PERMISIVE")  # wrong
tm.Files("x", format="csv", schema=S, heder=True)  # wrong
tm.Files("x", format="csv", schema=S, header="yes")  # wrong
tm.Files("x", schema=S, badFiles="quarantin")  # wrong
tm.Files("x", schema=S, order="newest")  # wrong
tm.Files("x", schema=S, missingColumns="nul")  # wrong
tm.Files("x", format="csv", schema=S, sep=1)  # wrong
tm.schema_of("x", format="tsv")  # wrong
"""


def test_mypy_finds_the_wrong_calls_and_only_these(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    wrong = {number for number, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, done.stdout + done.stderr
