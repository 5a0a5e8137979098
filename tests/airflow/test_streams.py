"""`tidemill_dags_from`: many pipelines from one YAML file, and what they cost to parse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

DAG_FILE = """
# an airflow dag
from tidemill.airflow import tidemill_dags_from
tidemill_dags_from("streams.yaml", globals())
"""
STREAMS = """
defaults:
  root: s3://lake/tidemill
  schedule: "*/5 * * * *"
  launch: {python: /venv/bin/python, stall_timeout: 30 minutes}
  dag_args: {tags: [lake], dagrun_timeout: 6 hours}
streams:
  retail:
    pipeline: pipelines/retail.py:p
    sweep: false
    replay: false
    correct: false
    watch: {pipeline: shop, poll: 1 minute}
  clicks:
    pipeline: pipelines/main.py:p
    schedule: "* * * * *"
    engine: local
    run: {max_batches: 5}
    launch: {cwd: /work}
    maintain: {keep: 90 days}
    replay: {promote: never, response_timeout: 2 days}
    dag_args: {default_args: {retries: 2, retry_delay: 30 seconds}}
"""
Load = Callable[..., Any]


@pytest.fixture
def load(airflow_home: Path, parse: Callable[..., Any]) -> Load:
    """Write a YAML file beside the DAG file and load the DAG file the way Airflow does."""

    def load_streams(text: str, dag_file: str = DAG_FILE) -> Any:
        (airflow_home / "dags/streams.yaml").write_text(text)
        return parse(dag_file)

    return load_streams


def test_every_stream_gets_its_dags(load: Load) -> None:
    bag = load(STREAMS)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == [
        *("clicks", "clicks__correct", "clicks__maintain", "clicks__replay", "clicks__sweep"),
        *("retail", "retail__maintain"),
    ]
    retail, clicks = bag.dags["retail"], bag.dags["clicks"]
    assert (retail.timetable.timetable.expression, clicks.timetable.expression) == ("*/5 * * * *", "* * * * *")
    assert (retail.tasks[0].pipeline, clicks.tasks[0].pipeline) == ("pipelines/retail.py:p", "pipelines/main.py:p")
    assert (clicks.params["engine"], clicks.params["max_batches"]) == ("local", 5)
    assert bag.dags["clicks__maintain"].params["keep"] == "90 days"
    replay = bag.dags["clicks__replay"]
    assert (replay.params["promote"], replay.get_task("approve").response_timeout) == ("never", timedelta(days=2))
    (asset,) = retail.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    assert (watcher.trigger.pipeline, watcher.trigger.poll_s) == ("shop", 60.0)
    assert Path(clicks.fileloc).name == "retail_dag.py"


def test_options_of_a_stream_are_added_to_the_defaults(load: Load) -> None:
    dags = load(STREAMS).dags
    task = dags["clicks"].tasks[0]
    assert (task.python, task.cwd, task.stall_timeout) == ("/venv/bin/python", "/work", timedelta(minutes=30))
    assert (task.retries, task.retry_delay) == (2, timedelta(seconds=30))
    assert dags["clicks"].dagrun_timeout == dags["retail"].dagrun_timeout == timedelta(hours=6)
    assert "lake" in dags["clicks"].tags
    assert dags["retail"].tasks[0].cwd is None


def test_namespace_gets_the_dags(load: Load) -> None:
    bag = load(STREAMS, DAG_FILE + "\nassert clicks__sweep.dag_id == 'clicks__sweep'\n")
    assert bag.import_errors == {}


@pytest.mark.parametrize(
    ("dag_id", "made"),
    [
        ("clicks", ["clicks", "clicks__correct", "clicks__maintain", "clicks__replay", "clicks__sweep"]),
        ("clicks__sweep", ["clicks", "clicks__correct", "clicks__maintain", "clicks__replay", "clicks__sweep"]),
        ("retail", ["retail", "retail__maintain"]),
        ("click", []),
    ],
)
def test_task_parses_only_its_own_stream(
    load: Load, monkeypatch: pytest.MonkeyPatch, dag_id: str, made: list[str]
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    broken = STREAMS + "  broken: {pipeline: nothing}\n"
    bag = load(broken)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("streams:", "stream:"), "unknown key `stream` in `{place}`; did you mean `streams`?"),
        (("sweep: false", "swep: false"), "unknown key `swep` in stream `retail` of `{place}`; did you mean `sweep`?"),
        (("max_batches: 5", "max_batch: 5"), "unknown key `max_batch` in `run` of stream `clicks` of `{place}`; did"),
        (
            ("max_batches: 5", "max_batches: 0"),
            "stream `clicks` of `{place}`: max_batches is 0: expected a whole number",
        ),
        (("  root: s3://lake/tidemill\n", ""), "stream `retail` of `{place}` has no `root`"),
        (("engine: local", "engine: lokal"), "stream `clicks` of `{place}`: unknown engine `lokal`; did you mean"),
        (("run: {max_batches: 5}", "run: 5"), "stream `clicks` of `{place}`: run is a int: expected `Run(…)`"),
        (("30 minutes", "soon"), "`stall_timeout` in `launch` of stream `retail` of `{place}` is 'soon': expected a"),
        (("  clicks:", "  retail:"), "key `retail` is there twice"),
        (("streams:", "streams: ["), "read streams from `{place}`: while parsing"),
        (("defaults:", "defaults: 5\nx:"), "unknown key `x` in `{place}`"),
        (
            ("pipeline: pipelines/retail.py:p", "pipeline: !!python/object/apply:os.getcwd []"),
            "could not determine a co",
        ),
    ],
)
def test_mistake_is_an_import_error_that_names_it(
    load: Load, airflow_home: Path, change: tuple[str, str], message: str
) -> None:
    bag = load(STREAMS.replace(*change))
    (error,) = bag.import_errors.values()
    assert message.format(place=airflow_home / "dags/streams.yaml") in error


def test_file_that_is_not_there_is_named(load: Load) -> None:
    (error,) = load(STREAMS, DAG_FILE.replace("streams.yaml", "nothing.yaml")).import_errors.values()
    assert "nothing.yaml`: [Errno 2] No such file or directory" in error
    (error,) = load(STREAMS, DAG_FILE.replace("globals()", "{}")).import_errors.values()
    assert "pass `globals()` of the DAG file" in error


MANY = """
# an airflow dag
from tidemill.airflow import tidemill_dags
for number in range(100):
    tidemill_dags(f"pipelines/p{number}.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *")
"""
TIMED = """
import sys, time
from airflow.dag_processing.dagbag import DagBag
import airflow.sdk, tidemill.airflow.dags.streams  # noqa
for _ in range(2):  # the first parse imports the rest of Airflow
    started = time.process_time()
    bag = DagBag(dag_folder=sys.argv[1], load_op_links=False)
parsed = time.process_time()
sum(number * number for number in range(10_000_000))
print(len(bag.dags), (parsed - started) / (time.process_time() - parsed))
"""


@pytest.mark.servers("run Airflow tasks")
@pytest.mark.parametrize("how", ["calls", "streams"])
def test_a_hundred_pipelines_parse_in_a_second(airflow_home: Path, load: Load, how: str) -> None:
    """CPU time of a fresh process, so that other processes do not count, as a share of that of a loop of ten million
    steps, so that the machine does not count: 1 to 1.5 on several, where the loop took about a second."""
    streams = "".join(f"  p{number}: {{pipeline: 'pipelines/p{number}.py:p'}}\n" for number in range(100))
    head = "defaults: {root: 's3://lake/tidemill', schedule: '*/5 * * * *'}\nstreams:\n"
    load(head + streams, MANY if how == "calls" else DAG_FILE)
    done = subprocess.run(
        [sys.executable, "-c", TIMED, str(airflow_home / "dags")], capture_output=True, text=True, check=True
    )
    count, share = done.stdout.split()[-2:]
    assert count == "500"
    assert float(share) < 2.5
