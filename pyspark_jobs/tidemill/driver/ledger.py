"""The ledger after a batch: the files of its plan are recorded as read, in a segment of the ledger's own map.

CRASH: the segment counts once the commit names it, so a file is recorded as read exactly if its batch is committed.
"""

from __future__ import annotations

from .. import names
from ..batch.batch import Batch
from ..protocol.records import Commit, Segment
from ..sources.ledger import record
from ..state.versions import persist
from .context import Context


def store_ledger(context: Context, head: Commit | None, batch: Batch) -> tuple[list[Segment], int]:
    """Store the ledger with the files of the batch; return its live segments and rows. A sweep leaves it as it was."""
    before = context.ledger(head)
    known = rows_before(context, head)
    if not batch.plan.splits:
        return before.segments, known
    after = before.map.copy()
    record(after, batch.plan)
    stem = names.stem(batch.plan.number, batch.attempt, 0, "driver")
    name = names.segment(names.LEDGER, "files", context.branch, stem)
    segments = persist(context.store, context.cache, before, after, batch.plan.number, name)
    return segments, known + after.live_change()


def rows_before(context: Context, head: Commit | None) -> int:
    """Return how many files the ledger of a version has."""
    if head is None or names.LEDGER not in head.rows:
        return sum(segment.rows for segment in context.initialised().ledger)
    return head.rows[names.LEDGER]["files"]
