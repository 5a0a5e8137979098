"""The tasks of the DAG with the cadence: `run` alone, or a job of another operator and `run`, which applies its result.

INVARIANT: the task with the id `run` has the XCom of the run and makes its asset events, wherever the run is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import BaseOperator

from ...errors import InvalidInput
from ...secret_names import is_secret
from ...submit import SparkJob
from ..calls.checks import is_template, locate
from ..calls.options import Run
from ..tasks.operators import TidemillRunOperator
from ..tasks.remote import note_results, spark_job

_CREDENTIALS = ("env", "storage_options", "aws_conn_id")


def run_task(name: str, watched: str | None, options: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Make the task of a run that is a process of Airflow's worker. `watched`: the pipeline that a trigger watches."""
    if watched is None:
        TidemillRunOperator(task_id="run", assets=name, **options, **arguments)
        return
    from .watching import WatchedRunOperator

    WatchedRunOperator(task_id="run", watched=watched, assets=name, **options, **arguments)


def remote_tasks(
    name: str,
    watched: str | None,
    run: Run,
    options: Mapping[str, Any],
    arguments: Mapping[str, Any],
    folder: str,
) -> None:
    """Make the task of the operator that `run_with` returns, and the task `run` behind it.

    `folder` is that of the DAG file. Settings of the stores that look like secrets are for Airflow's worker alone.
    """
    storage = {
        section: {key: value for key, value in given.items() if not is_secret(str(key)) and not is_template(value)}
        for section, given in (arguments.get("storage_options") or {}).items()
    }
    job = spark_job(
        run.pipeline or locate(arguments["pipeline"], folder),
        arguments["root"],
        branch=arguments["branch"],
        application=run.application,
        results=run.results,
        conf=arguments.get("conf"),
        storage_options=storage,
        **options,
    )
    before = _operator(run.run_with, job)
    before.on_execute_callback = [
        *before.on_execute_callback,
        note_results(job, **{key: arguments[key] for key in _CREDENTIALS if key in arguments}),
    ]
    ours = ("pipeline", "root", "branch", *_CREDENTIALS, "rows_in_exceptions")
    behind: dict[str, Any] = {
        "task_id": "run",
        "job": job,
        "job_task_id": before.task_id,
        "name": watched,
        "assets": name,
        **{key: arguments[key] for key in ours if key in arguments},
    }
    if watched is None:
        from ..tasks.outcome import TidemillOutcomeOperator

        before >> TidemillOutcomeOperator(**behind)
    else:
        from .watching import WatchedOutcomeOperator

        before >> WatchedOutcomeOperator(watched=watched, **behind)


def _operator(run_with: Callable[[SparkJob], Any] | str | None, job: SparkJob) -> BaseOperator:
    """Return the operator for a job. Raise `InvalidInput` if that is no operator with a task id of its own."""
    made = _function(run_with)(job)
    if not isinstance(made, BaseOperator):
        raise InvalidInput(
            f"run_with returned a {type(made).__name__}: expected an operator of Airflow",
            hint='for example `EmrServerlessStartJobOperator(task_id="submit", …)`',
        )
    if made.task_id == "run":
        raise InvalidInput(
            "run_with returned an operator with the task id `run`, which belongs to the task that applies the result",
            hint='give it another one: `task_id="submit"`',
        )
    return made


def _function(run_with: Any) -> Callable[[SparkJob], Any]:
    if not isinstance(run_with, str):
        return run_with  # type: ignore[no-any-return]
    module, _, name = run_with.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"run_with is `{run_with}`: {error}", hint="put the module beside the DAG file, or install it"
        ) from error
    if not callable(found):
        raise InvalidInput(f"run_with is `{run_with}`, which is a {type(found).__name__}: expected a function")
    return found  # type: ignore[no-any-return]
