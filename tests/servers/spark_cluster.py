"""A standalone Spark cluster for tests: a master and workers as processes on 127.0.0.1, from the pyspark wheel.

Each worker has a folder of its own, in which its executors and drivers run, and an environment with nothing of the
test's: `PATH`, `HOME` (a folder of its own) and `JAVA_HOME`. INVARIANT: the processes die with the process that started
them, and are stopped by their own pids.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyspark

import tidemill
from tests.servers.children import die_with_parent, end, free_port
from tidemill.engines.java import find_java, home_for_spark

HOME = Path(pyspark.__file__).parent
SUBMIT = str(HOME / "bin" / "spark-submit")
FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_READY_S = 120
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.defaultJavaOptions": FAST,
    "spark.executor.defaultJavaOptions": FAST,
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
}


def missing() -> str | None:
    """Return what this machine lacks for a cluster, or None."""
    if sys.platform != "linux":
        return "a standalone Spark cluster for tests needs Linux"
    try:
        find_java(os.environ, pyspark.__version__)
    except tidemill.InvalidInput as error:
        return f"a standalone Spark cluster for tests needs Java: {error.message}"
    return None


@dataclass
class Worker:
    """A worker: its process, and the folder in which its executors and drivers run."""

    process: subprocess.Popen[bytes]
    folder: Path


class SparkCluster:
    """A running cluster: `url` is its master. Each worker has one core and `memory`, which is one executor."""

    def __init__(self, workers: int = 2, memory: str = "1g") -> None:
        self._memory = memory
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-cluster-"))
        self._java = str(home_for_spark(find_java(os.environ, pyspark.__version__)))
        self._port, self._page = free_port(), free_port()
        self.workers: list[Worker] = []
        self._started = 0
        try:
            self._master = self._start(
                "Master", self._folder, "--port", str(self._port), "--webui-port", str(self._page)
            )
            for _ in range(workers):
                self.add_worker()
            self.wait_for_workers(workers)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def conf(self) -> dict[str, str]:
        """Settings of a driver that uses the cluster."""
        return {"spark.master": self.url, **SETTINGS}

    @property
    def driver_environment(self) -> dict[str, str]:
        """The environment of spark-submit and of drivers on this machine: this process's, without Spark's variables."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return kept | {
            "JAVA_HOME": self._java,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(tidemill.__file__).parents[1]),
            "SPARK_LAUNCHER_OPTS": FAST,
            "SPARK_SUBMIT_OPTS": FAST,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def add_worker(self) -> Worker:
        self._started += 1
        folder = self._folder / f"worker-{self._started}"
        folder.mkdir()
        options = ("--cores", "1", "--memory", self._memory, "--work-dir", str(folder), "--webui-port", "0", self.url)
        worker = Worker(self._start("worker.Worker", folder, *options), folder)
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, number: int) -> None:
        """Wait until so many workers are alive, as the master sees it."""
        self._wait(lambda: self._state().count('"state" : "ALIVE"') >= number, f"{number} workers register")

    def kill_worker(self, number: int) -> None:
        """Kill a worker and all of its executors, as if its machine had lost power."""
        worker = self.workers[number]
        for pid in (worker.process.pid, *self.executors(number)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.process.wait()

    def executors(self, number: int) -> list[int]:
        """Return the executors and drivers of a worker: the processes that run in its folder."""
        found, folder = [], str(self.workers[number].folder)
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.workers[number].process.pid:
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "cwd").startswith(folder + "/"):
                        found.append(int(entry.name))
        return found

    def said(self) -> str:
        """Return what the master and the workers logged, and what executors and drivers wrote last."""
        logs = [*sorted(self._folder.glob("*.log")), *sorted(self._folder.rglob("std???"))]
        return "\n".join(f"== {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    def stop(self) -> None:
        """Stop the workers with all that they started, then the master."""
        for number, worker in enumerate(self.workers):
            left = self.executors(number)
            end(worker.process, 10)
            for pid in {*left, *self.executors(number)}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if hasattr(self, "_master"):
            end(self._master, 10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SparkCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start(self, what: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        kind = what if "." in what else f"master.{what}"
        with (self._folder / f"{folder.name}-{kind}.log").open("wb") as log:
            return subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *options],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder),
                    "JAVA_HOME": self._java,
                    "SPARK_DAEMON_JAVA_OPTS": FAST,
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_LAUNCHER_OPTS": FAST,
                    "SPARK_LOCAL_DIRS": str(folder),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    def _state(self) -> str:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page,
        ):
            return str(page.read().decode())
        return ""

    def _wait(self, done: Callable[[], object], what: str) -> None:
        give_up = time.monotonic() + _READY_S
        while not done():
            ended = [one.args for one in (self._master, *(w.process for w in self.workers)) if one.poll() is not None]
            if ended or time.monotonic() > give_up:
                why = f"ended: {ended}" if ended else f"not within {_READY_S} s"
                raise RuntimeError(f"the Spark cluster for tests did not start ({what}; {why}):\n{self.said()}")
            time.sleep(0.1)
