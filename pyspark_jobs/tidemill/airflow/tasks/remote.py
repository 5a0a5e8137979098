"""`spark_job`: one run as a job for any provider's operator.

No provider is imported. INVARIANT: strings of a job are templates that Airflow renders in the task that runs it. So
each try of the task has a result file of its own, and its commits name the DAG, run, task and try.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...errors import InvalidInput
from ...names import STORAGE_ENVIRONMENT
from ...secret_names import holds_secret
from ...submit import SparkJob, submit_args
from ..calls.checks import check_mapping, check_pipeline, check_root_argument, check_storage_options, is_template
from ..calls.connections import aws_variables
from ..waiting.heads import root_options, tries_in

if TYPE_CHECKING:
    from airflow.sdk import Context

NOTE = "tidemill_results"
"""The XCom in which a try of a job's task notes which results were there when it began."""
RESULTS = "_results"
"""The folder of results below the root. No pipeline can have this name."""
TRY = "{{ ti.try_number }}"
"""The number of a try, as a template. It is in the name of a job's result file."""
_TASK = "{{ ti.task_id }}"
_FILE = "{{ '%d/' % ti.map_index if ti.map_index is integer and ti.map_index >= 0 else '' }}" + TRY + ".json"
_CONTEXT: Mapping[str, str] = {
    "AIRFLOW_CTX_DAG_ID": "{{ dag.dag_id }}",
    "AIRFLOW_CTX_TASK_ID": _TASK,
    "AIRFLOW_CTX_DAG_RUN_ID": "{{ run_id }}",
    "AIRFLOW_CTX_TRY_NUMBER": TRY,
    "AIRFLOW_CTX_LOGICAL_DATE": "{{ dag_run.logical_date.isoformat() if dag_run.logical_date else '' }}",
}


def spark_job(
    pipeline: str,
    root: str | os.PathLike[str],
    *,
    branch: str = "main",
    application: str | None = None,
    results: str | None = None,
    conf: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
    max_batches: str | int | None = None,
    time_budget: str | float | None = None,
    batch_time: str | int | None = None,
) -> SparkJob:
    """Return one run as a job for a provider's operator: application, arguments, conf, environment and result file.

    Pass them to templated fields of the operator. `TidemillOutcomeOperator` applies the result.

    - `pipeline`: `module:name`, or `path.py:name` with a path on the driver.
    - `root`, `branch`: the repository: a URI or an absolute path, the same for the driver and for Airflow.
    - `application`: a path or URI of `run_batch.py`. Default: the file of this installation.
    - `results`: the folder of result files, `s3://…` or a folder that driver and Airflow share. Default: below `root`.
    - `conf`, `env`, `storage_options`: settings, variables of the driver and options of the stores, as in `Launch`.
    - `max_batches`, `time_budget`, `batch_time`: as in `TidemillRunOperator`. They may be templates.

    Raises `InvalidInput` for an invalid argument and for a literal secret, because Airflow stores and shows them.
    """
    check_pipeline(pipeline)
    place = root if is_template(root) else check_root_argument(root)
    for what, given, example in (("conf", conf, '{"spark.executor.cores": 2}'), ("env", env, '{"AWS_REGION": "…"}')):
        check_mapping(what, given, example)
    check_storage_options(storage_options)
    for name, value in (env or {}).items():
        if holds_secret(str(name), value) and not is_template(value):
            raise _literal(f"env has the variable `{name}`")
    folder = _folder(f"{os.fspath(place).rstrip('/')}/{RESULTS}" if results is None else os.fspath(results))
    job = submit_args(
        pipeline, place, branch=branch, application=application, conf=conf, env={**_CONTEXT, **(env or {})},
        storage_options=storage_options, result=f"{folder}/{{{{ dag.dag_id }}}}/{{{{ run_id }}}}/{_TASK}/{_FILE}",
        max_batches=max_batches, time_budget=time_budget, batch_time=batch_time,
    )  # fmt: skip
    if STORAGE_ENVIRONMENT in job.environment:
        raise _literal("storage_options has options that look like secrets, or that are no text")
    return job


def note_results(
    job: SparkJob,
    *,
    env: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
    aws_conn_id: str | None = None,
) -> Callable[[Context], None]:
    """Return a callback for `on_execute_callback` of a job's operator. It notes which results are there at its start.

    So a last try without a result is not taken for the one before it. A try that resumes the job of an earlier one, as
    some operators do, has the result of that job. `env`, `storage_options`, `aws_conn_id`: as in
    `TidemillOutcomeOperator`.
    """

    def note(context: Context) -> None:
        ti = context["ti"]
        noted = ti.xcom_pull(task_ids=ti.task_id, key=NOTE, map_indexes=mapped(ti.map_index))
        if isinstance(noted, Mapping) and noted.get("try_number") == ti.try_number:
            return  # the try goes on after it was deferred
        folder = context["task"].render_template(results_folder_of(str(job.result), ti.task_id), context)
        variables = {**aws_variables(aws_conn_id), **(env or {})}
        before = tries_in(folder, root_options(storage_options, variables))
        ti.xcom_push(key=NOTE, value={"try_number": ti.try_number, "before": before})

    return note


def mapped(map_index: int | None) -> int | None:
    """Return the index of a mapped task, or None for a task that is not mapped."""
    return None if map_index is None or map_index < 0 else map_index


def results_folder_of(result: str, task_id: str) -> str:
    """Return the folder of the result files of a task, as a template, of the file that a job has."""
    return result.rpartition(TRY)[0].replace(_TASK, task_id)


def _folder(place: str) -> str:
    """Return a folder as a URI, because a store makes missing folders and a plain path does not."""
    if "://" not in place and not is_template(place) and not os.path.isabs(place):
        raise InvalidInput(f"results `{place}` is relative: expected a URI (`s3://bucket/prefix`) or an absolute path")
    return place.rstrip("/") if "://" in place or is_template(place) else f"file://{quote(place.rstrip('/'))}"


def _literal(what: str) -> InvalidInput:
    return InvalidInput(
        f"spark_job: {what}: Airflow stores and shows the arguments of operators",
        hint="give the job a role of its platform, or use the platform's own store of secrets",
    )
