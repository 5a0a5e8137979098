"""Fill a state with many keys, batch by batch, on a standalone Spark cluster whose machines have little memory.

    .venv/bin/python benchmarks/memory.py [--rows 10000000] [--batches 5] [--memory 2g] [--task-memory 512m]

There are two workers with one core each. Each worker, with its executor and that one's Python process, is in a control
group that may use `--memory` and 256 MiB for Spark's worker itself; the kernel ends a process that needs more. Without
control groups (version 1, writable) nothing is enforced, and the program says so. Every batch but the last two has new
keys. The next to last updates keys of all others. In the last, half of the rows have one key. The sums in the state
must be those of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from events import KEYED, machine

from tests.servers import spark_cluster
from tests.servers.spark_cluster import SparkCluster
from tidemill.units import size_bytes

FILES = 8
GROUPS = Path("/sys/fs/cgroup/memory")
WORKER_BYTES = 256 * 1024**2
PROGRAM = (
    KEYED
    + """
import json, sys
import tidemill as tm

kind, folder, root, conf = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

p = tm.Pipeline("memory")
rows = p.read(tm.Files(folder, format="parquet", schema="k bigint, v double"))
keyed(rows, kind)
r = tm.open(p, root=root, conf=conf)
if r.opened.refs_log.read() is None:
    r.init()
(done,) = r.run(engine="spark")
print(json.dumps({
    "ms": done.batchDuration, "rows": done.numInputRows, "keys": done.stateOperators[0]["numRowsTotal"],
    "tasks": done.stateOperators[0]["numShufflePartitions"], "stored": done.stateOperators[0]["memoryUsedBytes"],
    "peak": done.peakMemoryBytes,
}))
"""
)
SUM = """
import sys
import pyarrow.compute as pc
import tidemill as tm
state = tm.read(sys.argv[1], "memory").state("s")
print(state.num_rows, pc.sum(state["state" if "state" in state.column_names else "total"]).as_py())
"""


def make_batch(folder: Path, number: int, rows: int, kind: str) -> float:
    """Write the files of a batch and return the sum of its values. Keys are `new`, `old` or `hot`: half of them one."""
    folder.mkdir()
    each, total = rows // FILES, 0.0
    for part in range(FILES):
        n = pa.array(range(part * each, (part + 1) * each), pa.int64())
        k = pc.add(n, number * rows)
        if kind != "new":
            k = pc.add(pc.multiply(n, number), 7)
        if kind == "hot":
            k = pc.if_else(pc.equal(pc.bit_wise_and(n, 1), 0), pa.scalar(7, pa.int64()), k)
        v = pc.cast(pc.bit_wise_and(n, 1023), pa.float64())
        pq.write_table(pa.table({"k": k, "v": v}), folder / f"{number:02}-{part:02}.parquet")
        total += pc.sum(v).as_py()
    return total


@contextmanager
def limited(cluster: SparkCluster, memory: int) -> Iterator[list[Path]]:
    """Put each worker into a control group; yield the groups, or nothing if the machine has none to give."""
    groups = []
    try:
        for number, worker in enumerate(cluster.workers):
            group = GROUPS / f"tidemill-{os.getpid()}-{number}"
            group.mkdir()
            groups.append(group)
            (group / "memory.limit_in_bytes").write_text(str(memory + WORKER_BYTES))
            (group / "cgroup.procs").write_text(str(worker.process.pid))
    except OSError as error:
        print(f"no control groups ({error}): the memory is not limited")
    try:
        yield groups
    finally:
        cluster.stop()
        for group in groups:
            group.rmdir()


def kills(groups: list[Path]) -> int:
    """Return how many processes the kernel has ended in the groups because they had no memory left."""
    lines = [line for group in groups for line in (group / "memory.oom_control").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def run(kind: str, place: Path, cluster: SparkCluster, conf: dict[str, Any]) -> dict[str, Any]:
    """Run the batch that waits in a process of its own, and return what it says."""
    command = [sys.executable, "-c", PROGRAM, kind, str(place / "in"), str(place / "root"), json.dumps(conf)]
    done = subprocess.run(command, env=cluster.driver_environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run the batches, print a line for each, and compare the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["agg", "mapWithState"], default="agg")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=5, help="batches of new keys")
    parser.add_argument("--memory", default="2g", help="of each executor, with its Python process")
    parser.add_argument("--heap", default="1g", help="the part of it that is the JVM's heap")
    parser.add_argument("--task-memory", default="512m", help="`tidemill.task_memory_bytes`")
    parser.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    if lacks := spark_cluster.missing():
        raise SystemExit(lacks)
    kinds = ["new"] * options.batches + ["old", "hot"]
    with tempfile.TemporaryDirectory(prefix="tidemill-memory-") as folder, ExitStack() as stack:
        place, total = Path(folder), 0.0
        (place / "in").mkdir()
        cluster = stack.enter_context(SparkCluster(workers=2, memory=options.memory))
        groups = stack.enter_context(limited(cluster, size_bytes(options.memory)))
        conf = {
            **cluster.conf,
            "spark.executor.memory": options.heap,
            "tidemill.shared_folders": folder,
            "tidemill.task_memory_bytes": options.task_memory,
            **dict(one.split("=", 1) for one in options.conf),
        }
        for number, kind in enumerate(kinds):
            total += make_batch(place / "next", number, options.rows, kind)
            for file in (place / "next").iterdir():
                file.rename(place / "in" / file.name)
            (place / "next").rmdir()
            said = run(options.kind, place, cluster, conf)
            print(
                f"{kind}: {said['rows']:,} rows, {said['keys']:,} keys after it, {said['stored'] >> 20:,} MiB stored, "
                f"{said['tasks']} tasks, {said['ms'] / 1000:.1f} s, at most {said['peak'] >> 20:,} MiB of a Python "
                f"process, {kills(groups)} processes ended by the kernel",
                flush=True,
            )
        found = subprocess.run([sys.executable, "-c", SUM, str(place / "root")], capture_output=True, text=True)
        keys, summed = found.stdout.split()
        if float(summed) != total:
            raise SystemExit(f"the state sums up to {summed} in {keys} keys, expected {total}")
        print(f"{int(keys):,} keys, whose sums are those of the rows")
    print(machine())


if __name__ == "__main__":
    main()
