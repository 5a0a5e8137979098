"""Measure what joining published files costs, and what readers of the sink gain.

    .venv/bin/python benchmarks/compact_sinks.py [--batches 1000] [--rows 1000] [--reads 5] [--json FILE]

A pipeline publishes one small Parquet file a batch. Then `maintain(compact_sinks=True)` joins them. DuckDB and pyarrow
sum a column of the sink before and after, in turn; both must find the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset as ds
from events import SCHEMA, machine, write_batch

import tidemill as tm


def duckdb_sum(sink: Path) -> tuple[int, float]:
    """Return the number of rows and a sum, as DuckDB finds them."""
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT count(*), sum(total) FROM read_parquet('{sink}/*.parquet')").fetchone()
    assert found is not None
    return found[0], found[1]


def pyarrow_sum(sink: Path) -> tuple[int, float]:
    """Return the same, as pyarrow finds it."""
    table = ds.dataset(sink, format="parquet").to_table(columns=["total"])
    return table.num_rows, pc.sum(table["total"]).as_py()


def timed(read: Callable[[Path], tuple[int, float]], sink: Path, reads: int) -> tuple[list[float], tuple[int, float]]:
    """Return the seconds of each read, and what was found."""
    seconds = []
    for _ in range(reads):
        started = time.perf_counter()
        found = read(sink)
        seconds.append(time.perf_counter() - started)
    return seconds, found


def measured(base: Path, batches: int, rows: int, reads: int) -> dict[str, Any]:
    """Return all figures of one repository."""
    events, sink = base / "events", base / "sink"
    events.mkdir()
    for number in range(batches):
        write_batch(events, number, rows)
    p = tm.Pipeline("bench")
    source = p.read(tm.Files(str(events), schema=SCHEMA, maxFilesPerTrigger=1))
    source.groupBy("key").agg(n=tm.count(), total=tm.sum("value"), name="op").write(tm.Parquet(str(sink)))
    repository = tm.open(p, root=str(base / "root"), conf={"tidemill.disk_cache_bytes": 0})
    repository.init()
    repository.run(engine="local")
    figures: dict[str, Any] = {"machine": machine(), "batches": batches, "rows": rows}
    for moment in ("before", "after"):
        if moment == "after":
            started = time.perf_counter()
            report = repository.maintain(compact_sinks=True)
            figures["maintain_s"] = time.perf_counter() - started
            figures["compacted"] = [[one.files_before, one.files_after] for one in report.compacted]
            started = time.perf_counter()
            assert repository.maintain(compact_sinks=True).compacted == []
            figures["again_s"] = time.perf_counter() - started
        files = list(sink.glob("*.parquet"))
        figures[moment] = {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}
        for name, read in (("duckdb", duckdb_sum), ("pyarrow", pyarrow_sum)):
            seconds, found = timed(read, sink, reads)
            figures[moment][name] = {"median_s": statistics.median(seconds), "spread_s": [min(seconds), max(seconds)]}
            assert figures.setdefault("found", list(found)) == list(found)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--reads", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), given.batches, given.rows, given.reads)
    print(figures["machine"])
    for moment in ("before", "after"):
        one = figures[moment]
        reads = ", ".join(f"{name} {1000 * one[name]['median_s']:.0f} ms" for name in ("duckdb", "pyarrow"))
        print(f"{moment}: {one['files']:,} files, {one['bytes']:,} bytes, {reads}")
    print(f"maintain: {figures['maintain_s']:.2f} s; with nothing to do: {figures['again_s']:.2f} s")
    if given.json:
        given.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
