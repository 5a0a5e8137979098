"""Compacts the places of sinks: joins small published files into larger ones, by a commit for each group of versions.

The commit withdraws the records of these versions, and adds files with the same rows. INVARIANT: only files that a
record names, and that are as they were published, are joined; rows keep their values, columns and order, and files of
two partition folders are never joined. CRASH: before the commit nothing changed, and what was stored is garbage. After
it, the next run or call publishes it, as any commit.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from .. import names
from ..errors import CorruptState, Fenced, InvalidInput
from ..pipeline.job import JobSink
from ..protocol.history import shown, shown_again
from ..protocol.kinds import Changes
from ..protocol.records import AddedOutput, Commit, OutputFile, PublishedFile, VersionOf, digest
from ..protocol.records import Published as Record
from ..protocol.refs import MAIN
from ..protocol.successor import Origin
from ..publishing.correct import correct
from ..publishing.publish import repair
from ..publishing.taken_over import seen_by_record
from ..publishing.works import place_of, read_record
from ..repo.discard import discard_unless_named, discarded_if_full
from ..repo.opened import Opened
from ..sinks.asked import sink_folder
from ..sinks.contract import SinkPlace
from ..sinks.folder import Folder
from ..sinks.joined import can_join, joined
from ..values import dataclass
from .compact_choice import TARGET_BYTES, VersionFiles, VersionGroup, choose_groups, split

LOG = logging.getLogger("tidemill")
_MOST_TRIES = 3
"""How often the files of a group are stored, under another number each time, while batches take these numbers."""
_THREADS = 8
"""How many records or small files are read at once."""
OnCompacted = Callable[[int, int], None]
"""Called with the number of groups that are done, and of all."""


@dataclass(frozen=True)
class Compacted:
    """Published files of a sink that were joined, or in a dry run would be: those that show versions `first..last`.

    `version` is that of the commit. In a dry run it is None, and the numbers after are estimates.
    """

    sink: str
    first: int
    last: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    version: int | None = None


@dataclass
class CompactReport:
    """What a call did, and how many groups are left to the next one. `has_plan`: because a batch is planned."""

    compacted: list[Compacted] = field(default_factory=list)
    left: int = 0
    has_plan: bool = False


@dataclass(frozen=True)
class _Place:
    """A sink with a folder, what is needed to look there, and its published files by version."""

    name: str
    uri: str
    folder: Folder
    at: SinkPlace
    published: list[VersionFiles]
    rowless: list[int]
    """Versions of the history without files or a record in this sink."""


class _Apart(Exception):
    """Files of some records cannot be joined with others: they were moved or altered, or have other columns."""

    def __init__(self, records: Sequence[int], why: str) -> None:
        super().__init__(why)
        self.records = records


class Compaction:
    """One call. `apart` are records whose files stay as they are, by sink."""

    def __init__(self, repo: Opened, target_bytes: int = TARGET_BYTES, reason: str = "") -> None:
        self.repo, self.target_bytes = repo, target_bytes
        self.reason = reason or "compact published files"
        self.apart: dict[str, set[int]] = {}
        self.overtaken = 0

    def to_join(self) -> list[Compacted]:
        """Return what would be joined. Writes nothing, and reads no file."""
        return [
            Compacted(place.name, one.first, one.last, one.files, one.into, one.bytes, one.bytes)
            for place, one in self._chosen(self.repo.head())
        ]

    def run(self, deadline: float | None = None, on_compacted: OnCompacted | None = None) -> CompactReport:
        """Join files, group by group, until nothing is left or `deadline` has passed.

        SinkPlace least one group is joined, so that repeated calls finish. No batch that is planned is disturbed.
        """
        report = CompactReport()
        repair(self.repo, self.repo.head())
        while todo := self._chosen(self.repo.head()):
            for done, (place, group) in enumerate(todo):
                has_time = deadline is None or time.monotonic() < deadline or not report.compacted
                report.has_plan = has_time and self._is_planned(self.repo.head())
                if not has_time or report.has_plan:
                    report.left = len(todo) - done
                    return report
                made = self._compact(place, group)
                report.compacted += [] if made is None else [made]
                if on_compacted is not None:
                    on_compacted(done + 1, len(todo))
        report.left = self.overtaken
        return report

    def _is_planned(self, head: Commit | None) -> bool:
        origin = self.repo.origin(head)
        return self.repo.log.plan(origin.number, origin.parent) is not None

    def _chosen(self, head: Commit | None) -> list[tuple[_Place, VersionGroup]]:
        if head is None or self.repo.branch != MAIN:
            return []
        places = (self._place(head, output) for output in self.repo.job.outputs.values())
        return [
            (place, one)
            for place in places
            if place is not None
            for one in choose_groups(place.published, self.target_bytes)
        ]

    def _place(self, head: Commit, output: JobSink) -> _Place | None:
        """Return what a sink shows, or None if nothing of it can be joined."""
        sink, folder, recorded = output.sink, sink_folder(output.sink), head.sinks.get(output.name)
        if sink is None or folder is None or not can_join(folder.extension):
            return None
        if recorded is None or recorded.get("uri") != sink.uri:
            return None
        place = place_of(self.repo, output.name)
        sizes: dict[int, dict[str, list[int]]] = {}
        for file in seen_by_record(self.repo, head, output.name, folder.seen(place)):
            if file.is_ours:
                inner = file.name.rpartition("/")[0]
                sizes.setdefault(file.version, {}).setdefault(inner, []).append(file.size)
        by = shown(head, output.name)
        spans: dict[int, tuple[int, int]] = {}
        for version, record in by.items():
            first, last = spans.get(record, (version, version))
            spans[record] = min(first, version), max(last, version)
        apart = self.apart.setdefault(output.name, set())
        found = [VersionFiles(one, *spans[one], sizes[one], one in apart) for one in spans if one in sizes]
        found.sort(key=lambda one: one.first)
        if not choose_groups(found, self.target_bytes):
            return None
        recorded_as = self._recorded(output.name)
        found = [dataclasses.replace(one, is_fixed=one.is_fixed or one.record not in recorded_as) for one in found]
        found += [VersionFiles(one, *spans[one], {}, True) for one in spans if one in recorded_as and one not in sizes]
        found.sort(key=lambda one: one.first)
        rowless = [version for version, one in by.items() if one not in sizes and one not in recorded_as]
        return _Place(output.name, sink.uri, folder, place, found, rowless)

    def _recorded(self, name: str) -> set[int]:
        """Return the numbers of all published records of a sink."""
        prefix = names.published(MAIN, name)
        numbers = (names.number_in(prefix, entry.name) for entry in self.repo.store.list(prefix))
        return {number for number in numbers if number is not None}

    def _compact(self, place: _Place, group: VersionGroup) -> Compacted | None:
        """Join the files of a group. None: other commits came first, or some files cannot be joined."""
        for _ in range(_MOST_TRIES):
            self.repo.refresh()
            head = self.repo.head()
            assert head is not None
            by = shown(head, place.name)
            if self._is_planned(head) or {one.record for one in group.members} - set(by.values()):
                return None
            try:
                return _Joining(self.repo, place, group, head).commit(self.reason)
            except _Apart as error:
                LOG.info("sink `%s`: versions %s stay as they are: %s", place.name, list(error.records), error)
                self.apart[place.name] |= set(error.records)
                return None
            except Fenced:
                continue
        self.apart[place.name] |= {one.record for one in group.members}
        self.overtaken += 1
        return None


class _Joining:
    """Joins the files of one group for the version after `head`."""

    def __init__(self, repo: Opened, place: _Place, group: VersionGroup, head: Commit) -> None:
        self.repo, self.place, self.group, self.head = repo, place, group, head
        self.origin: Origin = repo.origin(head)
        self.attempt = uuid.uuid4().hex[:12]
        self.stored: list[str] = []

    def commit(self, reason: str) -> Compacted | None:
        """Store the joined files and commit them. None: a batch was planned meanwhile."""
        try:
            with (
                discarded_if_full(self.repo.store, self.attempt),
                ThreadPoolExecutor(_THREADS, "tidemill-compact") as pool,
            ):
                files = list(self._files(self._records(pool), pool))
            if self.repo.log.plan(self.origin.number, self.origin.parent) is not None:
                discard_unless_named(self.repo, self.origin.number, self.attempt, self.stored)
                return None
            made = correct(self.repo, self.origin, "compact", self._changes(files, reason))
        except (_Apart, InvalidInput, CorruptState, Fenced):  # of another error, the outcome may be unknown
            discard_unless_named(self.repo, self.origin.number, self.attempt, self.stored)
            raise
        group, size = self.group, sum(one.size for one in files)
        return Compacted(
            self.place.name, group.first, group.last, group.files, len(files), group.bytes, size, made.version
        )

    def _changes(self, files: list[OutputFile], reason: str) -> Changes:
        name, members = self.place.name, self.group.members
        records = [one.record for one in members]
        between = [version for version in self.place.rowless if self.group.first < version < self.group.last]
        return {
            "attempt": self.attempt,
            "reason": reason,
            "withdraws": {name: [VersionOf(MAIN, one) for one in records]},
            "adds": {name: [AddedOutput(MAIN, members[-1].record, files)]},
            "shown_by": shown_again(self.head, {name: [*records, *between]}, self.origin.number),
        }

    def _records(self, pool: ThreadPoolExecutor) -> list[Record]:
        """Return the records of all versions. `_Apart` for those whose files cannot be joined."""
        looked = list(pool.map(self._looked_up, self.group.members))
        apart = {one.record: why for one, why in zip(self.group.members, looked, strict=True) if isinstance(why, str)}
        if apart:
            raise _Apart(list(apart), next(iter(apart.values())))
        return [one for one in looked if not isinstance(one, str)]

    def _looked_up(self, one: VersionFiles) -> Record | str:
        """Return the record of a version, or why its files cannot be joined with others."""
        place = self.place
        record = read_record(self.repo, VersionOf(MAIN, one.record), place.name)
        if record is None or record.uri != place.uri:
            return "no record says that they were published here"
        sizes: dict[str, list[int]] = {}
        for file in record.files:
            sizes.setdefault(file.name.rpartition("/")[0], []).append(file.size)
        if {folder: sorted(found) for folder, found in one.folders.items()} != {
            folder: sorted(found) for folder, found in sizes.items()
        }:
            return "some files were moved or altered"
        then, now = self.repo.log.commit(one.record).sinks[place.name], self.head.sinks[place.name]
        if any((then.get(what) or []) != (now.get(what) or []) for what in ("kind", "partitionBy", "schema")):
            return "the sink has other columns now"
        return record

    def _files(self, records: Sequence[Record], pool: ThreadPoolExecutor) -> Iterator[OutputFile]:
        """Join the files folder by folder, store them, and yield what the commit says of them."""
        folders: dict[str, list[tuple[int, PublishedFile]]] = {}
        for record in records:
            for file in record.files:
                folders.setdefault(file.name.rpartition("/")[0], []).append((record.version, file))
        part = 0
        for folder in sorted(folders):
            waiting = iter(folders[folder])
            for count in split([file.size for _, file in folders[folder]], self.group.target_bytes):
                yield self._stored(folder, list(itertools.islice(waiting, count)), part, pool)
                part += 1

    def _stored(
        self, folder: str, files: Sequence[tuple[int, PublishedFile]], part: int, pool: ThreadPoolExecutor
    ) -> OutputFile:
        """Store files of one folder as one file. One file alone stays as it is."""
        extension = f".{files[0][1].name.rpartition('.')[2]}"
        if not can_join(extension):
            raise _Apart([record for record, _ in files], f"files with the extension {extension} are not joined")
        contents = self._contents(files, pool)
        try:
            data = next(contents) if len(files) == 1 else joined(extension, contents)
        except InvalidInput as error:
            raise _Apart([record for record, _ in files], error.message) from error
        stem = names.again_stem(self.origin.number, self.attempt, 0, "compact")
        name = names.output(self.place.name, MAIN, stem, 0, part, extension)
        self.stored.append(name)
        etag = self.repo.store.put(name, data) or ""
        rows = sum(file.rows for _, file in files)
        suffix = f"{folder}/" if folder else ""
        return OutputFile(name, digest(data), len(data), rows, 0, 0, part, suffix, extension, etag)

    def _contents(self, files: Sequence[tuple[int, PublishedFile]], pool: ThreadPoolExecutor) -> Iterator[bytes]:
        """Yield the contents of files, as they were published."""
        for at in range(0, len(files), _THREADS):
            some = files[at : at + _THREADS]
            found = pool.map(lambda one: self.place.folder.fetch(self.place.at, one[1].name), some)
            for (record, file), data in zip(some, found, strict=True):
                if data is None or digest(data) != file.checksum:
                    raise _Apart([record], f"`{file.name}` was moved or altered")
                yield data
