"""Measure batches of many rows on a standalone Spark cluster with one and with two executors of one core each.

    .venv/bin/python benchmarks/scaling.py [--rows 10000000] [--keys 1000000] [--rounds 3] [--loose]
        [--conf spark.shuffle.compress=false …] [--json FILE]

Each round starts both clusters in turn. One driver runs a batch of a tenth of the rows first, with an exchange, which
warms up the executors, and then six batches that count. Their time is `batchDuration`: from the plan to the commit,
with everything that is read and written. The states of both must be equal. Each worker, with its executor and that
one's Python process, is pinned to a core of its own, unless `--loose` is given: an executor "of one core" otherwise
uses two here, for its JVM and for Python. Driver and master use both cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from events import KEYED, machine

from tests.servers import spark_cluster
from tests.servers.spark_cluster import SparkCluster, Worker

FILES = 16
PROGRAM = (
    KEYED
    + """
import json, os, sys
from pathlib import Path
import tidemill as tm

kind, data, folder, root, conf = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5])

p = tm.Pipeline("scaling")
files = sorted(data.iterdir())
rows = p.read(tm.Files(str(folder), format="parquet", schema="k bigint, v double", maxFilesPerTrigger=len(files) - 1))
keyed(rows, kind)
r = tm.open(p, root=root, conf=conf)
r.init()
os.link(files[0], folder / "first.parquet")
(warm,) = r.run(engine="spark", tasks=2)
for batch in range(6):
    for file in files[1:]:
        os.link(file, folder / f"{batch}-{file.name}")
done = r.run(engine="spark")
print(json.dumps([
    {"ms": one.batchDuration, "rows": one.numInputRows, "tasks": one.stateOperators[0]["numShufflePartitions"],
     "durations": one.durationMs}
    for one in done
]))
"""
)
SUM = """
import sys
import pyarrow.compute as pc
import tidemill as tm
state = tm.read(sys.argv[1], "scaling").state("s")
column = state["state"] if "state" in state.column_names else state["total"]
print(state.num_rows, repr(pc.sum(column.sort() if hasattr(column, "sort") else column).as_py()))
"""


def make_rows(folder: Path, rows: int, keys: int) -> None:
    """Write a file to warm up with, and those of a batch. Values are whole, so sums do not depend on their order."""
    folder.mkdir()
    each = rows // FILES
    for number in range(FILES + 1):
        n = pa.array(range(number * each, (number + 1) * each), pa.int64())
        mixed = pc.bit_wise_and(pc.multiply(n, 2_654_435_761), (1 << 40) - 1)
        k = pc.subtract(mixed, pc.multiply(pc.divide(mixed, keys), keys))
        v = pc.cast(pc.bit_wise_and(n, 1023), pa.float64())
        pq.write_table(pa.table({"k": k, "v": v}), folder / f"{number:02}.parquet")


def pin(worker: Worker, core: int) -> None:
    """Pin a worker to a core, with everything that it starts from now on."""
    for thread in Path(f"/proc/{worker.process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def measured(
    kind: str, executors: int, place: Path, data: Path, pinned: bool, more: dict[str, str]
) -> tuple[list[dict[str, Any]], str]:
    """Return what the batches said, and a summary of the state."""
    inbox, root = place / "in", place / "root"
    inbox.mkdir(parents=True)
    with SparkCluster(workers=executors) as cluster:
        for core, worker in enumerate(cluster.workers if pinned else ()):
            pin(worker, core)
        conf = {**cluster.conf, "tidemill.shared_folders": f"{place}:{data}", "spark.executor.memory": "768m"} | more
        command = [sys.executable, "-c", PROGRAM, kind, str(data), str(inbox), str(root), json.dumps(conf)]
        done = subprocess.run(command, env=cluster.driver_environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        said = list(json.loads(done.stdout.splitlines()[-1]))
    summary = subprocess.run([sys.executable, "-c", SUM, str(root)], capture_output=True, text=True, check=True).stdout
    return said, summary.strip()


def main() -> None:
    """Measure, compare the states, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="agg,mapWithState")
    parser.add_argument("--loose", action="store_true", help="do not pin workers to cores")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, as NAME=VALUE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    more = dict(one.split("=", 1) for one in options.conf)
    if lacks := spark_cluster.missing():
        raise SystemExit(lacks)
    times: dict[tuple[str, int], list[int]] = {}
    figures = []
    with tempfile.TemporaryDirectory(prefix="tidemill-scaling-") as folder:
        data = Path(folder) / "data"
        make_rows(data, options.rows, options.keys)
        for kind in options.kinds.split(","):
            for number in range(options.rounds):
                states = set()
                for executors in (1, 2) if number % 2 == 0 else (2, 1):
                    place = Path(folder) / f"{kind}-{number}-{executors}"
                    said, summary = measured(kind, executors, place, data, not options.loose, more)
                    states.add(summary)
                    found = [one["ms"] for one in said]
                    times.setdefault((kind, executors), []).extend(found)
                    print(f"{kind}, {executors} executors, {said[0]['tasks']} tasks: {found} ms", flush=True)
                if len(states) != 1:
                    raise SystemExit(f"the states differ: {states}")
            one, two = (statistics.median(times[kind, executors]) for executors in (1, 2))
            print(f"{kind}: {one:,.0f} ms with 1, {two:,.0f} ms with 2: {one / two:.2f} times as fast")
            figures.append({"what": kind, "one_ms": times[kind, 1], "two_ms": times[kind, 2], "ratio": one / two})
    print(machine())
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
