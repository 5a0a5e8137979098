"""Run by test_unreliable_cluster.py as a script: a pipeline on a small cluster, of which tasks fail or are slow once.

Arguments: the folder of the inbox, the root, a folder for markers, and one for Spark's workers. The cluster is like
`local-cluster[2,1,1024]`: a master and two workers in the driver's JVM, and an executor process for each. But each
worker has its own address, because Spark runs no second attempt on a host that has the first.

A row whose column `fault` names a fault causes it in the task that handles the row, unless the fault has a marker. A
function that raises is not among the faults, because its error ends the run. INVARIANT: a fault kills its own process,
or the executor that started it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import tidemill as tm

TASKS = 4
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "300ms",
}
FIRST_FAULTS = {0: "is killed", 1: "exits", 2: "slow"}
"""By batch, the fault of a row at the first operator."""
SECOND_FAULTS = {1: "is killed behind", 2: "exits behind", 3: "kills the executor"}
"""By batch, the fault of a row at the second operator, which follows the first."""
MOST_WAITING_S = 10


def trouble(markers: str, fault: str | None) -> None:
    """Cause a fault once. A slow task waits for its other attempt, and finishes after it."""
    if not markers or not fault:
        return
    if not _is_first(markers, fault):
        _is_first(markers, f"{fault} again")
        return
    if fault.startswith("is killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.startswith("exits"):
        os._exit(7)
    if fault.startswith("kills"):
        executor = _executor()
        print(f"killing the executor {executor}", file=sys.stderr, flush=True)
        os.kill(executor, signal.SIGKILL)
        time.sleep(MOST_WAITING_S)
    end = time.monotonic() + MOST_WAITING_S
    while not Path(markers, f"{fault} again").exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)


def _is_first(markers: str, fault: str) -> bool:
    try:
        os.close(os.open(Path(markers, fault), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """Return the pid of the executor: the parent of the daemon that started this worker."""
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    return executor


def pipeline(inbox: Path, markers: str = "") -> tm.Pipeline:
    """Float sums by user, and behind them sums by bucket. `markers`: where faults are noted; "" means no faults."""

    def total(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
        if row.place == "first":
            trouble(markers, row.fault)
        state.update((state.getOption or 0.0) + row.value)
        return (user, row.n, state.get, row.fault if row.place == "second" else None)

    def behind(batch_time: Any, bucket: Any, row: Any, state: Any) -> Any:
        trouble(markers, row.fault)
        state.update((state.getOption or 0.0) + row.total)
        return (bucket, state.get)

    p = tm.Pipeline("unreliable")
    p.batch_time(lambda plan: 1000 * (1 + int(Path(plan.splits[-1].path).stem)))
    rows = p.read(
        tm.Files(str(inbox), format="json", schema="user string, n int, value double, fault string, place string",
                 maxFilesPerTrigger=3)
    )  # fmt: skip
    totals = rows.groupBy("user").mapWithState(
        tm.StateSpec.function(total), stateSchema="double", name="totals",
        outputSchema="user string, n int, total double, fault string",
    )  # fmt: skip
    totals.groupBy("n").mapWithState(
        tm.StateSpec.function(behind), stateSchema="double", outputSchema="n int, total double", name="buckets"
    )
    return p


WORKERS = ("127.0.0.2", "127.0.0.3")


def start_cluster(folder: str) -> str:
    """Start a master and its workers in the JVM of this process, as `local-cluster` does. Return the master's URL."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    assert jvm is not None and gateway is not None
    conf = SparkConf()._jconf
    deploy = jvm.org.apache.spark.deploy
    url = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = url
    none = jvm.scala.Option.apply(None)
    for number, host in enumerate(WORKERS):
        place = f"{folder}/{number}"
        one = jvm.scala.Option.apply(number)
        deploy.worker.Worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 1024, urls, place, one, conf, none)
    return str(url)


def main() -> None:
    inbox, root, markers, folder = sys.argv[1:]
    settings = SETTINGS | {"spark.master": start_cluster(folder), "tidemill.shared_folders": f"{inbox}:{root}"}
    repository = tm.open(pipeline(Path(inbox), markers), root=root, conf=settings)
    repository.init()
    repository.run(engine="spark", tasks=TASKS)


if __name__ == "__main__":
    main()
