"""The benchmark of requests on S3 still runs, and it finds the longest chain of spans."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.s3_proxy import longest_chain


@pytest.mark.servers("use an S3 server")
def test_every_action_is_measured(tmp_path: Path) -> None:
    program, found = Path(__file__).parents[2] / "benchmarks" / "requests.py", tmp_path / "figures.json"
    small = ["--rounds", "1", "--keys", "100", "--rows", "10", "--delay-ms", "0", "--tasks", "1", "2"]
    subprocess.run([sys.executable, str(program), *small, "--json", str(found)], check=True, cwd=tmp_path)
    figures = json.loads(found.read_text())["figures"]
    assert {(figure["what"], figure["tasks"]) for figure in figures} == {
        (what, tasks) for what in ("batch", "idle run", "open, batch", "open, idle run") for tasks in (1, 2)
    }
    for figure in figures:
        assert 0 < figure["chain"] <= figure["requests"] and figure["bytes"] > 0
        assert ("COPY" in figure["kinds"]) == figure["what"].endswith("batch")


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 2), (1, 3), (2, 4)], 2), ([(0, 9), (1, 2), (2, 3), (3, 4)], 3), ([(0, 1), (0, 1), (0, 1)], 1)],
)
def test_a_chain_has_no_requests_that_overlap(spans: list[tuple[float, float]], length: int) -> None:
    assert longest_chain(spans) == length
