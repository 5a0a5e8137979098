"""The benchmark of commit records still runs, and every variant is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow("run a benchmark")
def test_every_variant_of_a_commit_is_measured(tmp_path: Path) -> None:
    program, found = Path(__file__).parents[2] / "benchmarks" / "commit_cost.py", tmp_path / "figures.json"
    command = [sys.executable, str(program), "--runs", "1", "--segments", "48", "--no-s3", "--json", str(found)]
    subprocess.run(command, check=True, cwd=tmp_path)
    figures = json.loads(found.read_text())["figures"]
    assert {figure["what"] for figure in figures} >= {
        "encode, one record", "encode, manifests, all changed", "encode, manifests, one changed",
        "create on a folder, one record", "decode, one record", "size, one record",
    }  # fmt: skip
    assert all(figure["value"] > 0 for figure in figures)
