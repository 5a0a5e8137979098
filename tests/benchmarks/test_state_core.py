"""The benchmark of the state core still runs, and ours, the hash map and the JVM still come to the same results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SIZES = {
    "--runs": 1, "--keys": 5_000, "--text-keys": 2_000, "--jvm-keys": 1_000, "--jvm-heap": "256m", "--batch": 1_000,
    "--small": 50, "--batches": 4,
}  # fmt: skip


@pytest.mark.servers("run a JVM")
def test_every_row_of_the_table_is_measured(tmp_path: Path) -> None:
    program, found = Path(__file__).parents[2] / "benchmarks" / "state_core.py", tmp_path / "figures.json"
    sizes = [str(word) for pair in SIZES.items() for word in pair]
    subprocess.run([sys.executable, str(program), *sizes, "--json", str(found)], check=True, cwd=tmp_path)
    figures = json.loads(found.read_text())["figures"]
    assert {figure["what"] for figure in figures} >= {
        "random updates, u64 keys", "random updates, 16-byte keys", "small batch", "small batches, one after the other",
        "get, 20 versions deep", "fork",
        "due rows", "many small batches", "agg of ten rows a key", "delta of random u64 keys, int counter",
        "memory a key", "opened again, first get", "Python calls a record",
    }  # fmt: skip
    assert all(figure["value"] > 0 for figure in figures)
