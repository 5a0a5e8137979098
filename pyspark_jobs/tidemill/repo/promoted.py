"""After a promotion, `refs/` gets the operators that began on the branch, and loses those that it does not have.

A rewind to before the promotion is followed by the opposite, so that no operator that the promotion brought starts
empty. INVARIANT: an `init` that came after the commit is left alone. CRASH: it is one entry, which the next run appends
if the promotion or the rewind died before it.
"""

from __future__ import annotations

from ..clock import now_ms
from ..protocol.compatible import renamed_schemas
from ..protocol.entries import Operators
from ..protocol.kinds import rules_of
from ..protocol.log import Log
from ..protocol.records import Commit
from ..protocol.refs import MAIN, Refs
from ..protocol.refs_log import position
from .opened import Opened


def record_operators(repo: Opened, head: Commit | None) -> None:
    """Record the operators of the newest promotion or rewind. Does nothing if that was done.

    Corrections may have come after it, but no batch, because a run records the operators first.
    """
    head = _newest(repo.log, head)
    if head is None or repo.branch != MAIN:
        return

    def make(refs: Refs, number: int) -> Operators | None:
        del number
        if refs.operators_through > head.refs_through:
            return None
        declared = renamed_schemas(refs.schemas, head.renamed)
        firsts = {one.new: one.old for one in head.renamed}
        fresh = {name: schema for name, schema in head.schemas.items() if name not in declared}
        gone = {firsts.get(name, name) for name in declared if name not in head.schemas}
        if head.restores is not None:  # a rewind
            gone &= set(refs.following)  # others were declared by `init`, and start with the next batch
        elif not head.schemas:
            gone = set()  # no batch has run on the branch, so it has all of them
        if not fresh and not gone:
            return None
        reason = f"{rules_of(head).brings_operators} {head.version}"
        return Operators(**position(refs, now_ms()), schemas=fresh, removed=sorted(gone), follows=True, reason=reason)

    if make(repo.initialised(), 0) is not None:
        repo.refs_log.append(make)
        repo.refresh()


def _newest(log: Log, head: Commit | None) -> Commit | None:
    """Return the newest promotion or rewind after which only corrections came."""
    while head is not None and not rules_of(head).brings_operators:
        if rules_of(head).carries_out or head.version == 0:
            return None
        head = log.commit(head.version - 1)
    return head
