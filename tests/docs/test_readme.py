"""The first pipeline of the README runs unchanged, by its commands and by its lines of Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow("start the command line as a process")

README = (ROOT / "README.md").read_text(encoding="utf-8")
HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
DAYS = {
    "2010-12-01.csv": "1,A,mug,6,2010-12-01 08:26:00,2.5,17850,United Kingdom\n",
    "2011-02-01.csv": "2,B,tea,2,2011-02-01 09:00:00,1.0,13047,France\n3,A,mug,1,2011-02-01 10:00:00,2.5,13047,Italy\n",
}


def block(language: str, containing: str) -> str:
    """The fenced block of the README that holds the words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if containing in text]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's retail.py and two days of input."""
    (tmp_path / "retail.py").write_text(block("python", "# retail.py"), encoding="utf-8")
    days = tmp_path / "lake/retail/by-day"
    days.mkdir(parents=True)
    for name, rows in DAYS.items():
        (days / name).write_text(HEADER + rows, encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_readme_run(folder: Path) -> None:
    lines = block("sh", "tidemill init").splitlines()
    commands = [line.partition("#")[0].split() for line in lines]
    assert [command[:2] for command in commands] == [["tidemill", verb] for verb in ("init", "run", "state")]
    outputs = [
        run(folder, "-m", *command, *(["--engine", "local"] if command[1] == "run" else [])) for command in commands
    ]
    assert "13047" in outputs[-1]
    assert "17850" not in outputs[-1]  # silent for 30 days: closed by the timeout
    spend = pa.concat_tables(map(pq.read_table, sorted((folder / "lake/customer-spend").glob("*.parquet"))))
    assert (17850.0, 15.0, True) in {(row["customer"], row["total"], row["closed"]) for row in spend.to_pylist()}
    assert list((folder / "lake/by-country").glob("*.json"))


def test_the_lines_of_python_run(folder: Path) -> None:
    run(folder, "-m", "tidemill", "init", "retail.py:p", "--root", "lake/tidemill")
    lines = block("python", 'r = tm.open(p, root="lake/tidemill")')
    code = f'{lines}print(r.state("spend").num_rows)\n'
    assert run(folder, "-c", code).split() == ["1"]
