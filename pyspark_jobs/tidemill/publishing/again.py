"""Publishes versions again, from a given one on: those of this repository, and those of the one it is a copy of."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ..counts import versions_of
from ..protocol.records import Commit, VersionOf
from ..repo.opened import Opened
from ..sinks import asked
from ..sinks.contract import Seen
from .publish import publish_work
from .works import SinkWork, place_of, works

LOG = logging.getLogger("tidemill")


def republish(repo: Opened, since: int, only: str | None) -> list[int]:
    """Make the files of every version from `since` visible again. Return the versions for which that was done.

    Versions that a later commit withdrew are left out, as are sinks that the code does not have any more, and versions
    of which files of the original of this copy are there. A function is called again only if `only` names it.
    """
    commits = list(repo.log.commits(since))
    theirs = shown_by_original(repo, commits)
    for sink, versions in theirs.items():
        LOG.warning("sink `%s`: the rows of %s are not published again, because files of the repository of which this "
                    "is a copy have them", sink, versions_of(versions))  # fmt: skip
    _warn_of_lost(repo, [work for commit in commits for work in works(repo, commit)])
    gone = {(name, one) for commit in commits for name, those in commit.withdraws.items() for one in those}
    done = []
    for commit in commits:
        ours = VersionOf(commit.branch, commit.version)
        todo = [work for work in works(repo, commit) if (work.name, ours) not in gone]
        todo = [work for work in todo if commit.version not in theirs.get(work.name, ())]
        asked = [work for work in todo if _is_asked(repo, work, only)]
        if [work for work in asked if publish_work(repo, work)]:
            done.append(commit.version)
    return done


def shown_by_original(repo: Opened, commits: Iterable[Commit]) -> dict[str, list[int]]:
    """Return by sink the versions among `commits` that files show which the original of this copy published."""
    uuid = repo.initialised().uuid
    before = {one.version: one.pipeline_uuid for one in commits if one.pipeline_uuid != uuid}
    found: dict[str, list[int]] = {}
    for output in repo.job.outputs.values() if before and repo.publishes else ():
        if output.sink is not None and output.sink.path:
            there = (one for one in asked.seen(output.sink, place_of(repo, output.name)) if not one.is_ours)
            versions = {one.version for one in there if before.get(one.version, "").startswith(one.uuid or "-")}
            if versions:
                found[output.name] = sorted(versions)
    return found


def _warn_of_lost(repo: Opened, works: Sequence[SinkWork]) -> None:
    for name in sorted({work.name for work in works if work.files and repo.declared_sink(work.name) is None}):
        LOG.warning("sink `%s` is left out, because this code does not have it; its files stay where they are", name)


def _is_asked(repo: Opened, work: SinkWork, only: str | None) -> bool:
    sink = repo.declared_sink(work.name)
    if sink is None:
        return False
    return work.name == only if asked.is_called(sink) or only is not None else bool(work.files)


def take_over(repo: Opened, sink: str, others: Sequence[Seen]) -> None:
    """Publish, under our own uuid, the versions among `others` that we have from the repository we are a copy of."""
    newest = repo.log.head()
    for version in sorted({one.version for one in others if newest is not None and one.version <= newest.version}):
        commit = repo.log.commit(version)
        if any(one.version == version and commit.pipeline_uuid.startswith(one.uuid) for one in others):
            for work in works(repo, commit):
                if work.name == sink:
                    publish_work(repo, work)
