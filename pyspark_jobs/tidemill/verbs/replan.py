"""`replan`: abandon a plan that cannot run, because a file is missing, changed or unreadable.

A void commit takes the number of the plan. It reads no files and changes no state; the next run plans the files that
are there then. CRASH: one conditional create decides whether the void commit or a batch of that plan is committed.
"""

from __future__ import annotations

from ..driver.context import Context
from ..driver.correct import correct, required
from ..driver.identity import check_root
from ..errors import InvalidInput
from ..pipeline.places import check_places
from ..protocol.records import Commit, Plan
from ..protocol.successor import Origin


def replan(context: Context, reason: str) -> Commit:
    """Abandon the plan above the head by a void commit, and return it. `InvalidInput` without a plan or a reason."""
    required("replan", reason)
    check_places(context.pipeline, context.root, context.storage_options)
    check_root(context)
    origin = context.origin(context.head())
    _open_plan(context, origin)
    return correct(context, origin, "void", {"reason": reason})


def planned(context: Context) -> Plan:
    """Return the plan that `replan` would abandon. Writes nothing."""
    return _open_plan(context, context.origin(context.head()))


def _open_plan(context: Context, origin: Origin) -> Plan:
    plan = context.log.plan(origin.number, origin.parent)
    if plan is None:
        branch = context.initialised().named(context.branch)
        raise InvalidInput(f"replan: {branch} has no plan for version {origin.number}, so there is nothing to abandon")
    return plan
