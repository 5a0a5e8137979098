"""Measure `diff`, point reads and the history of one key on a large state, beside full scans by DuckDB.

    .venv/bin/python benchmarks/compare.py [--keys 10000000] [--batches 100] [--touched 1000] [--rounds 15]

A state of so many keys, then batches that each touch so many of them. `diff` compares the last two versions. DuckDB
reads the segments of both, keeps the newest row of each key, and joins the two versions. Both must find the same keys.
"warm" is in a process that has compared versions of this state before; "first" is the first call in a new process, with
the cache on disk. Needs 2 GB of disk and 6 GB of memory with 10 million keys.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from events import machine

import tidemill as tm

ASKED = 1_240
"""The key whose history is read. A few of the batches touch it."""


def pipeline(folder: Path) -> tm.Pipeline:
    p = tm.Pipeline("compare")
    source = tm.Files(str(folder / "in"), format="parquet", schema="k bigint, v bigint", maxFilesPerTrigger=1)
    p.read(source).groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="totals")
    return p


def opened(folder: Path) -> tm.Repository:
    return tm.open(pipeline(folder), root=str(folder / "root"))


def write(folder: Path, number: int, keys: pa.Array) -> None:
    (folder / "in").mkdir(exist_ok=True)
    table = pa.table({"k": keys, "v": pa.array([number] * len(keys), pa.int64())})
    pq.write_table(table, folder / "in" / f"{number:05d}.parquet", row_group_size=1 << 20)


def make(folder: Path, keys: int, batches: int, touched: int) -> None:
    """Build the state, and run the batches. Every tenth batch touches the key whose history is read."""
    write(folder, 0, pa.array(range(keys), pa.int64()))
    r = opened(folder)
    r.init()
    r.run(engine="local")
    step = keys // touched
    for number in range(1, batches + 1):
        chosen = [n * step + number for n in range(touched)]
        write(folder, number, pa.array([ASKED, *chosen] if number % 10 == 0 else chosen, pa.int64()))
        r.run(engine="local")


def measured(action: Callable[[], Any], rounds: int) -> tuple[list[float], Any]:
    """Return the times of an action, in ms, and its result."""
    times, found = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        found = action()
        times.append(1000 * (time.perf_counter() - started))
    return times, found


def scan(r: tm.Repository, version: int) -> str:
    """Return SQL for the whole state of a version: the newest row of each key among the segments of its commit."""
    commit = r.commit(version)
    (segments,) = commit.state["totals"].values()
    columns = "k, * EXCLUDE (k, updated_at, deadline)"
    parts = [
        f"SELECT {columns}, {one.sequence} AS sequence FROM '{r.opened.store.uri.removeprefix('file://')}/{one.name}'"
        for one in segments
    ]
    newest = " UNION ALL ".join(parts)
    return f"(SELECT * FROM ({newest}) QUALIFY row_number() OVER (PARTITION BY k ORDER BY sequence DESC) = 1)"


def full_scan(r: tm.Repository, before: int, after: int) -> int:
    """Return how many keys differ, by a full outer join of both versions."""
    values = "* EXCLUDE (k, sequence)"
    text = f"""
        WITH a AS (SELECT k, row(COLUMNS({values})) AS v FROM {scan(r, before)}),
             b AS (SELECT k, row(COLUMNS({values})) AS v FROM {scan(r, after)})
        SELECT count(*) FROM a FULL JOIN b USING (k) WHERE a.v IS DISTINCT FROM b.v"""
    return duckdb.sql(text).fetchall()[0][0]


def row(what: str, times: list[float], more: str = "") -> None:
    spread = f"{min(times):,.1f} to {max(times):,.1f} ms"
    print(f"{what:58} {statistics.median(times):10,.1f} ms   {spread}   {more}", flush=True)


FIRST = """
import sys, time
sys.path.insert(0, {benchmarks!r})
from pathlib import Path
from compare import opened
r = opened(Path({folder!r}))
started = time.perf_counter()
r.diff({before}, {after}, operator="totals")
print(1000 * (time.perf_counter() - started))
"""


def first_call(folder: Path, before: int, after: int) -> float:
    """Return the time of the first `diff` in a new process."""
    code = FIRST.format(benchmarks=str(Path(__file__).parent), folder=str(folder), before=before, after=after)
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--touched", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", help="keep the repository here, and use it again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        if not (folder / "root").exists():
            folder.mkdir(exist_ok=True, parents=True)
            make(folder, asked.keys, asked.batches, asked.touched)
        r = opened(folder)
        head = r.head.version
        print(machine())
        print(f"{asked.keys:,} keys, {head + 1} versions, {asked.touched:,} keys a batch")
        forks = []
        for number in range(asked.rounds):
            started = time.perf_counter()
            r.branch(f"fork-{number}")
            forks.append(1000 * (time.perf_counter() - started))
            r.drop_branch(f"fork-{number}")
        row("fork at the newest version", forks)
        times, ours = measured(lambda: r.diff(head - 1, head, operator="totals"), asked.rounds)
        row("diff of the last two versions, warm", times)
        row("the same, first call in a new process", [first_call(folder, head - 1, head) for _ in range(3)])
        scans, theirs = measured(lambda: full_scan(r, head - 1, head), 3)
        assert ours.total == theirs, (ours.total, theirs)
        ratio = statistics.median(scans) / statistics.median(times)
        row("full scan of both by DuckDB", scans, f"{ratio:,.0f} times as long")
        apart, wide = measured(lambda: r.diff(max(head - 50, 0), head, operator="totals"), 3)
        row(f"diff of versions 50 apart ({wide.total:,} keys differ)", apart)
        whole, wide = measured(lambda: r.diff(-1, head, operator="totals", limit=20), 1)
        row(f"diff with nothing shared ({wide.total:,} keys differ)", whole)
        for version in (0, head // 2, head):
            points, _ = measured(partial(r.state, "totals", version=version, keys=[ASKED]), asked.rounds)
            row(f"one key at version {version}, warm", points)
        found, versions = measured(lambda: r.history("totals", ASKED), asked.rounds)
        row(f"history of one key ({len(versions)} changes), warm", found)
        inputs, _ = measured(lambda: [one.rows for one in r.history("totals", ASKED)[-1:]], 3)
        row("the same, with the input rows of the last change", inputs)


if __name__ == "__main__":
    main()
