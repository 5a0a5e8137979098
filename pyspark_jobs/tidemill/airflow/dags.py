"""`tidemill_dags`: one call in a DAG file makes the DAGs that run a pipeline. `operators` says what a task does.

INVARIANT: the input of a run never depends on its date. Every run reads the files that wait according to the
pipeline's own log, so runs may be skipped, late or repeated. Therefore the DAGs have no catch-up and no backfills, and
one run at a time.
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
"""The default schedule of sweeps: every 15 minutes, 7 minutes after the quarter, when most DAGs do not start."""

_DEFAULT_ARGS: Mapping[str, Any] = {
    "owner": "tidemill",
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
}
_RUN_TYPES: Any = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
"""All run types except backfills, which would start concurrent runs for dates that a pipeline ignores."""


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
    """Create the DAGs `NAME` (cadence) and `NAME__sweep`, register them with Airflow and return them by id.

    - `pipeline`: `path.py:name`, relative to the folder of the DAG file, or `module:name`.
    - `root`: a URI or an absolute path.
    - `schedule`: any schedule that Airflow accepts.
    - `name`: default: the stem of the file, or the last part of the module, of `pipeline`.
    - `sweep`: True (every 15 minutes), False (no sweep DAG) or a schedule.
    - `branch`: the branch to commit to, which must exist.
    - `engine`: "spark" or "local", which needs no Java.
    - `start_date`, `tags`: passed to Airflow; `tags` are added to the tag `tidemill`.
    - `tasks`: only "one" is supported: one task drains, publishes and fires due timeouts.
    - `python`: the interpreter that has Tidemill installed. Default: Airflow's own.
    - `conf`: `tidemill.…` and `spark.…` settings. They appear on the command line, so pass no secrets.
    - `env`: extra environment variables of the command.
    - `storage_options`: `{"root": {…}, "source": {…}, "sink": {…}}`, passed through the environment.
    - `max_batches`, `time_budget` (seconds): limits of one run. Default: none.
    - `default_args`: overrides of the task defaults (3 retries after 1, 2 and 4 minutes).

    Raises `InvalidInput` for invalid arguments; Airflow shows it as an import error of the DAG file.
    """
    if tasks != "one":
        raise InvalidInput(f"tidemill_dags got tasks={tasks!r}: this version supports only tasks='one'")
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
    with shared.dag(shared.name, schedule, "drain waiting files, publish, fire due timeouts") as cadence:
        TidemillRunOperator(task_id="run", max_batches=max_batches, time_budget=time_budget, **arguments)
    dags = [cadence]
    if sweep is not False:
        clock = DEFAULT_SWEEP if isinstance(sweep, bool) else sweep
        with shared.dag(f"{shared.name}__sweep", clock, "fire due timeouts, without input") as sweeping:
            TidemillSweepOperator(task_id="sweep", **arguments)
        dags.append(sweeping)
    return {dag.dag_id: dag for dag in dags}


@dataclass(frozen=True)
class _Shared:
    """The arguments that all DAGs of one pipeline share."""

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
        # Airflow records the file that calls `DAG`. Paths in `pipeline` are relative to the file that calls us.
        dag.fileloc = self.fileloc
        return dag
