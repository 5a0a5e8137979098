"""Files that a source has read and that the pipeline which published them has withdrawn since: their rows are too many.

The writer is a pipeline under the same root, which the names of its files tell. Its records say which files a rewind, a
promotion or a `forget` has withdrawn. Files that were moved, archived or joined are in no such record.

INVARIANT: the cost follows what the writer withdrew since the last batch, not how many files were read. A file is
looked for again until a commit has noted that it was looked for after it was read. If the writer cannot be read,
nothing is said.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..counts import count_of
from ..errors import InvalidInput, TidemillError
from ..protocol.history import corrections, is_effective, last_forget
from ..protocol.kinds import rules_of
from ..protocol.records import Commit, Published, SinkRead, VersionOf
from ..protocol.refs import MAIN
from ..publishing.works import read_record
from ..repo.ledger_versions import line_of, version_before
from ..repo.opened import Opened
from ..repo.recorded import open_recorded
from ..sinks.public import parsed
from ..sources.contract import SourceFile
from ..sources.ledger import READ, look_up_files
from ..store import side_by_side
from ..values import dataclass

ACCEPT = "tidemill skip --withdrawn"
"""The command that accepts what was withdrawn."""


@dataclass(frozen=True)
class WithdrawnFile:
    """A file that `read_by` has read, a version of the ledger, and that version `version` of the writer withdrew."""

    file: SourceFile
    read_by: int
    by: SinkRead
    version: int
    what: str
    """What that version is, and why it was made."""


@dataclass(frozen=True)
class SinksRead:
    """The sinks that sources read, for the next commit, and the files of them that were read and then withdrawn."""

    sinks: Sequence[SinkRead] = ()
    withdrawn: Sequence[WithdrawnFile] = ()


def sinks_read(repo: Opened, head: Commit | None, waiting: Mapping[str, Sequence[SourceFile]]) -> SinksRead:
    """Return the sinks of other pipelines that the sources read, and what was withdrawn of them.

    `waiting` are files by source that no batch has read yet.
    """
    known = [] if head is None else head.sinks_read
    found = {dataclasses.replace(one, through=-1): one for one in known}
    for one in _named(repo, waiting):
        found.setdefault(one, one)
    sinks: list[SinkRead] = []
    withdrawn: list[WithdrawnFile] = []
    writers: dict[str, _Writer | None] = {}
    for one in sorted(found.values()):
        if one.pipeline not in writers:
            writers[one.pipeline] = _Writer.of(repo, one.pipeline)
        writer, source = writers[one.pipeline], repo.job.sources.get(one.source)
        looked = None
        if writer is not None and source is not None and source.place is not None:
            with contextlib.suppress(TidemillError):
                looked = _looked_at(repo, head, writer, one, waiting.get(one.source, ()))
        if looked is not None:
            sinks.append(looked.sinks[0])
            withdrawn += looked.withdrawn
        elif one in known:
            sinks.append(one)
    return SinksRead(sinks, withdrawn)


def refuse_withdrawn(repo: Opened, head: Commit | None, found: Sequence[WithdrawnFile]) -> None:
    """Raise `InvalidInput` if files were read that their writers have withdrawn since."""
    if not found or head is None:
        return
    first = min(found, key=lambda one: (one.read_by, one.file.path))
    by = first.by
    same = [one for one in found if dataclasses.replace(one.by, through=0) == dataclasses.replace(by, through=0)]
    others = sorted({f"sink `{one.by.sink}` of pipeline `{one.by.pipeline}`" for one in found if one not in same})
    at = f" --branch {repo.initialised().name_of(repo.branch)}" if repo.branch != MAIN else ""
    back = version_before(repo, head, first.read_by)
    keep = f"`{ACCEPT}{at}` keeps the rows, also those that the sink has again in other files"
    undo = f"`tidemill rewind --to {back}{at}` removes these rows, and the next run reads the sink as it is now"
    gone = "no version from before they were read is kept, so read the sink again under another root"
    raise InvalidInput(
        f"source `{by.source}`: pipeline `{by.pipeline}` withdrew {count_of(len(same), 'file')} from its sink "
        f"`{by.sink}` after this pipeline had read them, for example `{first.file.path}`: read by version "
        f"{line_of(repo, head, first.read_by)[1]}, withdrawn by version {first.version} of `{by.pipeline}` "
        f"({first.what})" + (f"; files of {' and '.join(others)}, too" if others else ""),
        hint=f"{gone if back is None else undo}. Or {keep}",
    )


def _named(repo: Opened, waiting: Mapping[str, Sequence[SourceFile]]) -> Iterator[SinkRead]:
    """Yield the sinks of other pipelines that the names of files tell."""
    seen = set()
    for name, files in waiting.items():
        for file in files:
            public = parsed(file.path)
            if public is not None and public.pipeline != repo.job.pipeline:
                seen.add(SinkRead(name, public.pipeline, public.sink, public.uuid, -1))
    yield from seen


@dataclass(frozen=True)
class _Writer:
    """The repository of a pipeline that publishes, and its newest version."""

    repo: Opened
    head: Commit

    @classmethod
    def of(cls, reader: Opened, pipeline: str) -> _Writer | None:
        """Return the repository of a pipeline under the root, or None if there is none that can be read."""
        with contextlib.suppress(TidemillError):
            repo = open_recorded(reader.root, pipeline, MAIN, None, reader.storage_options).remembering()
            head = repo.head()
            return None if head is None else cls(repo, head)
        return None

    def withdrawals(self, sink: str, since: int) -> list[Published]:
        """Return the records of a sink after version `since` that name withdrawn files, oldest first."""
        versions = {*corrections(self.head, since), *self._forgets(since)}
        reads = [partial(read_record, self.repo, VersionOf(MAIN, one), sink) for one in sorted(versions)]
        return [one for one in side_by_side(self.repo.store, reads) if one is not None and one.withdrawn]

    def _forgets(self, since: int) -> Iterator[int]:
        version = last_forget(self.head)
        while version is not None and version > since:
            yield version
            version = self.repo.log.forget_commit(version).forgotten_at

    def words(self, version: int) -> str:
        """Return what a version is, for a message: its kind and why it was made."""
        commit = self.repo.log.commit(version)
        return f"{commit.kind}: {commit.reason}" if commit.reason else commit.kind


def _looked_at(
    repo: Opened, head: Commit | None, writer: _Writer, sink: SinkRead, waiting: Sequence[SourceFile]
) -> SinksRead:
    """Look for files of a sink that were read and withdrawn since the versions that were looked at before.

    INVARIANT: a file that waits may be one that was withdrawn after the source was listed, and this run may still read
    it. So the withdrawal stays to be looked at.
    """
    through, found = writer.head.published_through, []
    not_read = {file.path for file in waiting}
    place = repo.job.sources[sink.source].place or ""
    for record in writer.withdrawals(sink.sink, sink.through):
        paths = [path for name in record.withdrawn if (path := _path(place, record.uri, name)) is not None]
        if not not_read.isdisjoint(paths):
            through = min(through, record.version - 1)
        files = [SourceFile(sink.source, path, "", 0, 0) for path in paths]
        for file, known in zip(files, look_up_files(repo.ledger(head).map, files), strict=True):
            if known is not None and known.how == READ and _is_undone(writer, record.version, file.path):
                file = SourceFile(sink.source, file.path, known.etag, known.size, known.modified_ms)
                by = _withdrawn_by(writer, record.version)
                found.append(WithdrawnFile(file, known.version, sink, by, writer.words(by)))
    return SinksRead([dataclasses.replace(sink, through=through)], found)


def _path(place: str, uri: str, name: str) -> str | None:
    """Return the path of a published file below the folder of a source, or None if it is elsewhere."""
    below = f"{place.rstrip('/')}/"
    inside = f"{uri.rstrip('/')}/{name}"
    return inside.removeprefix(below) if inside.startswith(below) else None


def _is_undone(writer: _Writer, record: int, path: str) -> bool:
    """Whether a file that a record withdrew has rows that do not count any more. Joined rows do, in another file."""
    public = parsed(path)
    if public is None or not rules_of(writer.repo.log.commit(record)).same_rows:
        return True
    is_joined = rules_of(writer.repo.log.commit(public.version)).same_rows
    return not is_joined and not is_effective(writer.head, public.version)


def _withdrawn_by(writer: _Writer, record: int) -> int:
    """Return the correction that withdrew files, also those of a version that was undone before it was published."""
    commit = writer.repo.log.commit(record)
    while not rules_of(commit).withdraws or rules_of(commit).same_rows:
        commit = writer.repo.log.commit(commit.version + 1)
    return commit.version
