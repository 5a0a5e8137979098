"""`tidemill_dags`: the DAGs that keep one pipeline going, from one call in a DAG file.

Cadence and sweep; what a task does is the operators'. INVARIANT: no run's input comes from its date: every run
takes what waits by the pipeline's own log, so runs may be skipped, late or repeated. Hence no catch-up and no
backfills, and one run at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from ..errors import InvalidInput
from .command import check_engine, check_limit, check_pipeline, check_root, default_name, is_template
from .operators import TidemillRunOperator, TidemillSweepOperator

if TYPE_CHECKING:
    from airflow.sdk.definitions.dag import ScheduleArg

DEFAULT_SWEEP = "7-59/15 * * * *"
"""When due timeouts are looked for where nobody says: every quarter of an hour, off the usual minutes."""

_DEFAULT_ARGS: Mapping[str, Any] = {
    "owner": "tidemill",
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}
_RUN_TYPES: Any = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
"""All but backfills: they would start several runs at once for dates that mean nothing to a pipeline."""


def tidemill_dags(
    pipeline: str,
    root: str | os.PathLike[str],
    schedule: ScheduleArg,
    *,
    name: str | None = None,
    sweep: ScheduleArg | bool = True,
    tasks: str = "one",
    branch: str = "main",
    engine: str | None = "spark",
    python: str | None = None,
    conf: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
    max_batches: str | int | None = None,
    time_budget: str | float | None = None,
    start_date: datetime | None = None,
    default_args: Mapping[str, Any] | None = None,
    tags: str | Iterable[str] = (),
) -> dict[str, DAG]:
    """The DAGs `NAME` (cadence) and `NAME__sweep`, registered with Airflow and returned by their ids.

    `NAME` is `name`, else the file stem or the last module part of `pipeline`. `schedule` is whatever Airflow
    takes; `sweep` is True (every quarter of an hour), False (no such DAG) or a schedule.
    """
    if tasks != "one":
        raise InvalidInput(f"tidemill_dags got tasks={tasks!r}: this version has only tasks='one', all in one task")
    check_limit("max_batches", max_batches, int, 1)
    check_limit("time_budget", time_budget, float, 0)
    shared = _Shared(
        name=name or default_name(pipeline),
        fileloc=sys._getframe(1).f_code.co_filename,
        start_date=start_date,
        default_args={**_DEFAULT_ARGS, **(default_args or {})},
        tags=("tidemill", *((tags,) if isinstance(tags, str) else tags)),
    )
    arguments: dict[str, Any] = {
        "pipeline": check_pipeline(pipeline),
        "root": root if is_template(root) else check_root(root),
        "branch": branch,
        "engine": check_engine(engine),
        "python": python,
        "conf": conf,
        "env": env,
        "storage_options": storage_options,
    }
    with shared.dag(shared.name, schedule, "drains what is waiting, publishes, fires what is due") as cadence:
        TidemillRunOperator(task_id="run", max_batches=max_batches, time_budget=time_budget, **arguments)
    dags = [cadence]
    if sweep is not False:
        clock = DEFAULT_SWEEP if isinstance(sweep, bool) else sweep
        with shared.dag(f"{shared.name}__sweep", clock, "fires what is due, without input") as sweeping:
            TidemillSweepOperator(task_id="sweep", **arguments)
        dags.append(sweeping)
    return {dag.dag_id: dag for dag in dags}


@dataclass(frozen=True)
class _Shared:
    """What all DAGs of one pipeline have in common."""

    name: str
    fileloc: str
    start_date: datetime | None
    default_args: dict[str, Any]
    tags: tuple[str, ...]

    def dag(self, dag_id: str, schedule: ScheduleArg, what: str) -> DAG:
        dag = DAG(
            dag_id=dag_id,
            schedule=schedule,
            start_date=self.start_date,
            catchup=False,
            max_active_runs=1,
            allowed_run_types=_RUN_TYPES,
            default_args=self.default_args,
            tags=list(self.tags),
            description=f"Tidemill pipeline {self.name}: {what}",
        )
        # Airflow takes the file that called `DAG`; paths in `pipeline` are relative to the file that called us.
        dag.fileloc = self.fileloc
        return dag
