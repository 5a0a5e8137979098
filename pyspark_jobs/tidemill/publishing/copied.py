"""What a copy of a repository has from the files that its original published."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from ..protocol.records import Commit, VersionOf
from ..repo.opened import Opened
from ..sinks import asked
from ..sinks.contract import Seen
from ..sinks.public import public_name
from .publish import publish_work
from .taken_over import seen_by_record
from .works import SinkWork, place_of, read_record, works


def shown_by_original(repo: Opened, commits: Iterable[Commit]) -> dict[str, list[int]]:
    """Return by sink the versions among `commits` that files show which the original of this copy published."""
    uuid, head = repo.initialised().uuid, repo.log.head()
    before = {one.version: one.pipeline_uuid for one in commits if one.pipeline_uuid != uuid}
    found: dict[str, list[int]] = {}
    for output in repo.job.outputs.values() if before and repo.publishes else ():
        if output.sink is not None and output.sink.path:
            found_there = asked.seen(output.sink, place_of(repo, output.name))
            there = (one for one in seen_by_record(repo, head, output.name, found_there) if not one.is_ours)
            versions = {one.version for one in there if before.get(one.version, "").startswith(one.uuid or "-")}
            if versions:
                found[output.name] = sorted(versions)
    return found


def not_shown_by_original(repo: Opened, work: SinkWork) -> SinkWork:
    """Return work without the files that the original of this copy shows.

    In a place that is no folder, a version is there as a whole, so nothing is left.
    """
    sink = repo.declared_sink(work.name)
    folder = None if sink is None else asked.sink_folder(sink)
    if folder is None:
        return dataclasses.replace(work, files=[])
    commit, place = work.commit, place_of(repo, work.name)
    there = {one.name for one in folder.seen(place) if not one.is_ours}
    record = read_record(repo, VersionOf(commit.branch, commit.version), work.name)
    shown = Counter(one.checksum for one in ([] if record is None else record.files) if one.name in there)
    owner = dataclasses.replace(place.owner, uuid=commit.pipeline_uuid)
    files = [(at, file) for at, file in work.files if public_name(owner, commit.version, at, file) not in there]
    shown -= Counter(file.checksum for at, file in work.files if (at, file) not in files)
    left = []
    for at, file in files:
        if shown[file.checksum]:  # under the name of an earlier version, which a promotion has taken over
            shown[file.checksum] -= 1
        else:
            left.append((at, file))
    return dataclasses.replace(work, files=left)


def publish_as_ours(repo: Opened, sink: str, others: Sequence[Seen]) -> None:
    """Publish, under our own uuid, the versions among `others` that we have from the repository we are a copy of."""
    newest = repo.log.head()
    for version in sorted({one.version for one in others if newest is not None and one.version <= newest.version}):
        commit = repo.log.commit(version)
        if any(one.version == version and commit.pipeline_uuid.startswith(one.uuid) for one in others):
            for work in works(repo, commit):
                if work.name == sink:
                    publish_work(repo, work)
