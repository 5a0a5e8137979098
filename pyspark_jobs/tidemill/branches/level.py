"""`level_of`: the version with which a branch is compared, because it has read the same input. Read only."""

from __future__ import annotations

from ..protocol.records import Commit
from ..repo.open import on_branch_of
from ..repo.opened import Opened
from ..repo.steps import Steps, last_repeated
from ..repo.versions import label
from ..values import dataclass


@dataclass(frozen=True)
class Level:
    """The version whose input a branch has read, as `diff` takes it, its commit, and the later versions of this one."""

    label: str
    commit: Commit | None
    behind: list[int]


def level_of(repo: Opened, branch: Opened) -> Level:
    """Return the version that a branch has repeated last; the newest one, if it repeats none.

    In the middle of a promotion, that is a version of the promoted branch. If a promotion or a rewind has replaced the
    version since, it is still that version: the branch has read the same input.
    """
    steps = Steps(repo, repo.head())
    head, repeated = steps.head, last_repeated(branch, branch.head())
    newest = -1 if head is None else head.version
    if repeated is None:
        return Level(label(repo, newest), head, [])
    after = steps.after(repeated)
    behind = [version for version, end in steps.ends.items() if after is not None and end > after]
    version = max((one for one, end in steps.ends.items() if after is not None and end == after), default=None)
    if version is None and repeated.branch not in repo.initialised().dropped:
        theirs = on_branch_of(repo, repeated.branch)
        return Level(label(theirs, repeated.version), theirs.log.commit(repeated.version), behind)
    if version is None:
        version = max((one for one, end in steps.ends.items() if after is not None and end < after), default=-1)
    return Level(label(repo, version), None if version < 0 else repo.log.commit(version), behind)
