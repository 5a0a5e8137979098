"""Measure operators beside Structured Streaming: same files, same functions, in turn, with equal results.

    python benchmarks/operators.py [--runs 5] [--only NAME …] [--no-peer] [--queries NAME …] [--peer-rows N] [--warm 2]
        [--batches 200]

Tidemill runs on local Spark (two cores) and on the local engine (one task). The peer runs with RocksDB and, if Spark
allows it, with HDFS-backed state. Seconds are those of a warm batch: from planning to published for Tidemill, and
Spark's own `triggerExecution` for the peer. Results are compared before figures are printed. No time makes the program
fail.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import alone
import duckdb
import peer
from events import KEYS, SCHEMA, machine, show, write_batch, write_each_key

import tidemill as tm

CORES = os.cpu_count() or 1
WARM = 2
"""Uncounted first batches of each run, unless `--warm` says otherwise."""


def total(batchTime: int, key: str, value: float, state: Any) -> tuple[str, float]:
    """Return a running total by key: one call for each record."""
    new = (state.getOption or 0.0) + value
    state.update(new)
    return key, new


def totals_of_records(events: tm.Stream) -> tm.Stream:
    """Return the stream of `total` for each record."""
    return events.groupBy("key").mapWithState(
        tm.StateSpec.function(total), "double", "key string, total double", value="value", name="op"
    )


def total_of_rows(key: str, rows: Any, state: Any) -> Any:
    """Yield the total after all rows of a key, in the form that `flatMapGroupsWithState` calls."""
    new = state.getOption or 0.0
    for row in rows:
        new += row.value
    state.update(new)
    yield key, new


@dataclass(frozen=True)
class Comparison:
    """One operator of Tidemill, and the queries of the peer that do the same."""

    name: str
    ours: Callable[[tm.Stream], tm.Stream]
    peers: Sequence[tuple[str, str]]
    """Pairs of query and state store."""
    rows: int
    peer_rows: int
    """Rows of a micro-batch of the peer: fewer if a batch would take minutes."""
    last_by: str = "key"
    """Columns whose last emitted row is compared."""
    value: str = "total"
    """Column that is compared."""
    where: str = "true"
    """SQL condition on the rows that are compared; `{batches}` is the number of batches."""
    row_by_row: bool = False
    """Whether both sides emit equally many rows."""
    distinct: bool = False
    """Whether each row of a batch has its own key."""
    alone: Callable[[Path], float] | None = None
    """Return the seconds that the user's code takes by itself for the rows of a file, on one core."""


NATIVE = 1_000_000
FUNCTIONS = 200_000
PEER_FUNCTIONS = 20_000

COMPARISONS = [
    Comparison(
        "mapWithState",
        totals_of_records,
        [("apply-in-pandas", "rocksdb"), ("transform", "rocksdb")],
        FUNCTIONS,
        PEER_FUNCTIONS,
    ),
    # As above, but with one row for each key, so that the peer also calls its function once for each row.
    Comparison(
        "a key a row: mapWithState",
        totals_of_records,
        [("transform", "rocksdb"), ("apply-in-pandas", "rocksdb")],
        PEER_FUNCTIONS,
        PEER_FUNCTIONS,
        row_by_row=True,
        distinct=True,
    ),
    Comparison(
        "flatMapGroupsWithState",
        lambda s: s.groupBy("key").flatMapGroupsWithState(
            total_of_rows, "key string, total double", "double", "update", name="op"
        ),
        [("apply-in-pandas", "rocksdb"), ("transform", "rocksdb")],
        FUNCTIONS,
        PEER_FUNCTIONS,
    ),
    Comparison(
        "applyInPandasWithState",
        lambda s: s.groupBy("key").applyInPandasWithState(
            peer.total_in_pandas, peer.OUTPUT, peer.STATE, "update", "NoTimeout", name="op"
        ),
        [("apply-in-pandas", "rocksdb")],
        PEER_FUNCTIONS,
        PEER_FUNCTIONS,
        alone=lambda file: alone.function_alone(peer.total_in_pandas, file),
    ),
    Comparison(
        "transformWithState",
        lambda s: s.groupBy("key").transformWithState(
            peer.processor(tm.StatefulProcessor, False), peer.OUTPUT, "Update", "None", name="op"
        ),
        [("transform", "rocksdb")],
        FUNCTIONS,
        PEER_FUNCTIONS,
        alone=lambda file: alone.processor_alone(peer.processor(tm.StatefulProcessor, False), file, as_frames=False),
    ),
    Comparison(
        "transformWithStateInPandas",
        lambda s: s.groupBy("key").transformWithStateInPandas(
            peer.processor(tm.StatefulProcessor, True), peer.OUTPUT, "Update", "None", name="op"
        ),
        [("transform-in-pandas", "rocksdb")],
        PEER_FUNCTIONS,
        PEER_FUNCTIONS,
        alone=lambda file: alone.processor_alone(peer.processor(tm.StatefulProcessor, True), file, as_frames=True),
    ),
    Comparison(
        "session windows",
        lambda s: (
            s.withWatermark("ts", "30 seconds")
            .groupBy(tm.session_window("ts", "10 seconds"), "key")
            .agg(n=tm.count(), s=tm.sum("value"), name="op", outputMode="append")
        ),
        [("sessions", "rocksdb")],
        NATIVE,
        NATIVE,
        last_by="key, session_window",
        # With `availableNow`, Spark's watermark lags one batch more, so its last sessions are not emitted yet.
        where='epoch(session_window."end") <= 1700000000 + ({batches} - 2) * 60',
        value="s",
        row_by_row=True,
    ),
    Comparison(
        "dropDuplicatesWithinWatermark",
        lambda s: s.withWatermark("ts", "1 hour").dropDuplicatesWithinWatermark(["key"], name="op"),
        [("dedup", "rocksdb")],
        NATIVE,
        NATIVE,
        value="1",
        row_by_row=True,
    ),
    Comparison(
        "agg",
        lambda s: s.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="op"),
        [("agg", "rocksdb"), ("agg", "hdfs")],
        NATIVE,
        NATIVE,
        value="s",
        row_by_row=True,
    ),
]


def fill(folder: Path, batches: int, rows: int, distinct: bool = False) -> None:
    """Write the files of `batches` batches."""
    folder.mkdir()
    for number in range(batches):
        write_batch(folder, number, rows, distinct=distinct)


def ours(comparison: Comparison, engine: str, spark: Any, rows: int, runs: int, warm: int) -> tuple[list[float], Any]:
    """Return the seconds of each batch after `warm` first batches, and a digest of the output."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(base) / "events"
        folder.mkdir()
        p = tm.Pipeline("bench")
        comparison.ours(p.read(tm.Files(str(folder), schema=SCHEMA, maxFilesPerTrigger=1)))
        repository = tm.open(p, root=f"{base}/root")
        repository.init()
        seconds, emitted = [], []
        for number in range(warm + runs):
            write_batch(folder, number, rows, distinct=comparison.distinct)
            started = time.perf_counter()
            (progress,) = repository.run(spark=spark, engine=engine)
            seconds.append(time.perf_counter() - started)
            assert progress.numInputRows == rows
        emitted.extend(repository.outputs(version=version) for version in range(warm + runs))
        return seconds[warm:], digest_of(comparison, emitted)


def theirs(comparison: Comparison, query: str, store: str, rows: int, runs: int, warm: int) -> tuple[list[float], Any]:
    """Return the same for the peer."""
    with tempfile.TemporaryDirectory(prefix="tidemill-peer-") as base:
        folder = Path(base) / "events"
        fill(folder, warm + runs, rows, comparison.distinct)
        seconds = peer.seconds(folder, query, store, f"{base}/out")
        emitted = [
            duckdb.sql(f"SELECT * FROM '{base}/out/batch={number}/*.parquet'").to_arrow_table()
            for number in range(warm + runs)
        ]
        return seconds[warm:], digest_of(comparison, emitted)


def by_itself(comparison: Comparison, rows: int, batches: int) -> list[float]:
    """Return the seconds of the user's code alone, for each of `batches` files."""
    assert comparison.alone is not None
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(base) / "events"
        fill(folder, batches, rows)
        return [comparison.alone(file) for file in sorted(folder.iterdir())]


def digest_of(comparison: Comparison, emitted: Sequence[Any]) -> tuple[Any, ...]:
    """Return the number of keys, the sum of their last values, and the number of rows.

    The last value of a key is its greatest, because totals only grow.
    """
    by, value, where = comparison.last_by, comparison.value, comparison.where.format(batches=len(emitted))
    with duckdb.connect() as connection:
        for number, table in enumerate(emitted):
            connection.register(f"batch_{number}", table)
        each = (f"SELECT {by}, {value} AS v FROM batch_{number} WHERE {where}" for number in range(len(emitted)))
        rows = " UNION ALL ".join(each)
        last = f"SELECT {by}, max(v) AS v FROM ({rows}) GROUP BY ALL"
        found = connection.sql(f"SELECT count(*), sum(v) FROM ({last})").fetchall()[0]
        count = connection.sql(f"SELECT count(*) FROM ({rows})").fetchall()[0]
    return (*found, count if comparison.row_by_row else None)


def compare(comparison: Comparison, spark: Any, runs: int, warm: int, asked: int | None) -> None:
    """Measure Tidemill and the peer in turn and print figures. Digests of the same input must be equal.

    `asked` replaces the comparison's number of rows of the peer.
    """
    peer_rows = asked or comparison.peer_rows
    found: dict[tuple[str, int], list[float]] = {}
    digests: dict[int, set[tuple[Any, ...]]] = {}

    def note(what: str, rows: int, measured: tuple[list[float], Any]) -> None:
        found.setdefault((what, rows), []).extend(measured[0])
        digests.setdefault(rows, set()).add(measured[1])

    for half in (max(1, runs // 2), max(1, runs - runs // 2)):
        for rows in sorted({comparison.rows, peer_rows}):
            note("ours, Spark", rows, ours(comparison, "spark", spark, rows, half, warm))
            note("ours, local", rows, ours(comparison, "local", None, rows, half, warm))
        for query, store in comparison.peers:
            rows = peer_rows
            note(f"{query} ({store})", rows, theirs(comparison, query, store, rows, half, warm))
        if comparison.alone is not None:
            seconds = by_itself(comparison, peer_rows, half)
            found.setdefault(("the user's code alone", peer_rows), []).extend(seconds)
        for rows, seen in digests.items():
            assert len(seen) == 1, f"{comparison.name}, {rows} rows: results differ: {seen}"
        digests.clear()
    for (what, rows), seconds in found.items():
        show(f"{comparison.name}, {rows:,} rows: {what}", seconds, rows)
    rate = {key: key[1] / statistics.median(seconds) for key, seconds in found.items()}
    for (what, rows), of_peer in rate.items():
        if not what.startswith(("ours", "the user's")):
            same, best = rate["ours, Spark", rows] / of_peer, rate["ours, Spark", comparison.rows] / of_peer
            print(f"    ours on Spark, rows/s against {what}: {same:.1f}x ({rows:,} rows), {best:.1f}x", flush=True)
            if comparison.alone is not None:
                most = CORES * rate["the user's code alone", rows] / of_peer
                print(f"    the user's code alone, {CORES} cores, against {what}: {most:.1f}x at most", flush=True)


def with_peers(comparison: Comparison, given: argparse.Namespace) -> Comparison:
    """Return the comparison with only those peers that the command line names."""
    wanted = [] if given.no_peer else given.queries
    return replace(comparison, peers=[one for one in comparison.peers if wanted is None or one[0] in wanted])


def of_totals(base: Path) -> tuple[Path, tm.Repository]:
    """Return a folder for events, and a repository that counts and sums them by key."""
    folder = base / "events"
    folder.mkdir(parents=True)
    p = tm.Pipeline("bench")
    events = p.read(tm.Files(str(folder), schema=SCHEMA, maxFilesPerTrigger=1))
    events.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="op")
    repository = tm.open(p, root=f"{base}/root")
    repository.init()
    return folder, repository


def growth(spark: Any, runs: int) -> None:
    """Measure a batch of 10,000 rows into a state of 100 k keys and into one of 10 M keys, in turn."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        states = []
        for keys in (KEYS, 100 * KEYS):
            folder, repository = of_totals(Path(base) / str(keys))
            for number in range(10):
                write_batch(folder, number, keys // 4, keys)
                repository.run(spark=spark, engine="spark")
            states.append((keys, folder, repository, list[float]()))
        for number in range(10, 10 + WARM + runs):
            for keys, folder, repository, seconds in states:
                write_batch(folder, number, 10_000, keys)
                started = time.perf_counter()
                repository.run(spark=spark, engine="spark")
                seconds.append(time.perf_counter() - started)
        for _, _, repository, seconds in states:
            rows = repository.state("op").num_rows
            show(f"agg, 10,000 rows into {rows:,} keys: ours, Spark", seconds[WARM:], 10_000)
        small, large = (statistics.median(seconds[WARM:]) for _, _, _, seconds in states)
        print(f"    a hundred times the state: {large / small:.2f}x", flush=True)


def many_small(engine: str, spark: Any, keys: int, batches: int) -> None:
    """Measure batches of 10,000 rows into a large state: some of them merge runs."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder, repository = of_totals(Path(base))
        write_each_key(folder, 0, keys)
        repository.run(spark=spark, engine=engine)
        seconds = []
        for number in range(1, 1 + WARM + batches):
            write_batch(folder, number, 10_000, keys)
            started = time.perf_counter()
            repository.run(spark=spark, engine=engine)
            seconds.append(time.perf_counter() - started)
        seconds = seconds[WARM:]
        assert repository.state("op").num_rows == keys
        what = "ours, Spark" if engine == "spark" else "ours, local"
        show(f"agg, 10,000 rows into {keys:,} keys, {batches} batches: {what}", seconds, 10_000)
        slowest = ", ".join(f"{one * 1000:.0f}" for one in sorted(seconds)[-5:])
        ratio = max(seconds) / statistics.median(seconds)
        print(f"    slowest against median: {ratio:.2f}x (the five slowest: {slowest} ms)", flush=True)


def main() -> None:
    """Run the comparisons that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted batches of each comparison")
    parser.add_argument("--only", nargs="*", default=[], help="comparisons to run, or `growth`, `many small`")
    parser.add_argument("--no-peer", action="store_true", help="measure Tidemill only")
    parser.add_argument("--queries", nargs="*", help="queries of the peer, such as `transform`; all by default")
    parser.add_argument("--peer-rows", type=int, help="rows of a batch of the peer")
    parser.add_argument("--warm", type=int, default=WARM, help="uncounted first batches of each run")
    parser.add_argument("--batches", type=int, default=200, help="number of batches of `many small`")
    given = parser.parse_args()
    print(f"{machine()}, medians of {given.runs} batches")
    from tidemill.engines.session import start

    spark = start({})
    for comparison in COMPARISONS:
        if not given.only or comparison.name in given.only:
            compare(with_peers(comparison, given), spark, given.runs, given.warm, given.peer_rows)
    if not given.only or "growth" in given.only:
        growth(spark, given.runs)
    if not given.only or "many small" in given.only:
        many_small("spark", spark, 100 * KEYS, given.batches)
        many_small("local", None, 100 * KEYS, given.batches)
    spark.stop()


if __name__ == "__main__":
    main()
