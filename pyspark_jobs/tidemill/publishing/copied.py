"""What a copy of a repository has from the files that its original published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..protocol.records import Commit
from ..repo.opened import Opened
from ..sinks import asked
from ..sinks.contract import Seen
from .publish import publish_work
from .works import place_of, works


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


def publish_as_ours(repo: Opened, sink: str, others: Sequence[Seen]) -> None:
    """Publish, under our own uuid, the versions among `others` that we have from the repository we are a copy of."""
    newest = repo.log.head()
    for version in sorted({one.version for one in others if newest is not None and one.version <= newest.version}):
        commit = repo.log.commit(version)
        if any(one.version == version and commit.pipeline_uuid.startswith(one.uuid) for one in others):
            for work in works(repo, commit):
                if work.name == sink:
                    publish_work(repo, work)
