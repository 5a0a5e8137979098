"""`Run(run_with=…)`: the pair of tasks that `tidemill_dags` makes, and mistakes that are import errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import InvalidInput

Parse = Callable[..., Any]
ALL = ["retail", "retail__correct", "retail__maintain", "retail__replay", "retail__sweep"]


REMOTE = """
from airflow.sdk import BaseOperator
from tidemill.airflow import Launch, Run, tidemill_dags

class Job(BaseOperator):
    def __init__(self, job, **kwargs):
        super().__init__(**kwargs)
        self.job = job

def submit(job):
    return {made}

tidemill_dags(
    "pipelines/retail.py:p", root="s3://lake/tidemill", schedule="*/5 * * * *", watch={watch},
    run=Run(run_with={run_with}, {run}), launch=Launch(env={{"A": "b"}}, {launch}),
    dag_args={{"default_args": {{"pool": "retail", "retries": 2}}}},
)
"""


def remote(parse: Parse, **given: str) -> Any:
    text = {"made": "Job(job=job, task_id='submit')", "watch": "False", "run_with": "submit", "run": "", "launch": ""}
    return parse(REMOTE.format(**(text | given)))


@pytest.mark.parametrize("watch", ["False", "True"])
def test_run_with_makes_a_pair_in_the_cadence_alone(parse: Parse, airflow_home: Path, watch: str) -> None:
    launch = (
        "conf={'spark.a': 'b', 'tidemill.block_rows': 7}, storage_options={'root': {'region_name': 'x', 'token': 's'}}"
    )
    bag = remote(parse, watch=watch, launch=launch)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ALL
    submit, run = sorted(bag.dags["retail"].tasks, key=lambda task: task.task_id, reverse=True)
    assert (submit.task_id, run.task_id, run.upstream_task_ids) == ("submit", "run", {"submit"})
    assert [(task.pool, task.retries) for task in (submit, run)] == [("retail", 2)] * 2
    assert (run.trigger_rule.value, run.assets, run.root) == ("all_done", "retail", "s3://lake/tidemill")
    job = submit.job
    assert job.arguments == [
        "--root=s3://lake/tidemill", "--branch=main", "--max-batches={{ params.max_batches }}",
        "--time-budget={{ params.time_budget }}",
        "--result-file=s3://lake/tidemill/_results/{{ dag.dag_id }}/{{ run_id }}/{{ ti.task_id }}/"
        "{{ '%d/' % ti.map_index if ti.map_index is integer and ti.map_index >= 0 else '' }}{{ ti.try_number }}.json",
        "--conf", "tidemill.block_rows=7", "--storage-option=root.region_name=x", "--",
        f"{airflow_home}/dags/pipelines/retail.py:p",
    ]  # fmt: skip
    assert (job.conf, job.environment["AIRFLOW_CTX_TASK_ID"], "A" in job.environment) == (
        {"spark.a": "b"}, "{{ ti.task_id }}", False
    )  # fmt: skip
    assert set(bag.dags["retail"].params) == {"max_batches", "time_budget"}
    assert [task.task_id for task in bag.dags["retail__sweep"].tasks] == ["sweep"]


def test_places_of_the_driver_are_given_in_run(parse: Parse) -> None:
    run = "pipeline='retail:p', application='s3://lake/run_batch.py', results='/mnt/results'"
    job = next(task.job for task in remote(parse, run=run).dags["retail"].tasks if task.task_id == "submit")
    assert (job.application, job.arguments[-1]) == ("s3://lake/run_batch.py", "retail:p")
    assert job.result.startswith("file:///mnt/results/{{ dag.dag_id }}/")


def test_run_with_may_be_named(
    parse: Parse, airflow_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "on_platform.py").write_text(
        "from airflow.sdk import BaseOperator\nvalue = 3\ndef submit(job):\n"
        "    return BaseOperator(task_id='submit', doc=job.pipeline)\n"
    )
    assert remote(parse, run_with="'on_platform:submit'").import_errors == {}
    (airflow_home / "dags/streams.yaml").write_text(
        "streams:\n  retail:\n    pipeline: retail:p\n    root: /data/tidemill\n    schedule: '@hourly'\n"
        "    run: {run_with: 'on_platform:submit', application: s3://lake/run_batch.py}\n"
    )
    bag = parse("from tidemill.airflow import tidemill_dags_from\ntidemill_dags_from('streams.yaml', globals())\n")
    assert bag.import_errors == {}
    assert sorted(task.task_id for task in bag.dags["retail"].tasks) == ["run", "submit"]
    for name, message in (
        ("on_platform:other", "module 'on_platform' has no attribute 'other'"),
        ("nowhere:submit", "No module named 'nowhere'"),
        ("on_platform:value", "which is a int: expected a function"),
    ):
        (error,) = remote(parse, run_with=f"'{name}'").import_errors.values()
        assert message in error


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"made": "3"}, "run_with returned a int: expected an operator of Airflow"),
        ({"made": "Job(job=job, task_id='run')"}, "with the task id `run`, which belongs to the task that applies"),
        ({"run_with": "3"}, "run_with is 3: expected a function, or `module:function`"),
        ({"run_with": "'submit'"}, "run_with is 'submit': expected a function, or `module:function`"),
        ({"run_with": "None", "run": "application='x.py'"}, "Run has `application` without `run_with`"),
        ({"run": "pipeline='retail'"}, "invalid pipeline reference `retail`"),
        ({"launch": "conf={'spark.my.password': 'x'}"}, "conf has the setting `spark.my.password`, which looks like"),
    ],
)
def test_mistakes_of_run_with_are_import_errors(parse: Parse, given: dict[str, str], message: str) -> None:
    (error,) = remote(parse, **given).import_errors.values()
    assert message in error


def test_spark_job_refuses_literal_secrets() -> None:
    from tidemill.airflow import spark_job

    place = ("retail:p", "s3://lake/tidemill")
    with pytest.raises(InvalidInput, match="env has the variable `AWS_SECRET_ACCESS_KEY`"):
        spark_job(*place, env={"AWS_SECRET_ACCESS_KEY": "hush"})
    with pytest.raises(InvalidInput, match="storage_options has options that look like secrets"):
        spark_job(*place, storage_options={"root": {"aws_secret_access_key": "hush"}})
    assert "X_TOKEN" in spark_job(*place, env={"X_TOKEN": "{{ conn.lake.password }}"}).environment
    with pytest.raises(InvalidInput, match="results `data` is relative"):
        spark_job(*place, results="data")
    with pytest.raises(InvalidInput, match="root `data` is relative"):
        spark_job("retail:p", "data")


def test_outcome_operator_needs_a_job_with_a_result() -> None:
    import tidemill as tm
    from tidemill.airflow import TidemillOutcomeOperator

    with pytest.raises(InvalidInput, match="TidemillOutcomeOperator got no job"):
        TidemillOutcomeOperator(task_id="run", result="/r.json")
    with pytest.raises(InvalidInput, match="writes no result"):
        TidemillOutcomeOperator(task_id="run", job=tm.submit_args("retail:p", "/x"))
