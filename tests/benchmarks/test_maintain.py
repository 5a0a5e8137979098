"""The benchmark of nightly merges still runs, and its variants end with equal states."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow("run a benchmark")
def test_every_variant_of_merging_is_measured(tmp_path: Path) -> None:
    program, found = Path(__file__).parents[2] / "benchmarks" / "maintain.py", tmp_path / "figures.json"
    sizes = ["--keys", "70000", "--batches", "4", "--every", "4", "--rounds", "1"]
    subprocess.run([sys.executable, str(program), *sizes, "--json", str(found)], check=True, cwd=tmp_path)
    before, alone, nightly = json.loads(found.read_text())["figures"]
    assert before["most_layers"] == alone["most_layers"] > nightly["most_layers"]
    assert len(nightly["nights_s"]) == 1 and not alone["nights_s"]
    assert all(one["quiet"]["ratio"] >= 1 and one["cpu"]["ratio"] >= 1 for one in (before, alone, nightly))
