"""The logs of all branches of a repository, and the names of the objects that their kept versions have."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..driver.context import Context
from ..protocol.log import Fork, Log
from ..protocol.records import Commit
from ..protocol.refs import MAIN, Refs
from ..protocol.retained import At, kept_objects, kept_versions, pinned

READERS = 16
"""How many commits are read at once. Reading is waiting, on S3."""


@dataclass(frozen=True)
class Lineage:
    """All branches of a repository: their logs, and the newest version that each has of its own, or -1."""

    refs: Refs
    logs: dict[str, Log]
    heads: dict[str, int]


def lineage(context: Context, refs: Refs) -> Lineage:
    """Return the branches of a repository, by id. Dropped ones have only their heads."""
    logs = {MAIN: context.log if context.branch == MAIN else Log(context.store)}
    logs |= {dropped: Log(context.store, dropped) for dropped in refs.dropped}
    for branch in refs.branches.values():
        if branch.fork is not None:
            logs[branch.id] = Log(context.store, branch.id, Fork(logs[branch.fork.branch or MAIN], branch.fork))
    return Lineage(refs, logs, {branch: _newest(log) for branch, log in logs.items()})


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


def _newest(log: Log) -> int:
    head = log.head()
    return -1 if head is None or head.branch != log.branch else head.version
