"""What a copy of a repository has from the files that its original published."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from ..protocol.records import Commit, VersionOf
from ..repo.opened import Opened
from ..sinks import asked
from ..sinks.contract import Seen
from ..sinks.public import public_name
from ..sinks.same_files import same_files
from .publish import publish_work
from .taken_over import seen_by_record
from .works import SinkWork, place_of, read_record, works


def shown_by_original(repo: Opened, commits: Iterable[Commit]) -> dict[str, dict[int, list[Seen]]]:
    """Return by sink and version, of the versions among `commits`, what the original of this copy shows of them."""
    uuid, head = repo.initialised().uuid, repo.log.head()
    before = {one.version: one.pipeline_uuid for one in commits if one.pipeline_uuid != uuid}
    found: dict[str, dict[int, list[Seen]]] = {}
    for output in repo.job.outputs.values() if before and repo.publishes else ():
        if output.sink is not None and output.sink.path:
            there = asked.seen(output.sink, place_of(repo, output.name))
            for one in seen_by_record(repo, head, output.name, there):
                if not one.is_ours and before.get(one.version, "").startswith(one.uuid or "-"):
                    found.setdefault(output.name, {}).setdefault(one.version, []).append(one)
    return found


def not_shown_by_original(repo: Opened, work: SinkWork, theirs: Iterable[Seen]) -> SinkWork:
    """Return work without the files that are among `theirs`, which the original of this copy shows of the version.

    In a place that is no folder, a version is there as a whole, so nothing is left.
    """
    sink = repo.declared_sink(work.name)
    if sink is None or asked.sink_folder(sink) is None:
        return dataclasses.replace(work, files=[])
    commit, there = work.commit, {one.name for one in theirs}
    owner = dataclasses.replace(place_of(repo, work.name).owner, uuid=commit.pipeline_uuid)
    record = read_record(repo, VersionOf(commit.branch, commit.version), work.name)
    shown: Collection[int]
    if record is None:  # the original has published the version after it was copied
        shown = {at for at, file in work.files if public_name(owner, commit.version, at, file) in there}
    else:
        shown = same_files(work.files, (one for one in record.files if one.name in there), owner)
    return dataclasses.replace(work, files=[(at, file) for at, file in work.files if at not in shown])


def publish_as_ours(repo: Opened, sink: str, others: Sequence[Seen]) -> None:
    """Publish, under our own uuid, the versions among `others` that we have from the repository we are a copy of."""
    newest = repo.log.head()
    for version in sorted({one.version for one in others if newest is not None and one.version <= newest.version}):
        commit = repo.log.commit(version)
        if any(one.version == version and commit.pipeline_uuid.startswith(one.uuid) for one in others):
            for work in works(repo, commit):
                if work.name == sink:
                    publish_work(repo, work)
