"""The logs of all branches of a repository, and the names of the objects that their kept versions have."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .. import names
from ..protocol.log import Fork, Log
from ..protocol.records import Commit
from ..protocol.refs import MAIN, Refs
from ..protocol.retained import At, kept_objects, kept_versions, pinned
from ..repo.opened import Context

READERS = 16
"""How many commits are read at once. Reading is waiting, on S3."""


@dataclass(frozen=True)
class Lineage:
    """All branches of a repository, also dropped ones: their logs, and the newest version of its own of each, or -1.

    `refs_through` is the least number of an entry up to which the head of a branch knows all entries.
    """

    refs: Refs
    logs: dict[str, Log]
    heads: dict[str, int]
    refs_through: int


def lineage(context: Context, refs: Refs) -> Lineage:
    """Return the branches of a repository, by id. The logs of dropped ones have only their own versions."""
    logs = {MAIN: context.log if context.branch == MAIN else Log(context.store)}
    for branch in refs.branches.values():
        if branch.fork is not None:
            logs[branch.id] = Log(context.store, branch.id, Fork(logs[branch.fork.branch or MAIN], branch.fork))
    heads = {branch: log.head() for branch, log in logs.items()}
    alive = list(heads.values())
    refs_through = min(0 if head is None else head.refs_through for head in alive)
    newest = {branch: _own(head, branch) for branch, head in heads.items()}
    newest |= {dropped: _newest(context, dropped) for dropped in refs.dropped}
    logs |= {dropped: Log(context.store, dropped) for dropped in refs.dropped}  # a promotion at work may hold some
    return Lineage(refs, logs, newest, refs_through)


def kept_names(found: Lineage) -> set[str]:
    """Return the names of the objects that kept versions of all branches have. Reads the commit of each."""
    refs, heads = found.refs, found.heads
    apart = pinned(refs, heads)
    versions = {
        At(branch.id, version)
        for branch in refs.branches.values()
        for version in kept_versions(refs, branch.id, heads[branch.id])
        if version >= found.logs[branch.id].first
    }
    kept: set[str] = set()
    for at, commit in _commits(found, sorted(versions | apart)):
        kept.update(one.name for one in kept_objects(refs, commit, at in apart))
    return kept


def _commits(found: Lineage, versions: list[At]) -> Iterator[tuple[At, Commit]]:
    """Yield the commits of versions; some are read ahead, in other threads."""
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(versions), READERS * 4):
            part = versions[start : start + READERS * 4]
            yield from zip(part, pool.map(lambda at: found.logs[at.branch].commit(at.version), part), strict=True)


def _newest(context: Context, dropped: str) -> int:
    """Return the newest version of a branch that was dropped, or -1. A stalled process may still commit there."""
    prefix = names.commits(dropped)
    numbers = (names.number_in(prefix, entry.name) for entry in context.store.list(prefix))
    return max((number for number in numbers if number is not None), default=-1)


def _own(head: Commit | None, branch: str) -> int:
    return -1 if head is None or head.branch != branch else head.version
