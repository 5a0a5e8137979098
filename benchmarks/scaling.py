"""Measure one batch of many rows on a standalone Spark cluster with one and with two executors of one core each.

    .venv/bin/python benchmarks/scaling.py [--rows 10000000] [--keys 1000000] [--rounds 3] [--json FILE]

Each round starts both clusters in turn, gives each a small batch first, which starts its executors, and then the batch
that counts. Its time is `batchDuration`: from the plan to the commit, with everything that is read and written. The
states of both must be equal. Driver, master and executors share this machine.
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

from events import machine

from tests.servers import spark_cluster
from tests.servers.spark_cluster import SparkCluster

FILES = 16
PROGRAM = """
import json, sys
import tidemill as tm
from tidemill.repository import Repository

kind, folder, root, conf = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

def add(batchTime, k, row, state):
    state.update((state.getOption or 0.0) + row.v)

p = tm.Pipeline("scaling")
rows = p.read(tm.Files(folder, format="parquet", schema="k bigint, v double"))
if kind == "agg":
    rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="s")
else:
    rows.groupBy("k").mapWithState(
        tm.StateSpec.function(add), name="s", stateSchema="double", outputSchema="k bigint"
    )
r = tm.open(p, root=root, conf=conf)
if r.context.refs_log.read() is None:
    r.init()
(done,) = r.run(engine="spark", tasks=int(conf["tasks"]) if "tasks" in conf else "auto")
print(json.dumps({"ms": done.batchDuration, "rows": done.numInputRows, "durations": done.durationMs}))
"""
SUM = """
import sys
import pyarrow.compute as pc
import tidemill as tm
state = tm.read(sys.argv[1], "scaling").state("s")
column = state["state"] if "state" in state.column_names else state["total"]
print(state.num_rows, repr(pc.sum(column.sort() if hasattr(column, "sort") else column).as_py()))
"""


def make_rows(folder: Path, rows: int, keys: int) -> None:
    """Write the files of a batch. Values are whole numbers, so that sums do not depend on their order."""
    folder.mkdir()
    each = rows // FILES
    for number in range(FILES):
        n = pa.array(range(number * each, (number + 1) * each), pa.int64())
        mixed = pc.bit_wise_and(pc.multiply(n, 2_654_435_761), (1 << 40) - 1)
        k = pc.subtract(mixed, pc.multiply(pc.divide(mixed, keys), keys))
        v = pc.cast(pc.bit_wise_and(n, 1023), pa.float64())
        pq.write_table(pa.table({"k": k, "v": v}), folder / f"{number:02}.parquet")


def measured(kind: str, executors: int, place: Path, data: Path) -> tuple[dict[str, Any], str]:
    """Return what the batch said, and a summary of the state."""
    inbox, root = place / "in", place / "root"
    inbox.mkdir(parents=True)
    pq.write_table(pa.table({"k": pa.array([1], pa.int64()), "v": [1.0]}), inbox / "first.parquet")
    with SparkCluster(workers=executors) as cluster:
        conf = {**cluster.conf, "tidemill.shared_folders": f"{place}:{data}", "spark.executor.memory": "768m"}
        environment = cluster.driver_environment

        def run() -> dict[str, Any]:
            command = [sys.executable, "-c", PROGRAM, kind, str(inbox), str(root), json.dumps(conf)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr[-3000:])
            return dict(json.loads(done.stdout.splitlines()[-1]))

        run()
        for file in data.iterdir():
            os.link(file, inbox / file.name)
        said = run()
    summary = subprocess.run([sys.executable, "-c", SUM, str(root)], capture_output=True, text=True, check=True).stdout
    return said, summary.strip()


def main() -> None:
    """Measure, compare the states, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="agg,mapWithState")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
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
                    said, summary = measured(kind, executors, place, data)
                    states.add(summary)
                    times.setdefault((kind, executors), []).append(said["ms"])
                    print(f"{kind}, {executors} executors: {said['ms']:,} ms", flush=True)
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
