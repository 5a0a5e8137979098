"""Tasks under a real scheduler, supervisor and API server: killed, cancelled and cleared ones.

SQLite bears one DAG run at a time, so the tests share the servers and come one after the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.endless_pipeline import PIPELINE as ENDLESS
from tests.processes import in_session, parent, session_of

Pids = Callable[[], list[int]]
Alive = Callable[[list[int]], list[int]]
WaitFor = Callable[..., None]

DAG = """
from datetime import timedelta
from tidemill.airflow import Launch, tidemill_dags
launch = Launch(
    env={{
        "PYTHONPATH": {fake!r},
        "FAKE": "{{{{ dag_run.conf['fake'] }}}}",
        "FAKE_PIDS": "{{{{ dag_run.conf['pids'] }}}}",
        "FAKE_SAYS": "found $API_TOKEN",
        "API_TOKEN": "hush-hush",
    }},
)
for name, limit in (("retail", timedelta(days=1)), ("hasty", timedelta(seconds=4))):
    tidemill_dags(
        "pipelines/retail.py:p", root="s3://lake/tidemill", schedule=None, name=name, sweep=False, maintain=False,
        replay=False,
        launch=launch, dag_args={{"default_args": {{"retries": 0}}, "dagrun_timeout": limit}},
    )
"""

HOLD = """
from tidemill.airflow import tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, schedule=None, sweep=False, maintain=False, replay=False, engine={engine!r},
    dag_args={{"default_args": {{"retries": 0}}}},
)
"""

WORDS = """
from pathlib import Path
import tidemill as tm

p = tm.Pipeline("words")
rows = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", header=True, schema="k int, v int"))
rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Json(str(Path(__file__).parent / "out")))
"""


class Servers:
    """API server, scheduler and DAG processor on 127.0.0.1, and the calls that these tests need."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.home = home
        self.env = {
            **env,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.token = ""

    def start(self) -> None:
        for command in (
            ["api-server", "--host", "127.0.0.1", "--port", str(self.port)],
            ["scheduler"],
            ["dag-processor"],
        ):
            with open(self.home / f"{command[0]}.log", "wb") as log:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "airflow", *command],
                        env={**os.environ, **self.env},
                        cwd=self.home,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )

    def stop(self) -> None:
        """Each by its own process id; then what is left of each session that we made."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def ready(self) -> bool:
        """Whether everything is up and the DAG has been read."""
        try:
            if not self.token:
                self.token = self.call("GET", "/auth/token")["access_token"]
            health = self.call("GET", "/api/v2/monitor/health")
            up = all(health[name]["status"] == "healthy" for name in ("scheduler", "dag_processor", "metadatabase"))
            return up and self.call("GET", "/api/v2/dags")["total_entries"] == 4
        except OSError:
            return False

    def trigger(self, run_id: str, fake: str, pids: Path) -> str:
        """Start a run; returns the address of its task."""
        return self.start_run("retail", run_id, {"fake": fake, "pids": str(pids)})

    def start_run(self, dag: str, run_id: str, conf: dict[str, str]) -> str:
        """Start a run of any DAG; returns the address of its task."""
        self.call("POST", f"/api/v2/dags/{dag}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        return f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/run"

    def state(self, task: str) -> tuple[str | None, int]:
        found = self.call("GET", task)
        return found["state"], found["try_number"]

    def log(self, dag: str, run_id: str, attempt: int) -> list[str]:
        path = self.home / "logs" / f"dag_id={dag}" / f"run_id={run_id}" / "task_id=run" / f"attempt={attempt}.log"
        return [json.loads(line)["event"] for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, airflow_settings: Callable[[Path], dict[str, str]], fake_folder: Path
) -> Iterator[Servers]:
    home = tmp_path_factory.mktemp("scheduled")
    (home / "dags").mkdir()
    (home / "dags" / "retail_dag.py").write_text(DAG.format(fake=str(fake_folder)))
    (home / "in").mkdir()
    (home / "in" / "a.csv").write_text("k,v\n1,1\n")
    (home / "hold.py").write_text(ENDLESS)
    (home / "words.py").write_text(WORDS)
    (home / "dags" / "random.py").write_text("raise SystemExit('a DAG file was imported in place of a module')")
    for name, engine in (("hold", "spark"), ("words", "local")):
        reference, root = f"{home}/{name}.py:p", f"{home}/root"
        (home / "dags" / f"{name}_dag.py").write_text(HOLD.format(reference=reference, root=root, engine=engine))
        subprocess.run([sys.executable, "-m", "tidemill", "init", reference, "--root", root], check=True)
    servers = Servers(home, airflow_settings(home))
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, env={**os.environ, **servers.env}, check=True, capture_output=True)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.mark.parametrize("victim", ["task", "supervisor"])
def test_no_process_remains_after_a_process_of_a_task_is_killed(
    servers: Servers, tmp_path: Path, pids: Pids, alive: Alive, wait_for: WaitFor, victim: str
) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    servers.trigger(f"killed_{victim}", "stubborn", tmp_path / "pids")
    command, *others = pids()
    task = parent(command)
    supervisor = parent(task)
    processes_seen = [task, command, *others]
    assert alive([supervisor, *processes_seen]) == [supervisor, *processes_seen]
    os.kill(task if victim == "task" else supervisor, signal.SIGKILL)
    wait_for(lambda: alive(processes_seen) == [], "task, command, JVM and daemon are gone")
    # Without its supervisor the run would count as running, and hold up the next one, until a heartbeat is missed.
    servers.call("PATCH", f"/api/v2/dags/retail/dagRuns/killed_{victim}", {"state": "failed"})


def test_cancelled_task_leaves_no_process(
    servers: Servers, tmp_path: Path, pids: Pids, alive: Alive, wait_for: WaitFor
) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    task = servers.trigger("cancelled", "stubborn", tmp_path / "pids")
    command, *others = pids()
    processes_seen = [parent(command), command, *others]
    assert alive(processes_seen) == processes_seen
    wait_for(lambda: servers.state(task)[0] == "running", "the task runs")
    servers.call("PATCH", task, {"new_state": "failed"})
    wait_for(lambda: alive(processes_seen) == [], "task, command, JVM and daemon are gone")


@pytest.mark.parametrize("way", ["killed", "cancelled"])
def test_task_that_is_in_a_user_function_on_real_spark_leaves_no_process(
    servers: Servers, alive: Alive, wait_for: WaitFor, way: str
) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAGs", 180)
    for seen in servers.home.glob("worker-*"):
        seen.unlink()
    task = servers.start_run("hold", way, {})
    wait_for(lambda: list(servers.home.glob("worker-*")), "a worker is in the user function", 180)
    (worker,) = servers.home.glob("worker-*")
    in_function = int(worker.name.partition("-")[2])
    command = session_of(in_function)
    processes_seen = alive([parent(command), *in_session(command)])
    assert {parent(command), command, in_function} < set(processes_seen)
    assert "java" in [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes_seen]
    if way == "killed":
        os.kill(parent(command), signal.SIGKILL)
    else:
        wait_for(lambda: servers.state(task)[0] == "running", "the task runs")
        servers.call("PATCH", task, {"new_state": "failed"})
    wait_for(lambda: alive(processes_seen) == [], "task, driver, JVM, daemon and workers are gone")
    servers.call("PATCH", f"/api/v2/dags/hold/dagRuns/{way}", {"state": "failed"})


def test_run_that_takes_too_long_is_ended(
    servers: Servers, tmp_path: Path, pids: Pids, alive: Alive, wait_for: WaitFor
) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    servers.start_run("hasty", "late", {"fake": "hang", "pids": str(tmp_path / "pids")})
    processes_seen = pids()
    assert alive(processes_seen) == processes_seen
    wait_for(lambda: servers.call("GET", "/api/v2/dags/hasty/dagRuns/late")["state"] == "failed", "the run has failed")
    wait_for(lambda: alive(processes_seen) == [], "command, JVM and daemon are gone")


def test_secret_literals_are_neither_stored_nor_logged(servers: Servers, tmp_path: Path, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    task = servers.trigger("secret", "says", tmp_path / "pids")
    wait_for(lambda: servers.state(task)[0] == "success", "the task succeeds")
    assert "found ***" in servers.log("retail", "secret", 1)
    assert "hush" not in json.dumps(servers.call("GET", task))
    with contextlib.closing(sqlite3.connect(servers.home / "airflow.db")) as database:
        stored = database.execute("SELECT CAST(data AS TEXT) FROM serialized_dag").fetchall()
        rendered = database.execute("SELECT rendered_fields FROM rendered_task_instance_fields").fetchall()
    assert "retail.py" in str(stored) and "retail.py" in str(rendered)
    assert "hush" not in str(stored) + str(rendered)


def test_cleared_task_names_the_versions_already_committed(servers: Servers, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    task = servers.start_run("words", "cleared", {})
    run = "/api/v2/dags/words/dagRuns/cleared"
    wait_for(lambda: servers.call("GET", run)["state"] == "success", "the run succeeds")
    assert "tidemill: committed version 0 (head 0)" in servers.log("words", "cleared", 1)
    body = {"dry_run": False, "dag_run_id": "cleared", "task_ids": ["run"], "only_failed": False}
    servers.call("POST", "/api/v2/dags/words/clearTaskInstances", body)
    wait_for(lambda: servers.state(task) == ("success", 2), "the second try succeeds")
    log = servers.log("words", "cleared", 2)
    (said,) = [line for line in log if line.startswith("tidemill:")]
    assert said == "tidemill: nothing to do (head 0); an earlier try of this task had already committed version 0"
    assert log[log.index(said) + 1].startswith("hint: commits are final, so clearing a task does not recompute them")
