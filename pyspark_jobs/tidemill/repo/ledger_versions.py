"""Which version the ledger means: after a promotion, its versions after the fork are those of the promoted branch."""

from __future__ import annotations

from ..errors import CorruptState, InvalidInput
from ..protocol.history import effective, is_effective
from ..protocol.records import Commit
from ..protocol.retained import is_whole
from .open import on_branch_of
from .opened import Opened


def line_of(repo: Opened, head: Commit | None, version: int) -> tuple[Opened | None, str]:
    """Return the branch whose version is meant, or None if it was dropped, and the version as users write it."""
    refs = repo.initialised()
    for number in reversed([] if head is None else head.promotions):
        made = commit_if_kept(repo, number) if head is not None and is_effective(head, number) else None
        if made is None or made.promoted is None or version > made.promoted.version:
            continue
        branch = made.promoted.branch
        label = f"{refs.name_of(branch)}@{version}"
        if branch in refs.dropped:
            return None, label
        theirs = on_branch_of(repo, branch)
        if theirs.version_of(version).branch == branch:
            return theirs, label
    return repo, str(version)


def commit_if_kept(repo: Opened, version: int) -> Commit | None:
    """Return the commit of a version, or None if it cannot be read."""
    try:
        return repo.log.commit(version)
    except (CorruptState, InvalidInput):
        return None


def version_before(repo: Opened, head: Commit, version: int) -> str | None:
    """Return the version to which a rewind must go so that a version of the ledger is undone, as users write it.

    None if no rewind can go there, because it is no longer kept.
    """
    line, label = line_of(repo, head, version)
    if line is None:
        return None
    theirs = head if line.branch == repo.branch else line.head()
    before = max((one for one in effective(theirs) if one < version), default=-1)
    at, given_up = line.version_of(before), repo.log.given_up_by(head)
    if not is_whole(repo.initialised(), at) or before < (-1 if given_up is None else given_up):
        return None
    is_theirs = at.branch == line.branch != repo.branch
    return f"{label.partition('@')[0]}@{before}" if is_theirs else str(before)
