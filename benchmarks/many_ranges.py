"""Measure what key ranges and files cost a batch, and what a large state costs when no cache has it.

    python benchmarks/many_ranges.py [--keys 20000000] [--rounds 3]

The first table has small batches of S files cut into T ranges: each file sends a chunk to each range. The second has a
batch of 10,000 rows into a large state, with the cache on disk, and with no cache at all. Engine `local`, so that the
figures have no part of Spark's. docs/decisions/0020-scale.md extrapolates from them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from events import machine

import tidemill as tm

ROWS = 10_000
UNCACHED = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}


def pipeline(folder: Path) -> tm.Pipeline:
    """Return a pipeline that counts and sums by key."""
    p = tm.Pipeline("ranges")
    rows = p.read(tm.Files(str(folder), format="parquet", schema="k bigint, v double", maxFilesPerTrigger=100_000))
    rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="s")
    return p


def write(file: Path, first: int, rows: int, step: int = 1) -> None:
    """Write rows with the keys first, first + step, …"""
    k = pc.add(pc.multiply(pa.array(range(rows), pa.int64()), step), first)
    pq.write_table(pa.table({"k": k, "v": pc.cast(k, pa.float64())}), file)


def messages(files: int, ranges: int) -> None:
    """Run a batch of many small files, and print its time, and the size of its commit."""
    with tempfile.TemporaryDirectory(prefix="tidemill-ranges-") as base:
        folder = Path(base) / "in"
        folder.mkdir()
        for number in range(files):
            write(folder / f"{number:06}.parquet", number * 7, max(1, 50_000 // files), step=13)
        r = tm.open(pipeline(folder), root=f"{base}/root")
        r.init()
        (done,) = r.run(engine="local", tasks=ranges)
        commit = next((Path(base) / "root" / "ranges").rglob("commits/*0.json"))
        print(
            f"{files:,} files, {ranges} ranges: {done.batchDuration:,} ms, commit {commit.stat().st_size:,} bytes",
            flush=True,
        )


def large_state(keys: int, rounds: int) -> None:
    """Run small batches into a large state with and without caches, and print their times by the number of ranges."""
    with tempfile.TemporaryDirectory(prefix="tidemill-ranges-") as base:
        folder, each = Path(base) / "in", 5_000_000
        folder.mkdir()
        cached = {"tidemill.disk_cache_folder": f"{base}/cache"}
        place = {"root": f"{base}/root"}
        tm.open(pipeline(folder), conf=cached, **place).init()
        for number in range(keys // each):
            write(folder / f"{number:06}.parquet", number * each, each)
        (done,) = tm.open(pipeline(folder), conf=cached, **place).run(engine="local", tasks=16)
        stored = done.stateOperators[0]["memoryUsedBytes"]
        print(f"{keys:,} keys: {stored:,} bytes stored, {stored / keys:.1f} a key")
        number = 0
        for ranges in (16, 32, 128):
            found: dict[str, list[int]] = {}
            for _ in range(rounds):
                for name, conf in (("cached", cached), ("not cached", cached | UNCACHED)):
                    number += 1
                    write(folder / f"later-{number:06}.parquet", number, ROWS, step=keys // ROWS)
                    (done,) = tm.open(pipeline(folder), conf=conf, **place).run(engine="local", tasks=ranges)
                    found.setdefault(name, []).append(done.batchDuration)
            shown = ", ".join(f"{name} {statistics.median(ms):,.0f} ms {ms}" for name, ms in found.items())
            print(f"{ROWS:,} rows, {ranges} ranges: {shown}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(machine())
    for files, ranges in ((100, 8), (100, 128), (1_000, 8), (1_000, 128), (1_000, 512)):
        messages(files, ranges)
    large_state(given.keys, given.rounds)


if __name__ == "__main__":
    main()
