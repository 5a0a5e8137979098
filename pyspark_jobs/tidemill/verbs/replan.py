"""`replan`: abandon a plan that cannot run, because a file is missing, changed or unreadable.

A void commit takes the number of the plan. It reads no files and changes no state; the next run plans the files that
are there then. CRASH: one conditional create decides whether the void commit or a batch of that plan is committed.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from ..clock import now_ms
from ..driver.context import Context, version_of_tidemill
from ..driver.publish import MAIN, repair
from ..errors import InvalidInput
from ..pipeline.places import check_places
from ..protocol.records import Commit, Counts, OperatorMetrics, Plan
from ..store.probe import probe


def replan(context: Context, reason: str) -> Commit:
    """Abandon the plan above the head by a void commit, and return it. `InvalidInput` without a plan or a reason."""
    if not reason.strip():
        raise InvalidInput("replan: the reason is empty", hint="say why the plan is abandoned; the commit records it")
    check_places(context.pipeline, context.storage_options)
    context.initialised()
    head = context.log.head()
    number = 0 if head is None else head.version + 1
    plan = context.log.plan(number)
    if plan is None:
        raise InvalidInput(f"replan: branch `{context.branch}` has no plan {number}, so there is nothing to abandon")
    probe(context.store)
    repair(context, head)
    void = _void(context, head, plan, reason)
    return context.log.create_commit(void).commit


def _void(context: Context, head: Commit | None, plan: Plan, reason: str) -> Commit:
    init = context.initialised()
    changes: dict[str, Any] = {
        "version": plan.number,
        "kind": "void",
        "attempt": uuid.uuid4().hex[:12],
        "plan_id": plan.plan_id,
        "outputs": {},
        "quarantine": [],
        "counts": Counts(),
        "operators": {},
        "event_time": {},
        "code": {"reference": context.reference, "tidemill": version_of_tidemill(), "reason": reason},
        "published_through": plan.number - 1 if context.branch == MAIN else -1,
        "committed_ms": now_ms(),
        "durations_ms": {},
        "outstanding_files": 0,
        "outstanding_bytes": 0,
        "oldest_waiting_ms": None,
        "airflow": {},
        "engine": {},
    }
    if head is not None:
        totals = {
            name: OperatorMetrics(rows_total=metrics.rows_total, state_bytes=metrics.state_bytes)
            for name, metrics in head.operators.items()
        }
        return dataclasses.replace(head, **changes | {"operators": totals})
    return Commit(
        branch=context.branch,
        pipeline_uuid=init.uuid,
        batch_time_ms=0,
        watermarks={},
        state={},
        ledger=[],
        schemas=context.declared(),
        sinks={},
        next_deadline={},
        **changes,
    )
