"""First figures: cold start to first commit; in a running session an empty sweep, 10 k and 1 M rows through `.agg`.

    python benchmarks/first_light.py [--runs 9] [--cold 3] [--peer]

Prints medians of wall seconds and rows/s, ours on Spark and on local, and with --peer Spark Structured Streaming
(RocksDB and HDFS-backed state) over files of the same content in the same run, in turn with ours: half of the runs of
each, then the other half. The state that comes out of all batches, and the peer's last rows by key, must equal DuckDB's
sums before a figure of theirs is printed. Cold start is a whole process, to its end. Nothing is asserted about a time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peer as peer_streaming
from events import KEYS, SCHEMA, machine, show, write_batch

import tidemill as tm


def pipeline(folder: Path) -> tm.Pipeline:
    """count and sum by key."""
    p = tm.Pipeline("bench")
    events = p.read(tm.Files(str(folder), schema=SCHEMA, maxFilesPerTrigger=1))
    events.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="agg")
    return p


def batches(engine: str, spark: object, rows: int, runs: int) -> list[float]:
    """Seconds of each warm batch: from planning to published, one run a batch, as a cadence has it."""
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
    """The state equals a plain aggregate over all files."""
    import duckdb

    expected = duckdb.sql(f"SELECT count(*), sum(value), count(DISTINCT key) FROM '{folder}/0*.parquet'").fetchall()[0]
    state = repository.state("agg")
    columns = state.column_names
    counts = state.column(columns[1]).to_numpy()
    sums = state.column(columns[2]).to_numpy()
    assert (int(counts.sum()), float(sums.sum()), state.num_rows) == tuple(expected), "wrong result"


def sweeps(engine: str, spark: object, runs: int) -> list[float]:
    """Seconds of a sweep that finds nothing due."""
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


def cold(engine: str, runs: int) -> list[float]:
    """Seconds of a whole `tidemill run` process with one file of 10 k rows: start to first commit and end."""
    seconds = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
            folder = Path(base) / "events"
            folder.mkdir()
            write_batch(folder, 0, 10_000)
            file = Path(base) / "job.py"
            file.write_text(
                f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom pathlib import Path\n"
                f"from first_light import pipeline\np = pipeline(Path({str(folder)!r}))\n"
            )
            arguments = [sys.executable, "-m", "tidemill"]
            place = [f"{file}:p", "--root", f"{base}/root"]
            subprocess.run([*arguments, "init", *place], check=True, capture_output=True)
            started = time.perf_counter()
            subprocess.run([*arguments, "run", *place, "--engine", engine], check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
    return seconds


def peer(store: str, rows: int, runs: int) -> list[float]:
    """Seconds of each warm micro-batch of Structured Streaming over the same files, one file a micro-batch."""
    with tempfile.TemporaryDirectory(prefix="tidemill-peer-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        for number in range(runs + 3):
            write_batch(folder, number, rows)
        measured = peer_streaming.seconds(folder, "agg", store, f"{base}/out")
        check_peer(folder, f"{base}/out")
        return measured[3:]


def check_peer(folder: Path, out: str) -> None:
    """The last row of each key that the peer gave equals a plain aggregate over all files."""
    import duckdb

    expected = duckdb.sql(f"SELECT count(*), sum(value), count(DISTINCT key) FROM '{folder}/0*.parquet'").fetchall()[0]
    last = f"SELECT max_by(n, batch) AS n, max_by(s, batch) AS s FROM '{out}/batch=*/*.parquet' GROUP BY key"
    found = duckdb.sql(f"SELECT sum(n), sum(s), count(*) FROM ({last})").fetchall()[0]
    assert tuple(map(float, found)) == tuple(map(float, expected)), f"the peer gave {found}, expected {expected}"


def main() -> None:
    """Runs everything that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--cold", type=int, default=3)
    parser.add_argument("--peer", action="store_true")
    given = parser.parse_args()
    print(f"{machine()}, medians of {given.runs}")
    for engine in ("local", "spark"):
        if given.cold:
            show(f"{engine}: cold start to end of first batch", cold(engine, given.cold))
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
