"""Creates a plan. Where requests wait, what the batch needs before it begins is read meanwhile.

INVARIANT: whether another command came first is asked while the plan is created, or after it. If one comes later, the
create of the commit decides. Reading files of the plan early stores nothing, so nothing of a batch is stored before its
plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..batch.work import Engine
from ..protocol.records import Commit, Plan
from ..repo.opened import Context
from ..sources.asked import read_early
from ..sources.contract import Early, EarlyFiles
from ..store import side_by_side
from .auto import planned_bytes

EARLY_BYTES = 8 * 1024**2
"""The most bytes of files that the driver reads beside the plan. More takes longer than a request."""
SHIPPED_BYTES = 512 * 1024
"""The same on Spark, where the files go to the workers with each task. From 1 MiB on, PySpark makes it a broadcast."""


@dataclass(frozen=True)
class Created:
    """A plan as it is stored, and what was read while it was created.

    `is_checked`: this call created it, `head` was the newest commit meanwhile, and entries of `refs/` were read.
    """

    plan: Plan
    is_checked: bool = False
    head: Commit | None = None
    early: EarlyFiles = field(default_factory=dict)


def create_plan(context: Context, plan: Plan, engine: Engine) -> Created:
    """Create the plan, or return the one that another run created first."""
    if context.store.requests_at_once == 1:
        return Created(context.log.create_plan(plan))
    reads = _early_reads(context, plan, engine)
    calls: list[Callable[[], Any]] = [partial(context.log.create_plan, plan), context.refresh, context.log.head]
    stored, _, newest, *read = side_by_side(context.store, [*calls, *reads.values()])
    early = {name: one for name, one in zip(reads, read, strict=True) if one is not None}
    return Created(stored, stored.plan_id == plan.plan_id, context.ours(newest), early)


def _early_reads(context: Context, plan: Plan, engine: Engine) -> dict[tuple[str, str], Callable[[], Early | None]]:
    """Return the calls that read the files of a plan, by source and path. Empty unless they are few and small."""
    store, options = context.store, dict(context.storage_options.get("source") or {})
    most = EARLY_BYTES if engine.name == "local" else SHIPPED_BYTES
    if len(plan.splits) > store.requests_at_once or planned_bytes(plan) > most:
        return {}
    sources = context.job.sources
    return {(one.source, one.path): partial(read_early, sources[one.source], one, options) for one in plan.splits}
