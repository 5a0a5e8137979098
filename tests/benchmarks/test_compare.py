"""The benchmark of comparisons still runs, and finds the keys that a full scan finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow("run a benchmark")
def test_every_comparison_is_measured(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "compare.py"
    sizes = ["--keys", "2000", "--batches", "11", "--touched", "100", "--rounds", "1"]
    found = subprocess.run(
        [sys.executable, str(program), *sizes], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert "history of one key (2 changes), warm" in found.stdout and "full scan of both by DuckDB" in found.stdout
