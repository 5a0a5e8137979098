"""Garbage collection: deletes objects that no kept version names. `protocol.garbage` decides which.

INVARIANT: an entry of `refs/` gives up objects before they are deleted, never after. CRASH: any part of the garbage
may be deleted; the next call deletes the rest. Two collectors at once delete the same objects.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import names
from ..clock import now_ms
from ..protocol.entries import DropBases
from ..protocol.garbage import COLLECTED, Garbage, Stored, dead_bases, garbage
from ..protocol.history import last_rewrite
from ..protocol.log import Fork, Log
from ..protocol.named import named
from ..protocol.records import Commit, VersionOf
from ..protocol.refs import MAIN, Refs
from ..protocol.refs_log import position
from ..protocol.retained import kept_objects, kept_versions, pinned
from ..repo.opened import Opened
from ..store import Store
from ..values import dataclass

_READERS = 16
"""How many commits are read at once. Reading is waiting, on S3."""


@dataclass(frozen=True)
class Lineage:
    """All branches of a repository, also dropped ones: their logs, and the newest version of its own of each, or -1.

    `refs_through` is the least number of an entry up to which the head of a branch knows all entries. Versions are read
    as a `forget` has left them. `is_pending`: no entry says so yet, so the objects that it has replaced stay.
    """

    refs: Refs
    logs: dict[str, Log]
    heads: dict[str, int]
    refs_through: int
    is_pending: bool


def lineage(repo: Opened, refs: Refs) -> Lineage:
    """Return the branches of a repository, by id. The logs of dropped ones have only their own versions."""
    logs = {MAIN: repo.log if repo.branch == MAIN else Log(repo.store)}
    for branch in refs.branches.values():
        if branch.fork is not None:
            logs[branch.id] = Log(repo.store, branch.id, Fork(logs[branch.fork.branch or MAIN], branch.fork))
    heads = {branch: log.head() for branch, log in logs.items()}
    alive = list(heads.values())
    refs_through = min(0 if head is None else head.refs_through for head in alive)
    newest = {branch: _own(head, branch) for branch, head in heads.items()}
    newest |= {dropped: _newest(repo.store, dropped) for dropped in refs.dropped}
    logs |= {dropped: Log(repo.store, dropped) for dropped in refs.dropped}  # a promotion at work may hold some
    rewrote_at = last_rewrite(heads[MAIN])
    for log in logs.values():
        log.rewrites.know(refs.rewrote_at)
        log.rewrites.know(rewrote_at)
    return Lineage(refs, logs, newest, refs_through, is_pending=rewrote_at != refs.rewrote_at)


def kept_names(found: Lineage) -> set[str]:
    """Return the names of the objects that kept versions of all branches have. Reads the commit of each."""
    refs, heads = found.refs, found.heads
    apart = pinned(refs, heads)
    versions = {
        VersionOf(branch.id, version)
        for branch in refs.branches.values()
        for version in kept_versions(refs, branch.id, heads[branch.id])
        if version >= found.logs[branch.id].first
    }
    kept: set[str] = set()
    for at, commit in _commits(found, sorted(versions | apart)):
        kept.update(one.name for one in kept_objects(refs, commit, at in apart))
    if found.is_pending:
        kept.update(found.logs[MAIN].rewrites.replacements.objects)
    return kept


def _commits(found: Lineage, versions: list[VersionOf]) -> Iterator[tuple[VersionOf, Commit]]:
    """Yield the commits of versions; some are read ahead, in other threads."""
    with ThreadPoolExecutor(_READERS) as pool:
        for start in range(0, len(versions), _READERS * 4):
            part = versions[start : start + _READERS * 4]
            yield from zip(part, pool.map(lambda at: found.logs[at.branch].commit(at.version), part), strict=True)


def _newest(store: Store, dropped: str) -> int:
    """Return the newest version of a branch that was dropped, or -1. A stalled process may still commit there."""
    prefix = names.commits(dropped)
    numbers = (names.number_in(prefix, entry.name) for entry in store.list(prefix))
    return max((number for number in numbers if number is not None), default=-1)


def _own(head: Commit | None, branch: str) -> int:
    return -1 if head is None or head.branch != branch else head.version


PART = 1000
"""How many objects are deleted at once: as many as S3 deletes in a request."""
OnDeleted = Callable[[int, int], None]
"""Called with the number of deleted objects, and of all."""
OnUpkeep = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Collected:
    """What garbage collection found, oldest first, and how many of these objects it deleted."""

    found: list[Garbage]
    deleted: int


def look_for_garbage(repo: Opened, refs: Refs) -> tuple[list[Garbage], list[int]]:
    """Return the garbage, and the entries of merged segments that no kept version can use. Writes nothing."""
    known = lineage(repo, refs)
    kept = kept_names(known)
    dead = dead_bases(refs.bases, kept)
    kept |= {one.name for one in named(_without(refs, dead))}
    return garbage(refs, known.heads, kept, _listing(repo.store), known.refs_through), dead


def collect_garbage(repo: Opened, deadline: float | None = None, on_deleted: OnDeleted | None = None) -> Collected:
    """Delete garbage, oldest first, until `deadline` by the monotonic clock."""
    found, dead = look_for_garbage(repo, repo.refresh())
    if dead:
        drop_bases(repo, dead)
    names, deleted = [one.name for one in found], 0
    while deleted < len(names) and (deadline is None or time.monotonic() < deadline):
        part = names[deleted : deleted + PART]
        repo.store.delete_many(part)
        deleted += len(part)
        if on_deleted is not None:
            on_deleted(deleted, len(names))
    return Collected(found, deleted)


def delete_garbage(repo: Opened) -> int:
    """Delete what is garbage already, without writing anything, as on a full disk. Return how many objects there were.

    Merged segments that no kept version can use stay, because only an entry of `refs/` gives them up.
    """
    refs = repo.refresh()
    known = lineage(repo, refs)
    kept = kept_names(known) | {one.name for one in named(refs)}
    found = garbage(refs, known.heads, kept, _listing(repo.store), known.refs_through)
    repo.store.delete_many([one.name for one in found])
    return len(found)


def drop_bases(repo: Opened, dead: Sequence[int]) -> None:
    """Append the entry that gives up merged segments that no kept version can use."""

    def make(refs: Refs, number: int) -> DropBases | None:
        del number
        left = [base.number for base in refs.bases if base.number in dead]
        return DropBases(**position(refs, now_ms()), numbers=left) if left else None

    repo.refs_log.append(make)
    repo.refresh()


def _without(refs: Refs, dead: Sequence[int]) -> Refs:
    return dataclasses.replace(refs, bases=[base for base in refs.bases if base.number not in dead])


def _listing(store: Store) -> Iterator[Stored]:
    for prefix in COLLECTED:
        for entry in store.list(prefix):
            yield Stored(entry.name, entry.size)
