"""`level_of`: the version with which a branch is compared, because it has read the same input. Read only."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.records import Commit
from ..repo.at import label
from ..repo.open import on_branch_of
from ..repo.opened import Context
from ..repo.steps import Steps, last_repeated


@dataclass(frozen=True)
class Level:
    """The version whose input a branch has read, as `diff` takes it, its commit, and the later versions of this one."""

    label: str
    commit: Commit | None
    behind: list[int]


def level_of(context: Context, branch: Context) -> Level:
    """Return the version that a branch has repeated last; the newest one, if it repeats none.

    In the middle of a promotion, that is a version of the promoted branch. If a promotion or a rewind has replaced the
    version since, it is still that version: the branch has read the same input.
    """
    steps = Steps(context, context.head())
    head, repeated = steps.head, last_repeated(branch, branch.head())
    newest = -1 if head is None else head.version
    if repeated is None:
        return Level(label(context, newest), head, [])
    after = steps.after(repeated)
    behind = [version for version, end in steps.ends.items() if after is not None and end > after]
    version = max((one for one, end in steps.ends.items() if after is not None and end == after), default=None)
    if version is None and repeated.branch not in context.initialised().dropped:
        theirs = on_branch_of(context, repeated.branch)
        return Level(label(theirs, repeated.version), theirs.log.commit(repeated.version), behind)
    if version is None:
        version = max((one for one, end in steps.ends.items() if after is not None and end < after), default=-1)
    return Level(label(context, version), None if version < 0 else context.log.commit(version), behind)
