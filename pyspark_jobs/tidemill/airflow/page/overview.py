"""The pipelines that Airflow knows, each with what its newest run has left: from Airflow's database alone.

INVARIANT: no store is asked, so a pipeline costs a few queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select

from ...values import dataclass

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TAG = "tidemill"
SUFFIXES = ("__sweep", "__maintain", "__replay", "__correct", "__freshness")
ASKING = ("__replay", "__correct")
"""The DAGs whose runs may wait for an answer."""
NEWEST_RUNS = 20
"""How many runs of a DAG the page shows."""
AWAITING = "awaiting_input"
_RESULT = "return_value"
_STANDING = (
    "head", "committed", "batch_time", "watermarks", "next_deadline", "files_waiting", "bytes_waiting",
    "oldest_waiting_seconds", "state_rows", "state_bytes",
)  # fmt: skip
"""What a result says of the head, and not of the run."""


@dataclass(frozen=True)
class PipelineOverview:
    """A pipeline by its DAG. `summary` is the XCom of the newest run that ended well; empty before the first. What it
    says of the head is that of the newest sweep, if that came later.

    `states` are those of the newest runs, newest first. `approvals` are replays and corrections that
    wait for an answer.
    """

    dag_id: str
    pipeline: str
    root: str
    branch: str
    is_paused: bool
    repository: str | None
    summary: Mapping[str, Any]
    states: list[str]
    approvals: list[dict[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return dataclasses.asdict(self)


def pipelines(
    session: Session, readable: Collection[str], may_read: Callable[[str], bool]
) -> Iterator[PipelineOverview]:
    """Yield the pipelines of the DAGs that a user may read, by name. Of a pipeline, the DAG with the cadence counts.

    `may_read` says whether the user may also read what the tasks of a DAG returned; otherwise there is no summary.
    """
    tagged = set(session.scalars(select(DagTag.dag_id).where(DagTag.name == TAG)))
    for dag_id in sorted(dag_id for dag_id in readable if dag_id in tagged and dag_id == main_dag(dag_id)):
        stored, dag = SerializedDagModel.get(dag_id, session=session), session.get(DagModel, dag_id)
        task = None if stored is None or dag is None or dag.is_stale else _run_of(stored.data or {})
        if task is None or dag is None:
            continue
        sweep = f"{dag_id}__sweep"
        tasks = [(dag_id, "run"), *([(sweep, "sweep")] if sweep in readable and may_read(sweep) else [])]
        summary = _summary(session, tasks) if may_read(dag_id) else {}
        asking = [name for suffix in ASKING if (name := f"{dag_id}{suffix}") in readable]
        yield PipelineOverview(
            dag_id=dag_id,
            pipeline=str(task.get("pipeline")),
            root=str(task.get("root")),
            branch=str(summary.get("branch") or task.get("branch") or "main"),
            is_paused=bool(dag.is_paused),
            repository=summary.get("repository"),
            summary=summary,
            states=_states(session, dag_id),
            approvals=_approvals(session, asking),
        )


def main_dag(dag_id: str) -> str:
    """Return the DAG with the cadence of the pipeline to which a DAG belongs."""
    for suffix in SUFFIXES:
        if dag_id.endswith(suffix):
            return dag_id.removesuffix(suffix)
    return dag_id


def _run_of(stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the arguments of the task that runs the pipeline, in a serialised DAG."""
    for task in stored.get("dag", {}).get("tasks", ()):
        found = task.get("__var", task)
        if found.get("task_id") == "run" and "pipeline" in found:
            return dict(found)
    return None


def _summary(session: Session, tasks: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    """Return what the newest run that ended well left, with the head as the newest run or sweep saw it.

    `tasks` are DAGs and tasks, the run first.
    """
    found = [one for one in (_newest(session, dag_id, task_id) for dag_id, task_id in tasks) if one is not None]
    if not found or found[0][2] != "run":
        return {}
    run, last = found[0][1], max(found, key=lambda one: one[0])[1]
    return {**run, **{name: last[name] for name in _STANDING if last.get(name) is not None}}


def _newest(session: Session, dag_id: str, task_id: str) -> tuple[Any, dict[str, Any], str] | None:
    """Return the time and the content of the newest XCom of a task, and the task."""
    newest = (
        select(XComModel)
        .where(XComModel.dag_id == dag_id, XComModel.task_id == task_id, XComModel.key == _RESULT)
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    )
    row = session.scalars(newest).first()
    content = None if row is None else XComModel.deserialize_value(row)
    return (row.timestamp, content, task_id) if row is not None and isinstance(content, dict) else None


def _states(session: Session, dag_id: str) -> list[str]:
    newest = select(DagRun.state).where(DagRun.dag_id == dag_id).order_by(DagRun.run_after.desc()).limit(NEWEST_RUNS)
    return [str(state) for state in session.scalars(newest)]


def _approvals(session: Session, dag_ids: Sequence[str]) -> list[dict[str, str]]:
    waiting = select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id).where(
        TaskInstance.dag_id.in_(dag_ids), TaskInstance.state == AWAITING
    )
    return [{"dag_id": dag, "run_id": run, "task_id": task} for dag, run, task in session.execute(waiting)]
