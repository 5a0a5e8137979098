"""The places that published records name, and the files of this repository there.

They are also those of sinks that left the code, that were renamed or that moved, and of branches that published.
INVARIANT: what is in a place is found by listing it, because another version may have joined or replaced the files that
a record names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import pyarrow as pa

from .. import names
from ..protocol.codec import decode
from ..protocol.history import is_shown
from ..protocol.records import Commit, Published
from ..publishing.works import place_of
from ..repo.opened import Opened
from ..schema import to_arrow
from ..sinks import recorded_folder
from ..sinks.asked import is_called, sink_folder
from ..sinks.contract import Sink
from ..sinks.folder import Folder
from ..sinks.forms import unstaged, with_added
from ..sinks.public import PublicName, parsed
from ..store import is_lost_folder
from ..values import dataclass


@dataclass
class PublishedPlace:
    """A place of a sink. `folder` is None if it has no plain files, `uri` is empty for a function.

    `is_declared`: the code has the sink at this place. `records` are all that name the place, of all branches.
    """

    sink: str
    kind: str
    uri: str
    folder: Folder | None
    is_declared: bool
    records: list[Published] = field(default_factory=list)

    @property
    def is_function(self) -> bool:
        """Whether a function was called, so that nothing is known of its rows."""
        return not self.uri and self.folder is None


@dataclass(frozen=True)
class FileThere:
    """A published file. `is_ours`: this repository published it, not the one of which it is a copy."""

    name: str
    is_ours: bool


class PublishedPlaces:
    """The places of all sinks that the records of a repository name, and of those that the code has."""

    def __init__(self, repo: Opened, head: Commit) -> None:
        self.repo, self.head = repo, head
        self.found: dict[tuple[str, str], PublishedPlace] = {}
        self._columns: dict[tuple[str, str, int], pa.Schema | None] = {}
        for record in _records(repo):
            self._at(record.sink, record.kind, record.uri).records.append(record)
        for name, output in repo.job.outputs.items():
            if output.sink is not None and not is_called(output.sink):
                self._at(name, output.sink.kind, output.sink.uri)

    def _at(self, sink: str, kind: str, uri: str) -> PublishedPlace:
        if (sink, uri) not in self.found:
            declared: Sink | None = self.repo.declared_sink(sink)
            is_declared = declared is not None and declared.uri == uri
            folder = sink_folder(declared) if is_declared else recorded_folder(kind, uri)
            self.found[sink, uri] = PublishedPlace(sink, kind, uri, folder, is_declared)
        return self.found[sink, uri]

    def of(self, sink: str) -> list[PublishedPlace]:
        """Return the places of a sink."""
        return [place for (name, _), place in sorted(self.found.items()) if name == sink]

    @property
    def sinks(self) -> list[str]:
        """The names of all sinks."""
        return sorted({sink for sink, _ in self.found})

    def files(self, place: PublishedPlace) -> Iterator[FileThere]:
        """Yield the files in a folder that this repository published, or of which one of its records says so."""
        assert place.folder is not None
        recorded = {file.name for record in place.records for file in record.files}
        for one in place.folder.seen(place_of(self.repo, place.sink)):
            if one.is_ours or one.name in recorded:
                yield FileThere(one.name, one.is_ours)

    def expected(self, place: PublishedPlace) -> set[str]:
        """Return the names of the files that should be in a place, unless a reader moved them."""
        ours = [one for one in place.records if one.branch != self.head.branch or self._is_shown(one)]
        gone = {name for other in self.of(place.sink) for one in other.records for name in one.withdrawn}
        return {file.name for one in ours for file in one.files} - gone

    def _is_shown(self, record: Published) -> bool:
        return is_shown(self.head, record.version, record.sink)

    def is_lost(self, place: PublishedPlace) -> bool:
        """Whether a folder does not exist."""
        return place.folder is not None and is_lost_folder(place.folder.path)

    def content(self, place: PublishedPlace, file: FileThere) -> bytes | None:
        """Return the content of a file, or None if it is not there any more."""
        assert place.folder is not None
        return place.folder.fetch(place_of(self.repo, place.sink), file.name)

    def rows(self, place: PublishedPlace, name: str, data: bytes) -> pa.Table:
        """Return the rows of a file, with its partition columns, as the commit of its version describes the sink."""
        suffix, extension = name.removesuffix(name.rpartition("/")[2]), f".{name.rpartition('.')[2]}"
        public = parsed(name)
        columns = self._columns_of(place, public)
        return unstaged([(data, suffix)], with_added(columns), extension, f"{place.uri}/{name}")

    def _columns_of(self, place: PublishedPlace, public: PublicName | None) -> pa.Schema:
        version = -1 if public is None else public.version
        here = [one.branch for one in place.records if one.version == version]
        found = self._described(place.sink, here[0] if here else self.head.branch, version)
        return found if found is not None else self.columns(place.sink)

    def columns(self, sink: str) -> pa.Schema:
        """Return the newest columns of a sink that are known; none if no commit describes it."""
        declared = self.repo.job.outputs.get(sink)
        if declared is not None and declared.sink is not None:
            return declared.schema
        records = sorted((one for place in self.of(sink) for one in place.records), key=lambda one: -one.version)
        versions = [(one.branch, at) for one in records for at in (one.version, one.version - 1)]
        known = (self._described(sink, *at) for at in versions)
        return next((one for one in known if one is not None), pa.schema([]))

    def schemas(self, sink: str) -> list[pa.Schema]:
        """Return all columns that a sink had in published versions, the newest first."""
        records = [one for place in self.of(sink) for one in place.records]
        known = [
            self._described(sink, one.branch, one.version) for one in sorted(records, key=lambda one: -one.version)
        ]
        found = [self.columns(sink), *(one for one in known if one is not None)]
        return [one for at, one in enumerate(found) if one not in found[:at]]

    def _described(self, sink: str, branch: str, version: int) -> pa.Schema | None:
        """Return the columns of a sink in a version. None: its commit is not known, or does not describe the sink."""
        at = (sink, branch, version)
        if at not in self._columns:
            self._columns[at] = None
            name = names.commit(branch, version)
            if version >= 0 and self.repo.store.stat(name) is not None:
                described = decode(Commit, self.repo.store.get(name), name).sinks.get(sink)
                self._columns[at] = to_arrow(described["schema"]) if described and described["schema"] else None
        return self._columns[at]


def _records(repo: Opened) -> Iterator[Published]:
    """Yield all published records, of all branches and sinks."""
    for entry in repo.store.list(names.PUBLISHED):
        folder = entry.name[: entry.name.rindex("/") + 1]
        if names.number_in(folder, entry.name) is not None:
            yield decode(Published, repo.store.get(entry.name), entry.name)
