"""A job of another operator, and the task that applies its result: by `dag.test()`, with an operator of the test's own.

That operator writes the result file, or does not. `tests/airflow/test_remote_spark.py` has real jobs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.world import World
from tidemill.airflow.calls.report import FIGURES

pytestmark = pytest.mark.servers("run Airflow tasks")

DAG = """
import json, os
from datetime import timedelta
from airflow.sdk import BaseOperator
from tidemill.airflow import Launch, Run, tidemill_dags

class Job(BaseOperator):
    template_fields = ("arguments", "environment", "result")

    def __init__(self, job, **kwargs):
        super().__init__(**kwargs)
        self.arguments, self.environment, self.result = job.arguments, job.environment, job.result

    def execute(self, context):
        said = {said!r}
        seen = {{"arguments": self.arguments, "environment": self.environment, "result": self.result}}
        print("JOB", json.dumps(seen), flush=True)
        number = self.environment["AIRFLOW_CTX_TRY_NUMBER"]
        place = os.path.join(os.path.dirname(self.result.removeprefix("file://")), {place!r} or number + ".json")
        if number in said:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w") as file:
                file.write(said[number])
        if number in {fails!r}:
            raise RuntimeError("the platform says that the job failed")

def on_platform(job):
    return Job(job=job, task_id="submit", queue="emr")

tidemill_dags(
    "pipelines/retail.py:p", root={root!r}, schedule="*/5 * * * *", name="retail",
    run=Run(run_with=on_platform, {run}), launch=Launch(conf={{"tidemill.block_rows": 10, "spark.x": "y"}}, {launch}),
    dag_args={{"default_args": {{"retries": 1, "retry_delay": timedelta(0)}}}},
)
"""
DONE = {
    "event": "result", "verb": "run", "status": "done", "versions": [4, 5], "already_committed": [],
    "published": [3, 4, 5], "head": 5, "pipeline": "retail", "branch": "main", "graph": ["sales ── totals"],
    "watermarks": {"source.t": "2026-01-05T00:00:00.000Z"}, "next_deadline": {}, "rows": 7,
    "sinks": {"orders": {"first_version": 4, "last_version": 5, "rows": 7, "path": "/data/orders"}},
}  # fmt: skip
NOTHING = {**DONE, "status": "nothing", "versions": [], "published": [], "sinks": {}}
OUR_LINE = re.compile(r"^\S+ \[(\w+) *\] (.*?) *\[airflow\.task\.operators\.tidemill\S*\] loc=", re.MULTILINE)


@dataclass
class Ran:
    """How the DAG run and its two tasks ended; `jobs` is what each try of the job was given."""

    state: str
    tasks: dict[str, tuple[str, int]]
    xcom: Any
    output: str

    @property
    def log(self) -> list[str]:
        return [line for _, line in OUR_LINE.findall(self.output)]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return [json.loads(line[4:]) for line in re.findall(r"JOB \{.*\}", self.output)]


RunPair = Callable[..., Ran]


@pytest.fixture
def run_pair(parse: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunPair:
    def run(
        said: Mapping[str, Any], fails: tuple[str, ...] = (), run: str = "", launch: str = "", root: str | None = None,
        conf: dict[str, Any] | None = None, place: str = "",
    ) -> Ran:  # fmt: skip
        texts = {number: one if isinstance(one, str) else json.dumps(one) for number, one in said.items()}
        repository = root or str(tmp_path / "root")
        bag = parse(DAG.format(said=texts, fails=fails, root=repository, run=run, launch=launch, place=place))
        assert bag.import_errors == {}
        dag_run = bag.dags["retail"].test(run_conf=conf)
        tasks = {ti.task_id: ti for ti in dag_run.get_task_instances()}
        ends = {name: (str(ti.state), ti.try_number) for name, ti in tasks.items()}
        return Ran(str(dag_run.state), ends, tasks["run"].xcom_pull(task_ids="run"), capsys.readouterr().out)

    return run


def test_done_ends_as_a_run_on_the_worker_does(run_pair: RunPair, tmp_path: Path) -> None:
    ran = run_pair({"1": DONE})
    assert (ran.state, ran.tasks) == ("success", {"submit": ("success", 1), "run": ("success", 1)})
    (job,) = ran.jobs
    run_id = job["environment"]["AIRFLOW_CTX_DAG_RUN_ID"]
    assert job["result"] == f"file://{tmp_path}/root/_results/retail/{run_id}/submit/1.json"
    said = [line for line in ran.log if line.startswith(("tidemill:", "asset"))]
    assert said == [
        f"tidemill: the result is `{job['result']}`",
        "tidemill: committed versions 4–5 (head 5)",
        "tidemill: published version 3, left unpublished by an earlier run",
        "asset events: tidemill://retail/orders",
    ]
    assert ran.log[-3:-1] == ["sales ── totals", "::endgroup::"]
    assert set(ran.xcom) == {
        "status", "versions", "already_committed", "published", "head", "sinks", "watermarks", "next_deadline",
        *FIGURES,
    }  # fmt: skip
    assert (ran.xcom["versions"], ran.xcom["rows"], ran.xcom["sinks"]) == ([[4, 5]], 7, DONE["sinks"])


def test_job_is_given_arguments_and_the_airflow_run(run_pair: RunPair, airflow_home: Path, tmp_path: Path) -> None:
    (job,) = run_pair({"1": NOTHING}, conf={"max_batches": 3}).jobs
    assert job["arguments"] == [
        f"--root={tmp_path}/root", "--branch=main", "--max-batches=3", "--time-budget=None",
        f"--result-file={job['result']}", "--conf", "tidemill.block_rows=10", "--",
        f"{airflow_home}/dags/pipelines/retail.py:p",
    ]  # fmt: skip
    assert job["environment"].keys() == {
        f"AIRFLOW_CTX_{name}" for name in ("DAG_ID", "TASK_ID", "DAG_RUN_ID", "TRY_NUMBER", "LOGICAL_DATE")
    }
    assert (job["environment"]["AIRFLOW_CTX_DAG_ID"], job["environment"]["AIRFLOW_CTX_TASK_ID"]) == ("retail", "submit")


def test_nothing_to_do_is_a_success_without_events(run_pair: RunPair) -> None:
    ran = run_pair({"1": NOTHING})
    assert (ran.state, ran.xcom["status"]) == ("success", "nothing")
    assert "tidemill: nothing to do (head 5)" in ran.log
    assert not [line for line in ran.log if line.startswith("asset events")]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Fenced", "commit 5 of `flights` is another batch\nhint: look at who commits"),
        ("StoreUnavailable", "put `x` of `s3://lake`: no answer"),
    ],
)
def test_error_fails_without_a_retry_of_the_outcome(run_pair: RunPair, kind: str, message: str) -> None:
    error = {"event": "error", "kind": kind, "message": message, "versions": [4]}
    ran = run_pair({"1": error, "2": error}, fails=("1", "2"))
    assert (ran.state, ran.tasks) == ("failed", {"submit": ("failed", 2), "run": ("failed", 1)})
    first, *hint = message.split("\n")
    raised = "\n".join([f"AirflowFailException: {kind}: {first} (version 4 committed before)", *hint])
    assert raised in ran.output


def test_exception_has_no_row(run_pair: RunPair) -> None:
    message = "function `f` of operator `o` raised `ValueError: Joe Smith` for key `1`\nhint: repair the function"
    error = {"event": "error", "kind": "InvalidInput", "message": message, "versions": []}
    ran = run_pair({"1": error})
    assert "AirflowFailException: InvalidInput: function `f` of operator `o` raised `ValueError`\n" in ran.output
    assert re.search(
        r"\[error *\] InvalidInput: function `f` of operator `o` raised `ValueError: Joe Smith`", ran.output
    )


def test_result_decides_and_not_the_platform(run_pair: RunPair) -> None:
    ran = run_pair({"2": DONE}, fails=("1", "2"))
    assert ran.tasks == {"submit": ("failed", 2), "run": ("success", 1)}
    assert (ran.state, ran.xcom["versions"]) == ("success", [[4, 5]])


def test_result_of_an_earlier_try_is_not_that_of_the_last_one(run_pair: RunPair) -> None:
    ran = run_pair({"1": DONE}, fails=("1", "2"))
    assert ran.tasks == {"submit": ("failed", 2), "run": ("failed", 2)}
    assert re.search(r"AirflowException: the job of `\S+:p` left no result in `file://\S+/submit/`", ran.output)


def test_try_that_resumes_the_job_of_an_earlier_one_has_its_result(run_pair: RunPair) -> None:
    ran = run_pair({"2": DONE}, fails=("1",), place="1.json")
    assert ran.tasks == {"submit": ("success", 2), "run": ("success", 1)}
    assert ran.log[0].endswith("/submit/1.json`")


def test_later_try_names_what_the_earlier_ones_committed(run_pair: RunPair) -> None:
    ran = run_pair({"2": {**NOTHING, "earlier": [4]}}, fails=("1",))
    assert ran.tasks == {"submit": ("success", 2), "run": ("success", 1)}
    said = "tidemill: nothing to do (head 5); an earlier try of this task had already committed version 4"
    assert said in ran.log


def test_missing_result_says_where_to_look_and_what_the_commits_say(
    run_pair: RunPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run_pair({})
    assert (ran.state, ran.tasks) == ("failed", {"submit": ("success", 1), "run": ("failed", 2)})
    assert "its commits cannot be read: pipeline `retail` has no repository under" in ran.output
    world = World(tmp_path, name="retail", header=True, schema="k string")
    world.arrive("k\na\n")
    world.open()
    ran = run_pair({})
    assert "by the commits of the repository, task `submit` has committed nothing in this DAG run" in ran.output
    assert "hint: see the driver's log on its platform; commits are final" in ran.output

    def commit(seen: dict[str, str]) -> None:
        with monkeypatch.context() as patch:
            for name, value in seen.items():
                patch.setenv(name, value)
            world.run()

    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    original = RuntimeTaskInstance.xcom_push

    def commits_meanwhile(self: Any, key: str, value: Any) -> None:
        if key == "tidemill_results":
            commit({"AIRFLOW_CTX_DAG_ID": self.dag_id, "AIRFLOW_CTX_TASK_ID": self.task_id,
                    "AIRFLOW_CTX_DAG_RUN_ID": self.run_id, "AIRFLOW_CTX_TRY_NUMBER": "1"})  # fmt: skip
        original(self, key, value)

    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", commits_meanwhile)
    ran = run_pair({})
    assert "task `submit` has committed version 0 in this DAG run" in ran.output


@pytest.mark.parametrize("text", ["[1]", '{"event": "resu'])
def test_file_that_is_no_result_is_an_error(run_pair: RunPair, text: str) -> None:
    ran = run_pair({"1": text})
    assert ran.tasks["run"] == ("failed", 1)
    assert "is no result of a run: expected the JSON object that `--result-file` writes" in ran.output


OWN = """
import json, os
from airflow.sdk import DAG, BaseOperator
from tidemill.airflow import TidemillOutcomeOperator, spark_job

class Job(BaseOperator):
    template_fields = ("result",)

    def __init__(self, job, **kwargs):
        super().__init__(**kwargs)
        self.result = job.result

    def execute(self, context):
        for place in {places}:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            open(place, "w").write({said!r})

with DAG("own"):
    job = spark_job("retail:p", {root!r})
    Job(job=job, task_id="submit") >> TidemillOutcomeOperator(task_id="run", job=job, {more})
"""


def own(parse: Callable[..., Any], root: Path, places: str, more: str = "") -> tuple[str, Any]:
    bag = parse(OWN.format(root=str(root), places=places, said=json.dumps(DONE), more=more))
    assert bag.import_errors == {}
    (ti,) = [ti for ti in bag.dags["own"].test().get_task_instances() if ti.task_id == "run"]
    return str(ti.state), ti.xcom_pull(task_ids="run")


def test_own_dag_takes_the_newest_result_of_the_task(parse: Callable[..., Any], tmp_path: Path) -> None:
    place = 'self.result.removeprefix("file://")'
    state, xcom = own(parse, tmp_path, f'[{place}, {place}.replace("/1.json", "/x.json")]')
    assert (state, xcom["versions"]) == ("success", [[4, 5]])
    state, xcom = own(parse, tmp_path, "[]")
    assert (state, xcom) == ("failed", None)


def test_result_of_ones_own_needs_no_job(parse: Callable[..., Any], tmp_path: Path) -> None:
    state, xcom = own(parse, tmp_path, f"[{str(tmp_path / 'r.json')!r}]", f"result={str(tmp_path / 'r.json')!r}")
    assert (state, xcom["versions"]) == ("success", [[4, 5]])


def test_two_tasks_before_need_the_name_of_the_job(
    parse: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OWN.format(root=str(tmp_path), places="[]", said="", more="").replace(
        'Job(job=job, task_id="submit")', '[Job(job=job, task_id="submit"), Job(job=job, task_id="other")]'
    )
    ran = parse(text).dags["own"].test()
    (ti,) = [ti for ti in ran.get_task_instances() if ti.task_id == "run"]
    assert (ti.state, ti.try_number) == ("failed", 1)
    assert "task `run` follows 2 tasks, expected the one that runs the job" in capsys.readouterr().out


def test_skipped_job_skips_its_outcome(parse: Callable[..., Any], tmp_path: Path) -> None:
    text = OWN.format(root=str(tmp_path), places="[]", said="", more="").replace(
        "        for place in []:", "        from airflow.sdk.exceptions import AirflowSkipException\n"
        "        raise AirflowSkipException('no data')\n        for place in []:"
    )  # fmt: skip
    ran = parse(text).dags["own"].test()
    assert {ti.task_id: str(ti.state) for ti in ran.get_task_instances()} == {"submit": "skipped", "run": "skipped"}


MAPPED = OWN.replace(
    'Job(job=job, task_id="submit") >> TidemillOutcomeOperator(task_id="run", job=job, {more})',
    """jobs = Job.partial(task_id="submit", job=job).expand(doc=["a", "b"])
    jobs >> TidemillOutcomeOperator.partial(task_id="run", job=job, job_task_id="submit").expand(doc=["a", "b"])""",
)


def test_mapped_jobs_have_results_of_their_own(parse: Callable[..., Any], tmp_path: Path) -> None:
    place = 'self.result.removeprefix("file://")'
    bag = parse(MAPPED.format(root=str(tmp_path), places=f"[{place}]", said=json.dumps(DONE)))
    assert bag.import_errors == {}
    ran = bag.dags["own"].test()
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in ran.get_task_instances()}
    assert states == {(name, index): "success" for name in ("submit", "run") for index in (0, 1)}
    places = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.json"))
    assert [one.split("/")[-3:] for one in places] == [["submit", "0", "1.json"], ["submit", "1", "1.json"]]
