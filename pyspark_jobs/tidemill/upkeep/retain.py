"""Retention: appends the floor below which versions are no longer kept. `protocol.retention` decides which.

CRASH: the floor is one entry of `refs/`. Nothing is deleted here; garbage collection deletes the objects of the
versions below it.
"""

from __future__ import annotations

from ..clock import now_ms
from ..protocol.entries import Floor
from ..protocol.refs import Kept, Refs
from ..protocol.refs_log import position
from ..protocol.retained import floor
from ..protocol.retention import Retention, RetentionInput, floors
from ..publishing.publish import published_through
from ..repo.opened import Opened


def wanted(repo: Opened, retention: Retention) -> Kept:
    """Return the floors after retention. Writes nothing."""
    before = floor(repo.initialised(), repo.branch)
    head = repo.head()
    if head is None or not retention.rules:
        return before
    observed = RetentionInput(head.version, published_through(repo, head), now_ms())
    return floors(retention, before, observed, lambda version: repo.log.commit(version).committed_ms)


def raise_floor(repo: Opened, after: Kept, reason: str) -> Kept:
    """Append the floors, unless they are there already or are higher. Return those in force."""

    def make(refs: Refs, number: int) -> Floor | None:
        del number
        before = floor(refs, repo.branch)
        version = max(before.version, after.version)
        operators = {name: max(at, before.of(name)) for name, at in after.operators.items()}
        changed = {name: at for name, at in operators.items() if name not in before.operators or at > before.of(name)}
        if max(version, 0) <= max(before.version, 0) and not changed:
            return None
        return Floor(
            **position(refs, now_ms()),
            branch=repo.branch,
            version=version,
            operators=changed,
            reason=reason,
        )

    repo.refs_log.append(make)
    return floor(repo.refresh(), repo.branch)
