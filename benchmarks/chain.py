"""Time chains of two operators with and without the order of the plan behind the first.

    python benchmarks/chain.py [--rounds 7] [--rows 1000000]

A batch reads a million rows, removes duplicates, and gives the rows to a second operator: `last`, in Rust alone, or a
Python function for each row. The peer is the same code that does not send the places of rows, so that they reach the
second operator in the order of hashes. Both take turns in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from events import machine, show

import tidemill as tm
from tidemill.pipeline import job

SCHEMA = "k long, g long, n long"


def added(key, row, kept):
    """Add a number, and pass the row on."""
    kept.update((kept.getOption or 0) + row.n)
    return (row.k, row.g, row.n)


def pipeline(folder: str, second: str) -> tm.Pipeline:
    """Return a chain whose second operator is a function or an aggregate."""
    p = tm.Pipeline("chain")
    once = p.read(tm.Files(folder, format="parquet", schema=SCHEMA)).dropDuplicates(["k"], name="once")
    if second == "last":
        once.groupBy("g").agg(last=tm.last("n"), name="second")
    else:
        spec = tm.StateSpec.function(added)
        once.groupBy("g").mapWithState(spec, stateSchema="long", outputSchema=SCHEMA, name="second")
    return p


def seconds(folder: str, second: str, tasks: int) -> tuple[float, float]:
    """Return the time of the batch, and its processor time."""
    with tempfile.TemporaryDirectory() as root:
        r = tm.open(pipeline(folder, second), root=root)
        r.init()
        started, used = time.perf_counter(), time.process_time()
        r.run(engine="local", tasks=tasks)
        return time.perf_counter() - started, time.process_time() - used


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    chance = random.Random(1)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            count = asked.rows // 4
            columns = {
                "k": [chance.randrange(asked.rows) for _ in range(count)],
                "g": [chance.randrange(20_000) for _ in range(count)],
                "n": list(range(count)),
            }
            pq.write_table(pa.table(columns), Path(folder) / f"{number}.parquet")
        for second in ("last", "function"):
            for tasks in (1, 2):
                times: dict[str, list[tuple[float, float]]] = {"plan order": [], "order of hashes": []}
                for turn in range(asked.rounds):
                    for how in sorted(times, reverse=bool(turn % 2)):
                        with contextlib.ExitStack() as patched:
                            if how == "order of hashes":
                                plain = mock.patch.object(job, "_with_places", lambda made: made.operators)
                                patched.enter_context(plain)
                            times[how].append(seconds(folder, second, tasks))
                for how, found in times.items():
                    show(f"{second}, tasks {tasks}, {how}", [wall for wall, _ in found], asked.rows)
                for kind, of in (("time", 0), ("processor time", 1)):
                    ours, theirs = ([one[of] for one in found] for found in times.values())
                    pairs = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
                    print(
                        f"  takes {pairs:.3f} times as much {kind}; by the least of each {min(ours) / min(theirs):.3f}"
                    )


if __name__ == "__main__":
    main()
