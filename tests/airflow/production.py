"""The pipelines, DAG files and repositories of `test_scheduled`, what people do with them, and what DuckDB computes.

INVARIANT: nothing here imports airflow. The DAG folder has modules with the names of Python's and of Tidemill's, which
stop whoever imports them.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import tidemill as tm
from tests.airflow.endless_pipeline import PIPELINE as ENDLESS
from tests.processes import living, session_of
from tests.servers.airflow_servers import AirflowServers, wait_until
from tidemill.pipeline.load import load

COUNTS = """
import os, time
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent

def look(batch):
    '''Note which settings of Airflow the command sees. In a batch with the value 999, wait while `hold` exists.'''
    (HERE / "seen").write_text(" ".join(name for name in os.environ if name.startswith("AIRFLOW__")))
    if 999 in batch.column("v").to_pylist():
        (HERE / f"holding-{{os.getpid()}}").touch()
        while (HERE / "hold").exists():
            time.sleep(0.05)
        (HERE / f"holding-{{os.getpid()}}").unlink(missing_ok=True)
    return batch

def build(factor):
    p = tm.Pipeline("{name}")
    files = tm.Files(str(HERE / "in"), format="csv", header=True, schema="k int, v int", maxFilesPerTrigger={files})
    rows = p.read(files).map_batches(look, "k int, v int").sql(f"SELECT k, v * {{factor}} AS v FROM rows")
    rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="totals").write(tm.Json(str(HERE / "out")))
    return p

p, twice = build(1), build(2)
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
    tm.StateSpec.function(silent).timeout("45 seconds"), name="s", stateSchema="int", outputSchema="k int, v int"
).write(tm.Json(str(Path(__file__).parent / "out")))
"""
HOSTILE = "raise SystemExit('a module of the DAG folder was imported in place of another one')\n"
PLAIN = """
from datetime import timedelta
from airflow.sdk import Asset
from tidemill.airflow import Replay, Sweep, Watch, tidemill_dags
for name in {names!r}:
    tidemill_dags({reference!r}, root={root!r}, name=name, **{{
        **dict(schedule=None, engine="local", sweep=False, maintain=False, replay=False, correct=False),
        **dict({arguments}),
    }})
"""
RETRIED = 'dag_args={"default_args": {"retries": 2, "retry_delay": timedelta(seconds=3)}}'
ONCE = 'dag_args={"default_args": {"retries": 0}}'
FAKE = """
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
        replay=False, correct=False, launch=launch,
        dag_args={{"default_args": {{"retries": 0}}, "dagrun_timeout": limit, "max_active_runs": 4}},
    )
"""
DISTANT = """
import os, sys
from dataclasses import replace
from tests.airflow.submitting import SubmitOperator
from tidemill.airflow import Run, tidemill_dags

def submit(job):
    wait = 'while [ -e "$0" ]; do sleep 0.1; done; exec "$@"'
    command = replace(job, arguments=["--engine=local", *job.arguments]).python_command(sys.executable)
    environment = {{"PATH": os.environ["PATH"], "PYTHONPATH": {path!r}, **job.environment}}
    return SubmitOperator(
        task_id="submit", command=["bash", "-c", wait, {hold!r}, *command], environment=environment
    )

tidemill_dags(
    {reference!r}, root={root!r}, name="distant", schedule=None, run=Run(run_with=submit), sweep=False, maintain=False,
    replay=False, correct=False, dag_args={{"default_args": {{"retries": 0}}}},
)
"""
AFTER = """
from airflow.sdk import DAG, Asset, AssetAlias, task
sink = Asset("tidemill://words/totals")
with DAG("after", schedule=(sink & AssetAlias("tidemill:words"))):
    @task
    def seen(triggering_asset_events=None):
        return [event.extra for event in triggering_asset_events[sink]]
    seen()
"""


PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(tm.__file__).parents[1])])
"""Where the modules of the tests and of Tidemill are."""


@dataclass(frozen=True)
class Place:
    """A pipeline in a folder of its own, with its source `in`, its sink `out` and its repository."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def root(self) -> str:
        return str(self.folder.parent / "root")

    def reference(self, code: str = "p") -> str:
        return f"{self.folder}/{self.name}.py:{code}"

    def open(self, code: str = "p") -> tm.Repository:
        return tm.open(load(self.reference(code)), self.root)

    @property
    def version(self) -> int:
        head = self.open().head
        return -1 if head is None else int(head.version)

    def add(self, name: str, *rows: tuple[int, int]) -> None:
        """Let a whole file appear at once."""
        text = "".join(f"{k},{v}\n" for k, v in rows)
        (self.folder / f"in/.{name}").write_text(f"k,v\n{text}")
        os.rename(self.folder / f"in/.{name}", self.folder / "in" / name)

    def holding(self) -> list[int]:
        """Return the living commands that are in the middle of a batch, and wait there."""
        pids = [int(seen.name.partition("-")[2]) for seen in self.folder.glob("holding-*")]
        return [session_of(pid) for pid in living(pids)]

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)

    def check(self, factor: int = 1) -> None:
        """Compare state and published rows with what DuckDB computes over all files."""
        files = f"read_csv('{self.folder}/in/*.csv', header=true, columns={{'k': 'INTEGER', 'v': 'INTEGER'}})"
        expected = duckdb.sql(
            f"SELECT k, count(*) AS n, sum(v)::BIGINT * {factor} AS total FROM {files} GROUP BY k ORDER BY k"
        ).fetchall()
        repository = self.open()
        assert sorted_rows(repository.state("totals"), "k", "n", "total") == expected
        assert sum(repository.status().waiting_files.values()) == 0
        published = duckdb.sql(
            f"SELECT k, max(n) AS n, arg_max(total, n)::BIGINT AS total FROM read_json('{self.folder}/out/**/*.json*') "
            "GROUP BY k ORDER BY k"
        ).fetchall()
        assert published == expected
        ((rows, different),) = duckdb.sql(
            f"SELECT count(*), count(DISTINCT (k, n)) FROM read_json('{self.folder}/out/**/*.json*')"
        ).fetchall()
        assert rows == different, "no row is published twice"


def sorted_rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table.to_pylist())


@dataclass
class Production:
    """The servers, the pipelines, and the newest files of the pipeline `cadence`."""

    servers: AirflowServers
    places: dict[str, Place]
    last_file: threading.Event
    """Ends the arrival of files."""

    def held(self, name: str, run_id: str, file: str = "b.csv") -> int:
        """Start a run whose command waits in the middle of a batch, and return the pid of the command."""
        place = self.places[name]
        place.hold()
        place.add(file, (1, 5), (2, 999))
        self.servers.trigger(name, run_id)
        wait_until(place.holding, f"a command of `{name}` is in the middle of a batch")
        return place.holding()[0]

    def ends(self, dag: str, run_id: str, state: str = "success") -> None:
        """Wait until a run ends, and check its state."""
        wait_until(lambda: self.servers.run_state(dag, run_id) in ("success", "failed"), f"`{dag}` {run_id} ends")
        assert self.servers.run_state(dag, run_id) == state

    def fake(self, dag: str, run_id: str, behaviour: str) -> Path:
        """Start a run of the fake command; returns the file in which it writes its process ids."""
        pids = self.servers.home / f"pids-{run_id}"
        self.servers.trigger(dag, run_id, {"fake": behaviour, "pids": str(pids)})
        return pids

    def fake_processes(self, dag: str, run_id: str, behaviour: str) -> list[int]:
        """Start a run of the fake command that hangs; returns its processes, the command first."""
        pids = self.fake(dag, run_id, behaviour)
        wait_until(pids.exists, "the command writes its process ids")
        return [int(pid) for pid in pids.read_text().split()]

    def answer(self, dag: str, run_id: str, answer: str) -> None:
        """Wait for the question of a replay, and answer it by the API."""
        approve = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/approve"
        wait_until(lambda: self.servers.call("GET", approve)["state"] == "awaiting_input", "the replay asks")
        time.sleep(2)  # Airflow fails a task that is answered while it still ends
        body = {"chosen_options": [answer], "params_input": {}}
        self.servers.call("PATCH", f"{approve}/-1/hitlDetails", body)

    def states(self, dag: str, run_id: str) -> dict[str, str]:
        tasks = self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks}


PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "cadence": (("cadence",), f"schedule=timedelta(seconds=10), {RETRIED}"),
    "words": (("words",), ONCE),
    "task": (("task",), RETRIED),
    "supervisor": (("supervisor",), RETRIED),
    "scheduler": (("scheduler",), RETRIED),
    "cleared": (("cleared",), ONCE),
    "race": (("race_0", "race_1", "race_2", "race_3"), ONCE),
    "shop": (("shop",), f"replay=Replay(engine='local', response_timeout=timedelta(hours=1)), {ONCE}"),
    "quiet": (("quiet",), f"replay=Replay(engine='local', response_timeout=timedelta(seconds=6)), {ONCE}"),
    "arrivals": (("arrivals",), f"schedule='@yearly', watch=Watch(poll=1), {ONCE}"),
    "silent": (("silent",), f"sweep=Sweep(schedule=[Asset('go')]), {ONCE}"),
    "hold": (("hold",), f"engine='spark', {ONCE}"),
    "distant": (("distant",), ""),
}
"""Of each pipeline its DAGs, and their arguments."""
COUNTING = tuple(name for name in PLACES if name not in ("silent", "hold"))
"""The pipelines whose results DuckDB can compute."""
ONE_FILE_A_BATCH = ("cleared", "race", "shop", "quiet")
DAGS = sum(len(names) for names, _ in PLACES.values()) + 2 + 1 + 2 + 1
"""How many DAGs there are: also two fake ones, `after`, two with replays, and one with sweeps."""


def build(home: Path, fake: Path) -> dict[str, Place]:
    """Write all pipelines and DAG files below `home`, and create the repositories."""
    dags = home / "dags"
    dags.mkdir()
    for hidden in ("random", "json", "tidemill"):
        (dags / f"{hidden}.py").write_text(HOSTILE)
    (dags / "retail_dag.py").write_text(FAKE.format(fake=str(fake)))
    (dags / "after_dag.py").write_text(AFTER)
    places = {name: Place(home / name) for name in PLACES}
    for name, place in places.items():
        (place.folder / "in").mkdir(parents=True)
        text = {"silent": SILENT, "hold": ENDLESS}.get(name)
        files = 1 if name in ONE_FILE_A_BATCH else 100
        (place.folder / f"{name}.py").write_text(text or COUNTS.format(name=name, files=files))
        names, arguments = PLACES[name]
        dag = PLAIN.format(names=names, reference=place.reference(), root=place.root, arguments=arguments)
        if name == "distant":
            hold = str(place.folder / "hold")
            dag = DISTANT.format(reference=place.reference(), root=place.root, hold=hold, path=PYTHONPATH)
        (dags / f"{name}_dag.py").write_text(dag)
        place.open().init()
    return places
