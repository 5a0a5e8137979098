"""`tidemill_dags`: one call in a DAG file makes the DAGs that run a pipeline. `operators` says what a task does.

INVARIANT: the input of a run never depends on its date. Every run reads the files that wait according to the
pipeline's own log, so runs may be skipped, late or repeated. Therefore the DAGs have no catch-up and no backfills, and
one run at a time. `NAME__replay` takes the place of backfills.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG
from airflow.sdk.definitions._internal.contextmanager import DagContext

from ...errors import InvalidInput
from ...names import ENGINES
from ...values import dataclass
from ..calls.checks import check_engine, check_mapping, check_pipeline, check_root_argument, default_name, is_template
from ..calls.options import Correct, Freshness, Launch, Maintain, Replay, Run, Sweep, Watch, as_arguments
from ..tasks.action_operators import TidemillMaintainOperator
from ..tasks.freshness import TidemillFreshnessOperator
from ..tasks.sweeps import TidemillSweepOperator
from ..tasks.verifying import TidemillVerifyOperator
from .cadence import retries_for
from .correcting import correct_fields, correct_tasks
from .doc import dag_page
from .form import Form
from .replaying import replay_fields, replay_tasks
from .running import remote_tasks, run_task

if TYPE_CHECKING:
    from airflow.sdk.definitions.dag import ScheduleArg

_RUN_TYPES: Any = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
"""All run types except backfills, which would start concurrent runs for dates that a pipeline ignores."""
_DAG_ARGS: Mapping[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "allowed_run_types": _RUN_TYPES,
    "dagrun_timeout": timedelta(days=1),
    "max_consecutive_failed_dag_runs": 10,
}
_BY_HAND: Mapping[str, Any] = {
    "catchup": False,
    "max_active_runs": 4,
    "allowed_run_types": ("manual", "operator_triggered"),
}
"""Rules of DAGs that people trigger. A run that waits for an answer is active, and may take days."""
_OWN = {"dag_id": "name", "schedule": "schedule"}


def tidemill_dags(
    pipeline: str,
    root: str | os.PathLike[str],
    schedule: ScheduleArg,
    *,
    name: str | None = None,
    branch: str = "main",
    engine: str | None = "auto",
    run: Run | None = None,
    watch: Watch | bool = False,
    sweep: Sweep | ScheduleArg | bool = True,
    maintain: Maintain | bool = True,
    replay: Replay | bool = True,
    correct: Correct | bool = True,
    freshness: Freshness | None = None,
    launch: Launch | None = None,
    dag_args: Mapping[str, Any] | None = None,
) -> dict[str, DAG]:
    """Create the DAGs `NAME`, `NAME__sweep`, `NAME__maintain`, `NAME__replay` and `NAME__correct`.

    It registers them with Airflow and returns them by id.

    - `pipeline`: `path.py:name`, relative to the folder of the DAG file, or `module:name`.
    - `root`: a URI or an absolute path.
    - `schedule`: of `NAME`, any schedule that Airflow accepts.
    - `name`: default: the stem of the file, or the last part of the module, of `pipeline`.
    - `branch`: the branch to commit to, which must exist.
    - `engine`: "auto", "spark", or "local", which needs no Java. "auto" chooses for each batch.
    - `run`: limits of a run, and an operator that runs it elsewhere, as `Run(max_batches=…, run_with=…)`.
    - `watch`: True or `Watch(poll=…, …)`: new files start a run of `NAME` within half a minute, beside `schedule`.
    - `sweep`: True (at each deadline), False (no sweep DAG), `Sweep(schedule=…, wait=…)`, or a schedule, at which
      sweeps run without waiting for deadlines.
    - `maintain`: True (daily, discards no version), False (no such DAG) or `Maintain(keep=…, …)`.
    - `replay`: True, False (no such DAG) or `Replay(promote=…, …)`.
    - `correct`: True, False (no such DAG) or `Correct(carry_out=…, …)`.
    - `freshness`: `Freshness(lag=…, …)` adds the DAG `NAME__freshness`, which fails if the pipeline is behind.
    - `launch`: how commands are started, as `Launch(python=…, env=…, …)`.
    - `dag_args`: any arguments of Airflow's `DAG`, for all of them. `tags`, `default_args` and `params` are added to
      ours; anything else replaces ours.

    Raises `InvalidInput` for invalid arguments, and if a DAG of this file has the same id. Airflow shows it as an
    import error of the DAG file.
    """
    return make_dags(
        pipeline, root, schedule, sys._getframe(1).f_code.co_filename, name=name, branch=branch, engine=engine, run=run,
        watch=watch, sweep=sweep, maintain=maintain, replay=replay, correct=correct, freshness=freshness,
        launch=launch, dag_args=dag_args,
    )  # fmt: skip


def make_dags(
    pipeline: str,
    root: str | os.PathLike[str],
    schedule: ScheduleArg,
    fileloc: str,
    *,
    name: str | None = None,
    branch: str = "main",
    engine: str | None = "auto",
    run: Run | None = None,
    watch: Watch | bool = False,
    sweep: Sweep | ScheduleArg | bool = True,
    maintain: Maintain | bool = True,
    replay: Replay | bool = True,
    correct: Correct | bool = True,
    freshness: Freshness | None = None,
    launch: Launch | None = None,
    dag_args: Mapping[str, Any] | None = None,
) -> dict[str, DAG]:
    """Do what `tidemill_dags` does, for the DAG file `fileloc`."""
    for what, value, kind in (
        ("run", run, Run),
        ("launch", launch, Launch),
        ("freshness", freshness, Freshness),
        ("watch", watch, Watch | bool),
        ("maintain", maintain, Maintain | bool),
        ("replay", replay, Replay | bool),
        ("correct", correct, Correct | bool),
    ):
        if value is not None and not isinstance(value, kind):
            expected = f"{'True, False or ' if kind not in (Run, Launch, Freshness) else ''}`{what.capitalize()}(…)`"
            raise InvalidInput(f"{what} is a {type(value).__name__}: expected {expected}")
    made = _Pipeline(
        name=name or default_name(pipeline),
        fileloc=fileloc,
        arguments={
            "pipeline": check_pipeline(pipeline),
            "root": root if is_template(root) else check_root_argument(root),
            "branch": branch,
            **as_arguments(launch or Launch()),
        },
        dag_args=_checked(dag_args),
        others={"replay": replay is not False, "correct": correct is not False},
    )
    check_engine(engine)
    dags = [made.cadence(schedule, engine, run or Run(), Watch() if watch is True else watch or None)]
    if sweep is not False:
        dags.append(made.sweep(_as_sweep(sweep), engine))
    if maintain is not False:
        dags.append(made.upkeep(maintain if isinstance(maintain, Maintain) else Maintain()))
    if replay is not False:
        dags.append(made.replay(replay if isinstance(replay, Replay) else Replay()))
    if correct is not False:
        dags.append(made.correct(correct if isinstance(correct, Correct) else Correct()))
    if freshness is not None:
        dags.append(made.freshness(freshness))
    return {dag.dag_id: dag for dag in dags}


@dataclass(frozen=True)
class _Pipeline:
    """What all DAGs of one pipeline share, and a method for each of them."""

    name: str
    fileloc: str
    arguments: Mapping[str, Any]
    dag_args: Mapping[str, Any]
    others: Mapping[str, bool]
    """Whether there are the DAGs `NAME__replay` and `NAME__correct`."""

    def cadence(self, schedule: ScheduleArg, engine: str | None, run: Run, watch: Watch | None) -> DAG:
        form, is_local = Form(), run.run_with is None
        options = {
            **({"engine": form.engine(engine)} if is_local else {}),
            "max_batches": form.whole_number("max_batches", run.max_batches, "End after so many batches."),
            "time_budget": form.seconds("time_budget", run.time_budget, "Start no further batch after so long."),
        }
        what = "processes waiting files, publishes, fires due timeouts"
        watched = None
        if watch is not None:
            from .watching import watched_schedule

            watched = watch.pipeline or self.name
            zone = getattr(self.dag_args.get("start_date"), "tzinfo", None)
            schedule = watched_schedule(self.name, schedule, watch, self.arguments, zone)
        with self._dag("", schedule, form, what) as dag:
            if is_local:
                run_task(self.name, watched, options, self.arguments)
            else:
                remote_tasks(self.name, watched, run, options, self.arguments, os.path.dirname(self.fileloc))
        return dag

    def sweep(self, sweep: Sweep, engine: str | None) -> DAG:
        form = Form()
        options = {"engine": form.engine(engine)}
        with self._dag("__sweep", sweep.schedule, form, "fires due timeouts, without input") as dag:
            TidemillSweepOperator(task_id="sweep", wait=sweep.wait, assets=self.name, **options, **self.arguments)
        return dag

    def upkeep(self, maintain: Maintain) -> DAG:
        form = Form()
        options = {
            "engine": form.engine(maintain.engine, ENGINES),
            "keep": form.text("keep", maintain.keep, "Age of the versions that stay readable, such as `90 days`."),
            "keep_versions": form.whole_number("keep_versions", maintain.keep_versions, "Versions that stay readable."),
            "time_budget": form.seconds("time_budget", maintain.time_budget, "Leave the rest to the next run."),
            "compact_sinks": maintain.compact_sinks,
            "report_only": form.flag("dry_run", "Report what would be deleted, and change nothing."),
        }
        what = "merges state, discards old versions, deletes what no version needs"
        what += ", and verifies the rest" if maintain.verify else ""
        with self._dag("__maintain", maintain.schedule, form, what) as dag:
            upkeep = TidemillMaintainOperator(task_id="maintain", **options, **self.arguments)
            if maintain.verify:
                upkeep >> TidemillVerifyOperator(task_id="verify", **self.arguments)
        return dag

    def replay(self, replay: Replay) -> DAG:
        form = Form()
        fields = replay_fields(form, replay, self.arguments["pipeline"])
        with self._dag("__replay", None, form, "repeats versions on a branch, compares, and promotes", _BY_HAND) as dag:
            replay_tasks(fields, replay, self.arguments)
        return dag

    def correct(self, correct: Correct) -> DAG:
        form = Form()
        fields = correct_fields(form, correct)
        with self._dag("__correct", None, form, "corrects: rewind, skip, replan or reset", _BY_HAND) as dag:
            correct_tasks(fields, correct, self.arguments)
        return dag

    def freshness(self, freshness: Freshness) -> DAG:
        # The failures of this DAG are its alarm, so they must not pause it.
        ours = replace(self, dag_args={**self.dag_args, "max_consecutive_failed_dag_runs": 0})
        with ours._dag("__freshness", freshness.schedule, Form(), "fails if the pipeline is behind") as dag:
            TidemillFreshnessOperator(task_id="freshness", **freshness.seconds(), **self.arguments)
        return dag

    @contextlib.contextmanager
    def _dag(
        self, suffix: str, schedule: ScheduleArg, form: Form, what: str, rules: Mapping[str, Any] = _DAG_ARGS
    ) -> Iterator[DAG]:
        """Yield a DAG for the tasks that are made meanwhile, and then give it its form."""
        dag_id = f"{self.name}{suffix}"
        _refuse_twice(dag_id, self.arguments["pipeline"])
        given = dict(self.dag_args)
        tags = given.pop("tags", ())
        params = dict(given.pop("params", None) or {})
        for param in params.keys() & form.params.keys():
            raise InvalidInput(f"dag_args has a parameter `{param}`, which `{dag_id}` has already")
        default_args = {"owner": "tidemill", **retries_for(schedule), **(given.pop("default_args", None) or {})}
        dag = DAG(
            dag_id=dag_id,
            schedule=schedule,
            default_args=default_args,
            tags=["tidemill", *((tags,) if isinstance(tags, str) else tags)],
            params=params,
            **{
                "description": f"Tidemill pipeline {self.name}: {what}",
                "doc_md": dag_page(self.name, self.arguments, dag_id, what, others=self.others),
                **rules,
                **given,
            },
        )
        # Airflow records the file that calls `DAG`. Paths in `pipeline` are relative to the file that calls us.
        dag.fileloc = self.fileloc
        with dag:
            yield dag
        # `DAG` validates defaults against their schemas, 1 ms each, and every task copies what the DAG has. Ours
        # are checked already, and reach the tasks as templates. So they come last.
        dag.params.update(form.params)


def _as_sweep(sweep: Any) -> Sweep:
    if isinstance(sweep, Sweep):
        return sweep
    return Sweep() if sweep is True else Sweep(schedule=sweep, wait=None)


def _checked(dag_args: Mapping[str, Any] | None) -> Mapping[str, Any]:
    check_mapping("dag_args", dag_args, '{"start_date": …, "tags": […], "on_failure_callback": …}')
    for name, ours in _OWN.items():
        if name in (dag_args or {}):
            raise InvalidInput(f"dag_args has `{name}`: use the argument `{ours}` of tidemill_dags instead")
    check_mapping("default_args of dag_args", (dag_args or {}).get("default_args"), '{"retries": 1}')
    check_mapping("params of dag_args", (dag_args or {}).get("params"), '{"team": "lake"}')
    return dag_args or {}


def _refuse_twice(dag_id: str, pipeline: str) -> None:
    """Raise `InvalidInput` if this parse of the DAG file has made a DAG of that id. Airflow would drop one silently."""
    for known, _ in DagContext.autoregistered_dags:
        if known.dag_id == dag_id:
            other = next((str(task.pipeline) for task in known.tasks if hasattr(task, "pipeline")), "another DAG")
            raise InvalidInput(
                f"two DAGs have the id `{dag_id}`: of `{other}` and of `{pipeline}`",
                hint="give one of them another name: `tidemill_dags(…, name=…)`",
            )
