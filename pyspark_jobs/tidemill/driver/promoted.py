"""After a promotion, `refs/` gets the operators that began on the branch, and loses those that it does not have.

CRASH: it is one entry, which the next run appends if the promotion died before it.
"""

from __future__ import annotations

from ..clock import now_ms
from ..protocol.compatible import renamed_schemas
from ..protocol.entries import Operators
from ..protocol.records import Commit
from ..protocol.refs import MAIN, Refs
from ..protocol.refs_log import position
from .context import Context


def record_promoted(context: Context, head: Commit | None) -> None:
    """Record the operators of a promotion that is the head. Does nothing if that was done."""
    if head is None or head.kind != "promote" or context.branch != MAIN:
        return

    def make(refs: Refs, number: int) -> Operators | None:
        del number
        declared = renamed_schemas(refs.schemas, head.renamed)
        fresh = {name: schema for name, schema in head.schemas.items() if name not in declared}
        firsts = {one.new: one.old for one in head.renamed}
        gone = sorted(firsts.get(name, name) for name in declared if name not in head.schemas)
        if not fresh and not gone:
            return None
        reason = f"promoted in version {head.version}"
        return Operators(**position(refs, now_ms()), schemas=fresh, removed=gone, reason=reason)

    if make(context.initialised(), 0) is not None:
        context.refs_log.append(make)
        context.refresh()
