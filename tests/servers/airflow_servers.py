"""A real Airflow for tests and benchmarks: PostgreSQL, API server, scheduler, DAG processor and triggerer.

All listen on 127.0.0.1. `KILLS` has the settings with which Airflow notices killed processes within seconds.
INVARIANT: no process of these servers, and no task that they started, outlives `stop` or the process that started them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from . import postgres
from .postgres import PostgresServer

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SETTINGS = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__API__SECRET_KEY": "y" * 64,
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    "NO_COLOR": "1",
}
"""Settings of the servers that depend on no place."""
KILLS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "8",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
}
"""Settings with which a killed process is noticed soon; docs/guides/airflow-production.md explains them."""
_REAPER = Path(__file__).with_name("reaper.py")
_READY_S = 180


class AirflowServers:
    """The five servers, with a home and a DAG folder in `home`, and the calls of the API that tests need."""

    def __init__(self, home: Path, more: dict[str, str] | None = None) -> None:
        self.home = home
        self.postgres = PostgresServer()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        self.env = {
            **inherited,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.postgres.url,
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            **SETTINGS,
            **(more or {}),
        }
        self.token = ""
        self._reapers: dict[str, subprocess.Popen[bytes]] = {}
        self.pids: dict[str, int] = {}

    def start(self) -> None:
        """Create the tables and start the servers. `wait` waits until they are ready."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"`airflow db migrate` failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        for component in COMPONENTS:
            self.start_one(component)

    def start_one(self, component: str) -> None:
        """Start a server, also in the place of one that was killed. What the killed one left stays alive."""
        port = ["--host", "127.0.0.1", "--port", str(self.port)] if component == "api-server" else []
        command = [sys.executable, "-m", "airflow", component, *port]
        number = sum(name.startswith(component) for name in self._reapers)
        with open(self.home / f"{component}.log", "ab") as log:
            reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", _REAPER, str(os.getpid()), *command],
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._reapers[f"{component}-{number}"] = reaper
        assert reaper.stdout is not None
        with reaper.stdout:
            self.pids[component] = int(reaper.stdout.readline())

    def kill(self, component: str) -> None:
        """`kill -9` the main process of a server, and of none that it started."""
        os.kill(self.pids.pop(component), signal.SIGKILL)

    def kill_between_transactions(self, component: str) -> None:
        """`kill -9` a server while no transaction is open.

        A worker of the LocalExecutor inherits the scheduler's connections. So a transaction of a killed scheduler keeps
        its locks until the worker's task ends, and other schedulers leave the rows alone that it had locked.
        """
        pid = self.pids[component]

        def killed() -> bool:
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(0.1)  # what it has sent before arrives
                ((stopped_at,),) = self.query("SELECT clock_timestamp()::text")
                # Transactions that began later are of other servers. On a busy machine one of them is always open.
                is_open = (
                    f"SELECT 1 FROM pg_stat_activity WHERE xact_start <= '{stopped_at}'::timestamptz "
                    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
                quiet_at = time.monotonic() + 5  # other servers end theirs soon
                while (found := self.query(is_open)) and time.monotonic() < quiet_at:
                    time.sleep(0.02)
                if not found:
                    self.kill(component)
                return not found
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        wait_until(killed, f"{component} has no transaction open")

    def stop(self) -> None:
        """End all processes, each by the reaper that adopted it, and then PostgreSQL."""
        for reaper in self._reapers.values():
            reaper.terminate()
        for reaper in self._reapers.values():
            reaper.wait()
        self.postgres.stop()

    def __enter__(self) -> AirflowServers:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API, and return the answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait(self, dags: int) -> None:
        """Wait until all servers are healthy and so many DAGs have been read."""
        wait_until(lambda: self.is_ready(dags), "Airflow is up and has read the DAG files", _READY_S)

    def is_ready(self, dags: int) -> bool:
        """Whether all servers are healthy and so many DAGs have been read. Raise if a DAG file has an error."""
        try:
            if not self.token:
                self.token = self.call("GET", "/auth/token")["access_token"]
            health = self.call("GET", "/api/v2/monitor/health")
            if errors := self.call("GET", "/api/v2/importErrors")["import_errors"]:
                raise AssertionError(f"DAG files have errors: {errors}")
            read = int(self.call("GET", "/api/v2/dags?limit=1")["total_entries"])
        except OSError:
            return False
        names = ("scheduler", "dag_processor", "metadatabase", "triggerer")
        return all(health[name]["status"] == "healthy" for name in names) and read == dags

    def trigger(self, dag: str, run_id: str, conf: dict[str, Any] | None = None) -> None:
        """Start a run of a DAG."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        self.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, oldest first."""
        found: list[dict[str, Any]] = self.call("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=id&limit=100")["dag_runs"]
        return found

    def run_state(self, dag: str, run_id: str) -> str:
        """Return the state of a run."""
        return str(self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}")["state"])

    def task(self, dag: str, run_id: str, task: str = "run") -> dict[str, Any]:
        """Return a task instance."""
        found: dict[str, Any] = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}")
        return found

    def patch_task(self, dag: str, run_id: str, state: str, task: str = "run") -> None:
        """Set the state of a task instance, as a person does by a click."""
        self.call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}", {"new_state": state})

    def end_run(self, dag: str, run_id: str, state: str = "failed") -> None:
        """Set the state of a run, as a person does by a click."""
        self.call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run_id}", {"state": state})

    def clear(self, dag: str, run_id: str, tasks: Sequence[str] = ("run",)) -> None:
        """Clear tasks of a run, as a person does by a click."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(tasks), "only_failed": False}
        self.call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def xcom(self, dag: str, run_id: str, task: str, key: str = "return_value") -> Any:
        """Return an XCom."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/{key}"
        return self.call("GET", path)["value"]

    def log(self, dag: str, run_id: str, attempt: int, task: str = "run") -> list[str]:
        """Return the lines of the log of a try."""
        folder = self.home / "logs" / f"dag_id={dag}" / f"run_id={run_id}" / f"task_id={task}"
        return [json.loads(line)["event"] for line in (folder / f"attempt={attempt}.log").read_text().splitlines()]

    def scheduler_knows_the_end(self, dag: str, run_id: str, task: str) -> bool:
        """Whether the scheduler has seen the process of a task end.

        Airflow fails a deferred task whose trigger fires before that: "finished with state success, but … is queued".
        """
        seen = (
            f"with state success for task instance TaskInstanceKey(dag_id='{dag}', task_id='{task}', run_id='{run_id}'"
        )
        return seen in (self.home / "scheduler.log").read_text(errors="replace")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the database of Airflow."""
        import psycopg2

        with contextlib.closing(psycopg2.connect(self.postgres.url.replace("+psycopg2", ""))) as database:
            cursor = database.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall())


def missing() -> str | None:
    """Return what to install, or None if the servers can start."""
    if sys.platform != "linux":
        return "the servers of Airflow for tests need Linux: another system has no `/proc`"
    return None if postgres.is_installed() else postgres.MISSING


def wait_until(done: Callable[[], object], what: str, seconds: float = 600) -> None:
    """Poll until `done()` holds. The bound only ends a test that hangs: it is no claim about time."""
    give_up = time.monotonic() + seconds
    while not done():
        if time.monotonic() > give_up:
            raise AssertionError(f"{what}: still not so after {seconds:.0f} s")
        time.sleep(0.1)
