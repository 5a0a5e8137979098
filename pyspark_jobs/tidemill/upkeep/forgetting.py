"""What follows a `forget` commit: earlier versions are given up, and tags that keep them go if the caller agreed.

CRASH: every step is an entry of `refs/` and can be repeated. `maintain` completes what a dead process left.
"""

from __future__ import annotations

from ..clock import now_ms
from ..driver.context import Context
from ..errors import InvalidInput
from ..protocol.entries import DropBranch, Entry, Floor, Operators, Tag
from ..protocol.records import Forgotten
from ..protocol.refs import MAIN, Refs
from ..protocol.refs_log import position
from ..protocol.retained import floor


def pins_below(refs: Refs, version: int) -> list[str]:
    """Return the tags and branches that keep versions of `main` below `version`, in words."""
    tags = [f"tag `{name}` (version {one.version})" for name, one in sorted(refs.tags.items())
            if one.branch == MAIN and one.version < version]  # fmt: skip
    forks = [f"branch `{one.name}` (version {one.fork.version})" for one in refs.branches.values()
             if one.fork is not None and one.fork.branch == MAIN and one.fork.version < version]  # fmt: skip
    return tags + forks


def give_up_forgotten(context: Context) -> None:
    """Raise the floor to the last `forget` commit, and remove the initial state and the tags that hold earlier keys.

    Does nothing if that was done. `InvalidInput` if a tag or branch keeps an earlier version that the caller of
    `forget` did not agree to remove.
    """
    head = context.head()
    if head is None or not head.forgotten:
        return
    last = head.forgotten[-1]
    if floor(context.refresh(), MAIN).highest >= last.version and not _seeded(context.initialised(), head.forgotten):
        return

    def make(refs: Refs, number: int) -> Entry | None:
        del number
        return _next_entry(refs, head.forgotten)

    while _next_entry(context.refresh(), head.forgotten) is not None:
        context.refs_log.append(make)


def _next_entry(refs: Refs, forgotten: list[Forgotten]) -> Entry | None:
    """Return the next entry that gives something up, or None if nothing is left to do."""
    last, placed = forgotten[-1], position(refs, now_ms())
    reason = f"forgotten in version {last.version}"
    seeded = _seeded(refs, forgotten)
    if seeded:
        return Operators(**placed, reason=reason, schemas={name: refs.schemas[name] for name in seeded})
    kept = floor(refs, MAIN)
    if kept.highest >= last.version and all(at >= last.version for at in (kept.version, *kept.operators.values())):
        return None
    pins = pins_below(refs, last.version)
    if pins and not last.drop_refs:
        raise InvalidInput(
            f"forget: {', '.join(pins)} keep versions before {last.version}, which hold forgotten keys",
            hint="remove them; `tidemill maintain` then deletes these versions",
        )
    for name, tag in refs.tags.items():
        if tag.branch == MAIN and tag.version < last.version:
            return Tag(**placed, reason=reason, name=name, branch=tag.branch, version=None)
    for branch in refs.branches.values():
        if branch.fork is not None and branch.fork.branch == MAIN and branch.fork.version < last.version:
            return DropBranch(**placed, reason=reason, name=branch.name, id=branch.id)
    operators = {name: last.version for name, at in kept.operators.items() if at < last.version}
    version = max(kept.version, last.version)
    return Floor(**placed, reason=reason, branch=MAIN, version=version, operators=operators)


def _seeded(refs: Refs, forgotten: list[Forgotten]) -> list[str]:
    """Return the operators with forgotten keys that still have an initial state, which may hold the keys."""
    return sorted({one.operator for one in forgotten if one.operator in refs.seeds and one.operator in refs.schemas})
