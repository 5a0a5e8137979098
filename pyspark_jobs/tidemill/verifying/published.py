"""Checks the records of published versions, and the published files that are still in the places of sinks.

INVARIANT: a published file that is missing is no problem, because consumers may move or delete it. One that was altered
is, and so are a record that is lost and a file that this repository published, but no commit names: its rows are there
twice, or will be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field

from .. import names
from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.codec import decode
from ..protocol.records import Commit, Published, PublishedFile
from ..protocol.refs import Refs
from ..publishing.works import place_of, works
from ..repo.opened import Opened
from ..sinks.asked import seen, sink_folder
from ..sinks.contract import Seen, Sink
from ..sinks.folder import Folder
from ..sinks.public import public_name
from ..store import ListedObject
from ..values import dataclass
from .findings import Findings
from .leftover import Leftovers, unknown_elsewhere

_ONE_BACKUP = "restore `published/` and `branches/` from one backup"


@dataclass
class PublishedVersions:
    """The records of all published versions. `add` is called for each commit of `main`, `check` at the end."""

    repo: Opened
    uuid: str
    refs: Refs
    listing: Mapping[str, ListedObject]
    found: Findings
    through: int = -1
    """All versions up to this one were published, as some commit says."""
    expected: list[tuple[str, int]] = field(default_factory=list)
    """Names of records that must exist if their version is not above `through`."""
    files: dict[tuple[str, str], dict[str, PublishedFile]] = field(default_factory=dict)
    """Files that should be in the place of a sink, by sink and URI, then by name."""
    head: Commit | None = None
    named: dict[str, set[str]] = field(default_factory=dict)
    """Names of all files that commits publish, by sink."""
    withdrawn: dict[str, dict[str, int]] = field(default_factory=dict)
    """Names of files that were withdrawn, by sink, and the version that withdrew them."""
    undone: dict[str, dict[int, int]] = field(default_factory=dict)
    """Versions that were withdrawn from a sink, and the version that withdrew them."""
    shown_as: dict[tuple[str, str], int] = field(default_factory=dict)
    """By sink and name of a file, the newest version whose record has it."""
    seen: set[int] = field(default_factory=set)
    """Versions whose commits could be read."""

    def add(self, commit: Commit) -> None:
        """Read the records of a version that belong to this repository."""
        self.through = max(self.through, commit.published_through)
        self.seen.add(commit.version)
        self.head = commit
        for work in works(self.repo, commit):
            owner, named = place_of(self.repo, work.name, self.uuid).owner, self.named.setdefault(work.name, set())
            named.update(public_name(owner, commit.version, place, file) for place, file in work.files)
            name = names.numbered(names.published(commit.branch, work.name), commit.version)
            if name in self.listing:
                self.undone.setdefault(work.name, {}).update((one.version, commit.version) for one in work.withdraws)
                self._read(name, commit, work.name)
            elif commit.pipeline_uuid == self.uuid and work.described["path"]:
                self.expected.append((name, commit.version))

    def check(self, deep: bool) -> int:
        """Note records that are lost and files that were altered. Return how many files were found."""
        branch = self.repo.branch
        prefix, commits = f"published/{branch}/", names.commits(branch)
        newest = max((self._number(one) for one in self.listing if one.startswith(commits)), default=-1)
        for name in self.listing:
            if name.startswith(prefix) and self._number(name) > newest:
                lost, hint = names.commit(branch, self._number(name)), "restore `branches/` from a backup"
                what = f"the commit is missing, but `{name}` shows that it was published"
                self.found.add(lost, what, f"all versions after {newest}", hint)
        for name, version in self.expected:
            if version <= self.through:
                what = "the record is missing, but a later commit says that the version was published"
                self.found.add(name, what, f"withdrawing version {version}", _ONE_BACKUP)
        for output in self.repo.job.outputs.values():
            if self.repo.publishes and output.sink is not None and output.sink.path:
                with self.found.of(output.sink.uri, f"the files of sink `{output.name}` could not be looked at"):
                    self._find_unnamed(output.name, output.sink, newest)
        return sum(self._compare(sink, deep) for sink in dict.fromkeys(sink for sink, _ in self.files))

    def _find_unnamed(self, name: str, sink: Sink, newest: int) -> None:
        """Note rows of this repository in the place that no commit names, or that were withdrawn.

        A damaged commit may name some of it.
        """
        folder = sink_folder(sink)
        present = [one for one in seen(sink, place_of(self.repo, name, self.uuid)) if one.is_ours]
        files = None if folder is None else self._leftovers(name, folder, present)
        for one in present:
            affects, hint = f"readers of sink `{name}`: rows come twice", unknown_elsewhere(sink, one)
            by = self._withdrawn_by(name, one, folder is not None)
            if by is not None:
                what = f"version {by} withdrew it, but {'it' if files is None else 'the file'} is there"
                hint = f"withdraw it from {sink.uri}" if files is None else files.withdrawn(self._last(name, by))
                self.found.add(f"{sink.uri}/{one.name}", what, affects, hint)
                continue
            if files is not None and one.name in self.named.get(name, ()):
                continue
            if files is not None and one.version in self.seen:
                what = f"this repository published it, but the commit of version {one.version} does not name it"
            elif one.version > newest and self._is_lost(one.version):
                what = f"this repository published it as version {one.version}, but has commits up to {newest} only"
            else:
                continue
            if files is not None:
                affects, hint = files.unknown(one)
            self.found.add(f"{sink.uri}/{one.name}", what, affects, hint)

    def _leftovers(self, name: str, folder: Folder, present: Sequence[Seen]) -> Leftovers:
        return Leftovers(self.repo, self.refs, self.head, name, folder, {one.name for one in present})

    def _withdrawn_by(self, sink: str, one: Seen, is_folder: bool) -> int | None:
        """Return the version that withdrew what a place has: a file by its name, elsewhere a version."""
        if is_folder:
            return self.withdrawn.get(sink, {}).get(one.name)
        return self.undone.get(sink, {}).get(one.version)

    def _last(self, sink: str, by: int) -> int:
        """Return the version that shows what version `by` has shown: others may have withdrawn it since."""
        undone = self.undone.get(sink, {})
        while by in undone:
            by = undone[by]
        return by

    def _is_lost(self, version: int) -> bool:
        """Whether a version has no commit, also not one since the listing."""
        return self.repo.store.stat(names.commit(self.repo.branch, version)) is None

    def _number(self, name: str) -> int:
        found = names.number_in(name[: name.rindex("/") + 1], name)
        return -1 if found is None else found

    def _read(self, name: str, commit: Commit, sink: str) -> None:
        with self.found.of(name, f"withdrawing version {commit.version} from sink `{sink}`"):
            record = decode(Published, self.repo.store.get(name), name)
            if (record.branch, record.sink, record.version) != (commit.branch, sink, commit.version):
                raise CorruptState(
                    f"read `{name}`: found the record of version {record.version} of sink `{record.sink}`",
                    hint=_ONE_BACKUP,
                )
            if record.commit_checksum != commit.checksum:
                raise CorruptState(
                    f"read `{name}`: it was published from the commit with checksum {record.commit_checksum}, but the "
                    f"commit of version {commit.version} has {commit.checksum}",
                    hint=_ONE_BACKUP,
                )
            there = self.files.setdefault((sink, record.uri), {})
            there.update((file.name, file) for file in record.files)
            self.shown_as.update(dict.fromkeys(((sink, file.name) for file in record.files), commit.version))
            gone = self.withdrawn.setdefault(sink, {})
            for file in record.files:
                gone.pop(file.name, None)
            gone.update(dict.fromkeys(record.withdrawn, commit.version))
            for withdrawn in record.withdrawn:
                there.pop(withdrawn, None)

    def _compare(self, sink: str, deep: bool) -> int:
        """Compare the files in the place of a sink with their records. Return how many are there."""
        declared = self.repo.declared_sink(sink)
        folder = sink_folder(declared)
        if declared is None or folder is None:
            return 0  # only the code says where a sink is
        count, uri = 0, declared.uri
        try:
            for name, fault in folder.compared(
                place_of(self.repo, sink, self.uuid), self._expected_at(sink, uri), deep
            ):
                count += 1
                if fault is not None:
                    hint = self._leftovers(sink, folder, ()).altered(self.shown_as[(sink, name)])
                    self.found.add(f"{uri}/{name}", fault, f"readers of sink `{sink}`", hint)
        except (InvalidInput, StoreUnavailable) as error:
            self.found.add(uri, error.message, f"the files of sink `{sink}` could not be looked at", error.hint or "")
        return count

    def _expected_at(self, sink: str, uri: str) -> dict[str, PublishedFile]:
        """Return the files that a sink may have at a place, also those that were published before it moved there.

        Copies at another place have the recorded content, but not the recorded ETag.
        """
        found: dict[str, PublishedFile] = {}
        for (name, place), files in self.files.items():
            if name == sink and place != uri:
                found.update({one: dataclasses.replace(file, etag="") for one, file in files.items()})
        return {**found, **self.files.get((sink, uri), {})}
