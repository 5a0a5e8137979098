"""What stays of published files if some of the versions that they show are undone: their other rows, stored again.

Files that a compaction or an earlier correction published show rows of several versions. INVARIANT: rows come from the
published files themselves, because the output files of these versions may be gone, or hold what was forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import field

from .. import names
from ..errors import CorruptState
from ..protocol.records import AddedOutput, OutputFile, Published, VersionOf, digest
from ..repo.opened import Opened
from ..sinks.asked import sink_folder
from ..sinks.joined import only_versions
from ..sinks.public import parsed
from ..values import dataclass
from .works import place_of, read_record

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Rest:
    """The versions whose rows stay of a published record of a sink."""

    sink: str
    record: int
    versions: Collection[int]


@dataclass
class Writing:
    """For which version the rows are stored. `stored` has the names of all objects, as they are stored."""

    number: int
    attempt: str
    stored: list[str] = field(default_factory=list)


def store_rest(repo: Opened, rest: Rest, batch_ids: Collection[int], to: Writing) -> AddedOutput | None:
    """Store the rows of a record with some batch ids, and return them.

    None if nothing stays, or the files are at an earlier place.
    """
    output = repo.job.outputs[rest.sink]
    record = read_record(repo, VersionOf(repo.branch, rest.record), rest.sink)
    if record is None or output.sink is None or record.uri != output.sink.uri:
        return None  # files at an earlier place stay there
    files = list(_stored(repo, record, rest.sink, batch_ids, to))
    return AddedOutput(repo.branch, rest.record, files) if files else None


def _stored(
    repo: Opened, record: Published, sink: str, batch_ids: Collection[int], to: Writing
) -> Iterator[OutputFile]:
    folder, place = sink_folder(repo.job.outputs[sink].sink), place_of(repo, sink)
    assert folder is not None
    for file in record.files:
        public = parsed(file.name)
        if public is not None and not public.is_ours(place.owner):
            continue  # a copy leaves the files of the original where they are
        uri = f"{record.uri}/{file.name}"
        data = folder.fetch(place, file.name)
        if data is None:
            LOG.warning("sink `%s`: `%s` is not there any more, so its rows are not published again", sink, uri)
            continue
        if (found := digest(data)) != file.checksum:
            raise CorruptState(
                f"rewind: read `{uri}`: found checksum {found}, but {file.checksum} was published",
                hint="restore the file, or move it away; then its rows are not published again",
            )
        suffix, extension = file.name.removesuffix(file.name.rpartition("/")[2]), f".{file.name.rpartition('.')[2]}"
        left, rows = only_versions(extension, data, batch_ids)
        if rows:
            part = len(to.stored)
            stem = names.again_stem(to.number, to.attempt, 0, "rewind")
            name = names.output(sink, repo.branch, stem, 0, part, extension)
            to.stored.append(name)
            etag = repo.store.put(name, left) or ""
            yield OutputFile(name, digest(left), len(left), rows, 0, 0, part, suffix, extension, etag)
