"""`level_of`: the version with which a branch is compared, because it has read the same input. Read only."""

from __future__ import annotations

from ..protocol.records import Commit, VersionOf
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
    version since, it is the one that counts now and has repeated the same, or that the promotion has repeated; without
    one, it is still that version, because the branch has read the same input.
    """
    steps = Steps(repo, repo.head())
    head, repeated = steps.head, last_repeated(branch, branch.head())
    newest = -1 if head is None else head.version
    if repeated is None:
        return Level(label(repo, newest), head, [])
    if steps.after(repeated) is None:
        repeated = _counting(steps, repeated) or repeated
    after = steps.after(repeated)
    behind = [version for version, end in steps.ends.items() if after is not None and end > after]
    version = max((one for one, end in steps.ends.items() if after is not None and end == after), default=None)
    if version is None and repeated.branch not in repo.initialised().dropped:
        theirs = on_branch_of(repo, repeated.branch)
        return Level(label(theirs, repeated.version), theirs.log.commit(repeated.version), behind)
    if version is None:
        version = max((one for one, end in steps.ends.items() if after is not None and end < after), default=-1)
    return Level(label(repo, version), None if version < 0 else repo.log.commit(version), behind)


def _counting(steps: Steps, replaced: VersionOf) -> VersionOf | None:
    """Return the step that repeats what a version that no longer counts repeats, or is; None: there is none."""
    wanted = _first(steps, replaced)
    own = wanted if steps.after(wanted) is not None else None
    others = (one for one in steps.all if not steps.is_own(one))
    return own or next((one for one in others if _first(steps, one) == wanted), None)


def _first(steps: Steps, step: VersionOf) -> VersionOf:
    """Return the version that a step repeats, and that repeats no other one."""
    while (replays := steps.commit(step).replays) is not None:
        step = replays
    return step
