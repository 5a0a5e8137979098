"""Measure in a running session an empty sweep, and batches of 10 k and 1 M rows through `.agg`.

    python benchmarks/first_light.py [--runs 9] [--peer]

Prints medians of wall seconds and rows/s on Spark and on the local engine. With --peer, Spark Structured Streaming with
RocksDB and with HDFS-backed state reads equal files in the same run, in turn with Tidemill: half of the runs of each,
then the other half. The final state of Tidemill, and the peer's last rows by key, must equal DuckDB's sums before a
figure is printed. No time makes the program fail. `cold.py` measures cold starts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import peer as peer_streaming
from events import KEYS, SCHEMA, machine, show, write_batch

import tidemill as tm


def pipeline(folder: Path) -> tm.Pipeline:
    """Return a pipeline that counts and sums by key."""
    p = tm.Pipeline("bench")
    events = p.read(tm.Files(str(folder), schema=SCHEMA, maxFilesPerTrigger=1))
    events.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="agg")
    return p


def batches(engine: str, spark: object, rows: int, runs: int) -> list[float]:
    """Return the seconds of each warm batch, from planning to published, one run for each batch."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        repository = tm.open(pipeline(folder), root=f"{base}/root")
        repository.init()
        seconds = []
        for number in range(runs + 3):
            write_batch(folder, number, rows)
            started = time.perf_counter()
            (progress,) = repository.run(spark=spark, engine=engine)
            seconds.append(time.perf_counter() - started)
            assert progress.numInputRows == rows
        check(repository, folder)
        return seconds[3:]


def check(repository: tm.Repository, folder: Path) -> None:
    """Check that the state equals a plain aggregate over all files."""
    import duckdb

    expected = duckdb.sql(f"SELECT count(*), sum(value), count(DISTINCT key) FROM '{folder}/0*.parquet'").fetchall()[0]
    state = repository.state("agg")
    columns = state.column_names
    counts = state.column(columns[1]).to_numpy()
    sums = state.column(columns[2]).to_numpy()
    assert (int(counts.sum()), float(sums.sum()), state.num_rows) == tuple(expected), "wrong result"


def sweeps(engine: str, spark: object, runs: int) -> list[float]:
    """Return the seconds of sweeps that find nothing due."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        repository = tm.open(pipeline(folder), root=f"{base}/root")
        repository.init()
        write_batch(folder, 0, 10_000)
        repository.run(spark=spark, engine=engine)
        seconds = []
        for _ in range(runs):
            started = time.perf_counter()
            assert repository.sweep(spark=spark, engine=engine) == []
            seconds.append(time.perf_counter() - started)
        return seconds


def peer(store: str, rows: int, runs: int) -> list[float]:
    """Return the seconds of each warm micro-batch of Structured Streaming over the same files, one file each."""
    with tempfile.TemporaryDirectory(prefix="tidemill-peer-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        for number in range(runs + 3):
            write_batch(folder, number, rows)
        measured = peer_streaming.seconds(folder, "agg", store, f"{base}/out")
        check_peer(folder, f"{base}/out")
        return measured[3:]


def check_peer(folder: Path, out: str) -> None:
    """Check that the peer's last row of each key equals a plain aggregate over all files."""
    import duckdb

    expected = duckdb.sql(f"SELECT count(*), sum(value), count(DISTINCT key) FROM '{folder}/0*.parquet'").fetchall()[0]
    last = f"SELECT max_by(n, batch) AS n, max_by(s, batch) AS s FROM '{out}/batch=*/*.parquet' GROUP BY key"
    found = duckdb.sql(f"SELECT sum(n), sum(s), count(*) FROM ({last})").fetchall()[0]
    assert tuple(map(float, found)) == tuple(map(float, expected)), f"the peer returned {found}, expected {expected}"


def main() -> None:
    """Run the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="batches and sweeps of each kind")
    parser.add_argument("--peer", action="store_true", help="measure Structured Streaming too")
    given = parser.parse_args()
    print(f"{machine()}, medians of {given.runs}")
    from tidemill.engines.session import start

    spark = start({})
    for engine, session in (("local", None), ("spark", spark)):
        show(f"{engine}: empty sweep", sweeps(engine, session, given.runs))
    for rows in (10_000, 1_000_000):
        show(f"local: .agg, {rows:,} rows, {KEYS:,} keys", batches("local", None, rows, given.runs), rows)
        found: dict[str, list[float]] = {}
        for half in (given.runs // 2, given.runs - given.runs // 2):
            found.setdefault(f"spark: .agg, {rows:,} rows, {KEYS:,} keys", []).extend(
                batches("spark", spark, rows, half)
            )
            for store in ("rocksdb", "hdfs") if given.peer else ():
                name = f"Structured Streaming ({store}), {rows:,} rows"
                found.setdefault(name, []).extend(peer(store, rows, half))
        for name, seconds in found.items():
            show(name, seconds, rows)
    spark.stop()


if __name__ == "__main__":
    main()
