"""`replan`: gives up a plan that cannot run (a file vanished, was changed, cannot be read) by a void commit.

A void commit takes the plan's number, consumes nothing and changes nothing; the files that are there then are planned
anew. CRASH: one conditional create decides, between it and a batch of that plan too.
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
    """The void commit that gives up the plan above the head; `InvalidInput` where there is none, or no reason."""
    if not reason.strip():
        raise InvalidInput("replan: say why the plan is given up; the commit records it")
    check_places(context.pipeline, context.storage_options)
    context.initialised()
    head = context.log.head()
    number = 0 if head is None else head.version + 1
    plan = context.log.plan(number)
    if plan is None:
        raise InvalidInput(f"replan: no plan waits; the next number of branch `{context.branch}` is {number}")
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
