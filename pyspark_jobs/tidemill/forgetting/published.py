"""Published files without some keys: written again, so that a commit can withdraw their records and add the new ones.

INVARIANT: rows of other keys keep their values, `_batch_id`, `_seq` and order. Only files that a record names are read;
if the place of a sink has no files, those of the repository with the rows that it got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial

import pyarrow as pa

from .. import names
from ..errors import CorruptState, InvalidInput
from ..protocol.history import is_shown
from ..protocol.records import AddedOutput, Commit, OutputFile, Published, VersionOf, digest
from ..protocol.refs import MAIN
from ..publishing.works import place_of, read_record
from ..repo.opened import Opened
from ..schema import to_arrow
from ..schema.kernels import pc
from ..sinks.asked import is_called, sink_folder
from ..sinks.contract import Sink
from ..sinks.forms import staged, unstaged, with_added
from ..sinks.partitions import folder_values
from ..sinks.public import parsed
from ..spelling import unknown
from ..store import ObjectMissing
from ..values import dataclass
from .keys import Keys, each_fitting
from .state import ForgetTarget


@dataclass(frozen=True)
class _Content:
    """The bytes of a file and how many rows they have."""

    data: bytes
    rows: int


@dataclass
class Republished:
    """What a commit must withdraw and add in one sink, and which published files held the keys or are gone.

    `records` are versions whose records are replaced. `rows` counts the rows of the keys. `foreign` are files of the
    repository of which this is a copy. `elsewhere` are rows that were not looked at, in words.
    """

    records: list[int] = field(default_factory=list)
    adds: list[AddedOutput] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    rows: int = 0
    missing: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Shown:
    """A file whose rows a sink shows: a published one, or if the place has no files, a committed one.

    `uri` is for people. `content` returns its bytes, or None if it is gone.
    """

    uri: str
    name: str
    suffix: str
    extension: str
    rows: int
    checksum: str
    content: Callable[[], bytes | None]
    is_ours: bool = True
    """False: published by the original of this copy."""

    @property
    def identity(self) -> str:
        """What differs if it has other bytes."""
        return f"{self.uri}@{self.checksum}"


def sink_of(repo: Opened, name: str) -> Sink:
    """Return the sink of a name. `InvalidInput` if it has no place."""
    output = repo.job.outputs.get(name)
    if output is None:
        raise unknown("sink", name, list(repo.job.outputs))
    if output.sink is None or is_called(output.sink):
        raise InvalidInput(f"forget: sink `{name}` has no place, so it has no columns to look at")
    return output.sink


Searches = Sequence[tuple[Sequence[str], Keys]]
"""Columns of a sink, each with the keys that are looked for there."""


def outputs_without_keys(repo: Opened, head: Commit, name: str, searches: Searches, to: ForgetTarget) -> Republished:
    """Write the output files of all versions again that the sink shows with rows of the keys. A dry run only looks.

    Files that were published at an earlier place are looked for in the present one, too, because a user may have moved
    them with the sink.
    """
    made = Republished()
    sink = sink_of(repo, name)
    for record in records(repo, head, name):
        is_moved = record.uri != sink.uri
        if is_moved and sink_folder(sink) is None:
            made.elsewhere.append(f"the rows of version {record.version} in `{record.uri}`, its earlier place")
            continue
        shown = list(shown_files(repo, sink, record))
        if not to.dry_run and all(not file.is_ours or file.identity in to.clean for file in shown):
            continue
        files: list[tuple[_Shown, _Content]] = []
        is_ours = False
        for file in shown:
            if not file.is_ours:
                made.foreign.append(file.uri)
                continue
            data = file.content()
            if data is None and sink_folder(sink) is None:
                raise InvalidInput(
                    f"forget: sink `{name}` shows rows of version {record.version} in `{sink.uri}`, but the repository "
                    f"does not keep them any more (`{file.uri}`), so it cannot say which of them have the key",
                    hint=f"remove the key from the place yourself, and call forget without columns for `{name}`, or "
                    f"with left=[{name!r}] or --left {name}",
                )
            if data is None:
                made.missing += [f"{record.uri}/{file.name}" if is_moved else file.uri]
                continue
            _refuse_altered(file, data)
            left = None if file.identity in to.clean else _filtered(repo, record, file, data, searches)
            if left is None:
                to.clean.add(file.identity)
            else:
                is_ours = True
                made.rewritten.append(file.uri)
                made.rows += file.rows - left.rows
            files.append((file, _Content(data, file.rows) if left is None else left))
        if is_ours:
            made.records.append(record.version)
            if not to.dry_run:
                stored = list(_stored(repo, name, files, to, len(made.adds)))
                made.adds += [AddedOutput(MAIN, record.version, stored)] if stored else []
    return made


def _refuse_altered(file: _Shown, data: bytes) -> None:
    if (found := digest(data)) != file.checksum:
        raise CorruptState(
            f"forget: read `{file.uri}`: found checksum {found}, but {file.checksum} was published",
            hint="restore the file, or move it away and remove the key from it yourself",
        )


def records(repo: Opened, head: Commit, name: str) -> Iterator[Published]:
    """Yield the published records of a sink whose rows it shows, oldest first."""
    prefix = names.published(MAIN, name)
    for entry in repo.store.list(prefix):
        number = names.number_in(prefix, entry.name)
        if number is not None and number <= head.version and is_shown(head, number, name):
            record = read_record(repo, VersionOf(MAIN, number), name)
            if record is not None:
                yield record


def shown_files(repo: Opened, sink: Sink, record: Published) -> Iterator[_Shown]:
    """Yield the files whose rows a sink shows of a record."""
    folder, place = sink_folder(sink), place_of(repo, record.sink)
    if folder is None:
        commit = repo.log.commit(record.version)
        for one in _committed(commit, record.sink):
            yield _Shown(
                one.name, one.name, one.suffix, one.extension, one.rows, one.checksum, partial(_object, repo, one),
                is_ours=commit.pipeline_uuid == place.owner.uuid,
            )  # fmt: skip
        return
    for file in record.files:
        public, content = parsed(file.name), partial(folder.fetch, place, file.name)
        suffix, extension = file.name.removesuffix(file.name.rpartition("/")[2]), f".{file.name.rpartition('.')[2]}"
        is_ours = public is None or public.is_ours(place.owner)
        yield _Shown(
            f"{sink.uri}/{file.name}", file.name, suffix, extension, file.rows, file.checksum, content, is_ours
        )


def _committed(commit: Commit, sink: str) -> list[OutputFile]:
    """Return the files of the repository with the rows that a version made visible."""
    added = (file for one in commit.adds.get(sink, []) for file in one.files)
    return [file for file in (*commit.outputs.get(sink, []), *added) if file.rows]


def _object(repo: Opened, file: OutputFile) -> bytes | None:
    try:
        return repo.store.get(file.name)
    except ObjectMissing:
        return None


def cast_key_columns(table: pa.Table, columns: Sequence[str], keys: Keys, where: str) -> pa.Table:
    """Return the columns that hold the key, with the types of the key. `InvalidInput` if they do not fit."""
    for column in columns:
        if column not in table.column_names:
            raise unknown(f"column of {where}", column, table.column_names)
    schema = keys.columns.schema
    try:
        return table.select(list(columns)).rename_columns(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"forget: the columns {', '.join(columns)} of {where} do not fit the key: {error}"
        ) from error


def rows_of_file(repo: Opened, record: Published, file: _Shown, data: bytes) -> pa.Table:
    """Return the rows of a file that a sink shows, with its partition columns."""
    described = repo.log.commit(record.version).sinks.get(record.sink)
    columns = repo.job.outputs[record.sink].schema if described is None else to_arrow(described["schema"])
    return unstaged([(data, file.suffix)], with_added(columns), file.extension, file.uri)


def _filtered(repo: Opened, record: Published, file: _Shown, data: bytes, searches: Searches) -> _Content | None:
    """Return the content of a file without the keys, or None if it has none of them."""
    table = rows_of_file(repo, record, file, data)
    ours = [False] * table.num_rows
    for columns, keys in searches:
        if set(columns) <= set(table.column_names):  # without a column, a row has no key
            found = each_fitting(table.select(list(columns)), keys.columns.schema, keys.which)
            ours = [before or now for before, now in zip(ours, found, strict=True)]
    if not any(ours):
        return None
    is_ours = pa.array(ours, pa.bool_())
    left = table.filter(pc.invert(is_ours))
    left = left.drop_columns(list(folder_values(file.suffix)))
    made = staged(left, file.extension) if left.num_rows else []
    return _Content(made[0].data if made else b"", left.num_rows)


def _stored(
    repo: Opened, name: str, files: Sequence[tuple[_Shown, _Content]], to: ForgetTarget, index: int
) -> Iterator[OutputFile]:
    """Store the files of a record in the repository, without those that have no row left."""
    for part, (file, content) in enumerate(one for one in files if one[1].rows):
        path = to.name(names.output(name, repo.branch, to.stem(index), 0, part, file.extension))
        etag = repo.store.put(path, content.data) or ""
        yield OutputFile(
            name=path,
            checksum=digest(content.data),
            size=len(content.data),
            rows=content.rows,
            pass_number=0,
            lo=0,
            part=part,
            suffix=file.suffix,
            extension=file.extension,
            etag=etag,
        )
