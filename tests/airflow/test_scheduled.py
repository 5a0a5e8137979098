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
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.airflow.endless_pipeline import PIPELINE as ENDLESS
from tests.processes import in_session, parent, session_of
from tidemill.pipeline.load import load

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
        replay=False, correct=False,
        launch=launch, dag_args={{"default_args": {{"retries": 0}}, "dagrun_timeout": limit}},
    )
"""

HOLD = """
from tidemill.airflow import tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, schedule=None, sweep=False, maintain=False, replay=False,
    correct=False, engine={engine!r},
    dag_args={{"default_args": {{"retries": 0}}}},
)
"""

AFTER = """
from airflow.sdk import DAG, Asset, AssetAlias, task
sink = Asset("tidemill://words/n")
with DAG("after", schedule=(sink & AssetAlias("tidemill:words")), is_paused_upon_creation=True):
    @task
    def seen(triggering_asset_events=None):
        return [event.extra for event in triggering_asset_events[sink]]
    seen()
"""

SILENT = """
from pathlib import Path
import tidemill as tm

def silent(batchTime, k, row, state):
    if state.isTimingOut:
        return (k, -1)
    state.update(row.v)

p = tm.Pipeline("silent")
rows = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", header=True, schema="k int, v int"))
rows.groupBy("k").mapWithState(
    tm.StateSpec.function(silent).timeout("20 seconds"), name="s", stateSchema="int", outputSchema="k int, v int")
"""

SWEEP = """
from airflow.sdk import Asset
from tidemill.airflow import Sweep, tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, schedule=None, sweep=Sweep(schedule=[Asset("go")]), maintain=False, replay=False,
    correct=False, engine="local",
    dag_args={{"default_args": {{"retries": 0}}}},
)
"""

ARRIVALS = """
from pathlib import Path
import tidemill as tm

p = tm.Pipeline("arrivals")
rows = p.read(tm.Files(str(Path(__file__).parent / "arrive"), format="csv", header=True, schema="k int, v int"))
rows.groupBy("k").agg(n=tm.count(), name="n")
"""

WATCH = """
from tidemill.airflow import Watch, tidemill_dags
tidemill_dags(
    {reference!r}, root={root!r}, schedule="@yearly", watch=Watch(poll=1), sweep=False, maintain=False, replay=False,
    correct=False, engine="local", dag_args={{"default_args": {{"retries": 0}}}},
)
"""

WORDS = """
from pathlib import Path
import tidemill as tm

p = tm.Pipeline("words")
rows = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", header=True, schema="k int, v int"))
rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Json(str(Path(__file__).parent / "out")))
"""

DISTANT = """
import os, sys
from dataclasses import replace
from tests.airflow.submitting import SubmitOperator
from tidemill.airflow import Run, tidemill_dags

def submit(job):
    wait = 'while [ ! -e "$0" ]; do sleep 0.1; done; exec "$@"'
    command = replace(job, arguments=["--engine=local", *job.arguments]).python_command(sys.executable)
    environment = {{"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"], **job.environment}}
    return SubmitOperator(
        task_id="submit", command=["bash", "-c", wait, {root!r} + "/gate", *command], environment=environment
    )

tidemill_dags(
    {reference!r}, root={root!r}, schedule=None, run=Run(run_with=submit), sweep=False, maintain=False, replay=False,
    correct=False, dag_args={{"default_args": {{"retries": 0}}}},
)
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
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.token = ""

    def start(self) -> None:
        for command in (
            ["api-server", "--host", "127.0.0.1", "--port", str(self.port)],
            ["scheduler"],
            ["dag-processor"],
            ["triggerer"],
        ):
            self.processes.append(self._start(command))

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.home / f"{command[0]}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *command],
                env={**os.environ, **self.env},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def replace_triggerer(self, meanwhile: Callable[[], None]) -> None:
        """Kill the triggerer, and start another one, which takes over its triggers."""
        killed = self.processes.pop()
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        meanwhile()
        self.processes.append(self._start(["triggerer"]))

    def stop(self) -> None:
        """Each by its own process id; then what is left of each session that we made."""
        *others, triggerer = self.processes
        os.killpg(triggerer.pid, signal.SIGKILL)  # it takes half a minute otherwise
        for process in others:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(8)
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
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if method != "GET" or error.code != 500:  # SQLite is locked
                    raise
                time.sleep(0.2)

    def ready(self) -> bool:
        """Whether everything is up and the DAG has been read."""
        try:
            if not self.token:
                self.token = self.call("GET", "/auth/token")["access_token"]
            health = self.call("GET", "/api/v2/monitor/health")
            up = all(
                health[name]["status"] == "healthy"
                for name in ("scheduler", "dag_processor", "metadatabase", "triggerer")
            )
            return up and self.call("GET", "/api/v2/dags")["total_entries"] == 9
        except OSError:
            return False

    def trigger(self, run_id: str, fake: str, pids: Path) -> str:
        """Start a run; returns the address of its task."""
        return self.start_run("retail", run_id, {"fake": fake, "pids": str(pids)})

    def start_run(self, dag: str, run_id: str, conf: dict[str, str]) -> str:
        """Start a run of any DAG; returns the address of its task."""
        self.call("POST", f"/api/v2/dags/{dag}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        return f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/run"

    def runs(self, dag: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]
        return found

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
    (home / "dags" / "after_dag.py").write_text(AFTER)
    (home / "dags" / "random.py").write_text("raise SystemExit('a DAG file was imported in place of a module')")
    (home / "silent.py").write_text(SILENT)
    (home / "arrivals.py").write_text(ARRIVALS)
    (home / "arrive").mkdir()
    (home / "distant.py").write_text(ARRIVALS.replace("arrivals", "distant").replace("arrive", "in"))
    for name, engine, dag in (
        ("hold", "spark", HOLD),
        ("words", "local", HOLD),
        ("silent", "local", SWEEP),
        ("arrivals", "local", WATCH),
        ("distant", "local", DISTANT),
    ):
        reference, root = f"{home}/{name}.py:p", f"{home}/root"
        (home / "dags" / f"{name}_dag.py").write_text(dag.format(reference=reference, root=root, engine=engine))
        subprocess.run([sys.executable, "-m", "tidemill", "init", reference, "--root", root], check=True)
    servers = Servers(home, airflow_settings(home))
    servers.env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(tm.__file__).parents[1])])
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


def test_dag_that_is_scheduled_on_a_sink_runs_after_a_change_and_only_then(servers: Servers, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    servers.call("PATCH", "/api/v2/dags/after", {"is_paused": False})
    (servers.home / "in" / "b.csv").write_text("k,v\n2,1\n3,1\n")
    servers.start_run("words", "fresh", {})
    wait_for(lambda: [one["state"] for one in servers.runs("after")] == ["success"], "`after` runs once, and succeeds")
    (run,) = servers.runs("after")
    path = f"/api/v2/dags/after/dagRuns/{run['dag_run_id']}/taskInstances/seen/xcomEntries/return_value"
    *_, event = servers.call("GET", path)["value"]  # the first run also gets events from before
    assert (event["last_version"], event["rows"], event["path"]) == (
        event["first_version"],
        2,
        str(servers.home / "out"),
    )

    servers.start_run("words", "idle", {})
    wait_for(lambda: {one["state"] for one in servers.runs("words")} == {"success"}, "the run succeeds")
    assert servers.call("GET", "/api/v2/assets/events?source_run_id=idle")["total_entries"] == 0
    assert len(servers.runs("after")) == 1


def test_sweep_waits_without_a_slot_and_fires_at_the_deadline(servers: Servers, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    repository = tm.open(load(f"{servers.home}/silent.py:p"), f"{servers.home}/root")
    repository.run(engine="local")
    armed = repository.head
    assert armed is not None
    (asset,) = servers.call("GET", "/api/v2/assets?name_pattern=go")["assets"]
    servers.call("POST", "/api/v2/assets/events", {"asset_id": asset["id"]})
    states: list[str | None] = []

    def task_state() -> str | None:
        for run in servers.runs("silent__sweep"):
            path = f"/api/v2/dags/silent__sweep/dagRuns/{run['dag_run_id']}/taskInstances/sweep"
            states.append(servers.state(path)[0])
        return states[-1] if states else None

    wait_for(lambda: task_state() in ("success", "failed"), "the task ends")
    assert states[-1] == "success"
    assert "deferred" in states
    fired = repository.head
    assert fired is not None
    assert (fired.version, fired.kind) == (armed.version + 1, "sweep")
    assert fired.batch_time_ms > armed.next_deadline["batch"]
    assert fired.airflow["dag_id"] == "silent__sweep"


def test_new_files_start_one_run_and_another_triggerer_goes_on(servers: Servers, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    repository = tm.open(load(f"{servers.home}/arrivals.py:p"), f"{servers.home}/root")

    def watchers() -> list[int]:
        with sqlite3.connect(f"file:{servers.home}/airflow.db?mode=ro", uri=True, timeout=30) as database:
            return [
                number for (number,) in database.execute("SELECT id FROM trigger WHERE classpath LIKE '%NewFiles%'")
            ]

    def add(name: str, text: str = "k,v\n1,1\n") -> None:
        (servers.home / "arrive" / f".{name}").write_text(text)
        os.rename(servers.home / "arrive" / f".{name}", servers.home / "arrive" / name)

    wait_for(lambda: len(watchers()) == 1, "Airflow watches")
    (watcher,) = watchers()
    add("a.csv")
    wait_for(lambda: [one["state"] for one in servers.runs("arrivals")] == ["success"], "the file starts a run")
    assert repository.head is not None
    (run,) = servers.runs("arrivals")
    assert run["run_type"] == "asset_triggered"
    (event,) = servers.call("GET", f"/api/v2/dags/arrivals/dagRuns/{run['dag_run_id']}/upstreamAssetEvents")[
        "asset_events"
    ]
    assert event["uri"] == "tidemill://arrivals/_new-files"
    assert event["extra"]["payload"] == {"pipeline": "arrivals", "branch": "main", "files": 1, "sources": {"source": 1}}

    add("b.csv", "no,header\n")  # its run fails, so it goes on waiting
    wait_for(lambda: [one["state"] for one in servers.runs("arrivals")].count("failed") == 1, "its run fails")
    servers.replace_triggerer(lambda: add("c.csv"))
    wait_for(lambda: len(servers.runs("arrivals")) == 3, "another triggerer sees what came meanwhile")
    events = servers.call("GET", "/api/v2/assets/events")["asset_events"]
    announced = [one["extra"]["payload"]["files"] for one in events if one["uri"] == "tidemill://arrivals/_new-files"]
    assert announced == [1, 1, 1], "it knows what the first one announced"
    assert watchers() == [watcher], "a parse of the DAG file leaves the trigger as it is"


def test_job_on_another_machine_holds_no_slot_while_it_runs(servers: Servers, wait_for: WaitFor) -> None:
    wait_for(servers.ready, "Airflow is up and has read the DAG", 180)
    task = servers.start_run("distant", "first", {})
    submit = task.removesuffix("run") + "submit"
    wait_for(lambda: servers.state(submit)[0] == "deferred", "the task that has started the job is deferred")
    (servers.home / "root/gate").touch()
    wait_for(lambda: servers.state(task)[0] in ("success", "failed"), "the result is applied")
    assert (servers.state(submit)[0], servers.state(task)[0]) == ("success", "success")
    assert "tidemill: committed version 0 (head 0)" in servers.log("distant", "first", 1)
    commit = tm.open(load(f"{servers.home}/distant.py:p"), f"{servers.home}/root").commit(0)
    assert (commit.airflow["dag_id"], commit.airflow["task_id"]) == ("distant", "submit")
