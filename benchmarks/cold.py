"""Time one small batch as a whole process: `tidemill run` with each engine, and `spark-submit` of the same query.

    python benchmarks/cold.py [--runs 5]

A batch is one Parquet file of 10,000 rows, `.agg` (count, sum) by 100,000 keys. Each engine starts with an empty
`XDG_CACHE_HOME`; "spark after warm" has one that `tidemill warm` filled. The peer is Structured Streaming with
`availableNow` and its default state store, started by `spark-submit`. All are measured in turn, in the same run, and
their sums must equal DuckDB's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from events import machine, show, write_batch
from first_light import check_peer

import tidemill as tm

ROWS = 10_000
PIPELINE = """
import sys
sys.path.insert(0, {benchmarks!r})
from pathlib import Path
from first_light import pipeline
p = pipeline(Path({folder!r}))
"""


def ours(engine: str, cache: Path) -> float:
    """Return the seconds of `tidemill run` with one file."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder, root, file = Path(base) / "events", f"{base}/root", Path(base) / "job.py"
        folder.mkdir()
        write_batch(folder, 0, ROWS)
        file.write_text(PIPELINE.format(benchmarks=str(Path(__file__).parent), folder=str(folder)))
        tidemill = [sys.executable, "-m", "tidemill"]
        subprocess.run([*tidemill, "init", f"{file}:p", "--root", root], check=True, capture_output=True)
        run = [*tidemill, "run", f"{file}:p", "--root", root, "--engine", engine]
        started = time.perf_counter()
        subprocess.run(run, check=True, capture_output=True, env=environment)
        took = time.perf_counter() - started
        check_ours(root, folder)
        return took


def check_ours(root: str, folder: Path) -> None:
    """Check that the state equals a plain aggregate of the file."""
    import duckdb

    expected = duckdb.sql(f"SELECT count(*), sum(value), count(DISTINCT key) FROM '{folder}/*.parquet'").fetchall()[0]
    state = tm.read(root, "bench").state("agg")
    counts, sums = (state.column(state.column_names[place]).to_numpy() for place in (1, 2))
    found = int(counts.sum()), float(sums.sum()), state.num_rows
    assert found == tuple(expected), f"Tidemill returned {found}, expected {expected}"


def peers() -> float:
    """Return the seconds of `spark-submit` with the same file."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    with tempfile.TemporaryDirectory(prefix="tidemill-peer-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        write_batch(folder, 0, ROWS)
        command = [submit, str(Path(__file__).parent / "peer.py"), str(folder), "agg", "hdfs", f"{base}/out"]
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable})
        took = time.perf_counter() - started
        check_peer(folder, f"{base}/out")
        return took


def main() -> None:
    """Measure all in turn, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidemill-warm-") as warm:
        subprocess.run(
            [sys.executable, "-m", "tidemill", "warm"],
            check=True, capture_output=True, env={**os.environ, "XDG_CACHE_HOME": warm},
        )  # fmt: skip
        for _ in range(given.runs):
            for engine in ("auto", "local", "spark"):
                with tempfile.TemporaryDirectory(prefix="tidemill-cold-") as empty:
                    found.setdefault(engine, []).append(ours(engine, Path(empty)))
            found.setdefault("spark after warm", []).append(ours("spark", Path(warm)))
            found.setdefault("peer", []).append(peers())
    print(f"{machine()}, medians of {given.runs}")
    peer = statistics.median(found["peer"])
    for name, seconds in found.items():
        what = "spark-submit of an availableNow query" if name == "peer" else f"tidemill run, {name}"
        show(f"{what}: {peer / statistics.median(seconds):.1f} times as fast as the peer", seconds)


if __name__ == "__main__":
    main()
