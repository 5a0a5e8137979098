"""Published files without some keys: written again, so that a commit can withdraw their records and add the new ones.

INVARIANT: rows of other keys keep their values, `_batch_id`, `_seq` and order. Only files that a record names are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from .. import names
from ..driver.context import Context
from ..driver.lost_versions import place_of
from ..driver.publish import read_record
from ..errors import CorruptState, InvalidInput
from ..protocol.history import is_shown
from ..protocol.records import AddedOutput, Commit, OutputFile, Published, PublishedFile, VersionOf, digest
from ..protocol.refs import MAIN
from ..schema import to_arrow
from ..sinks import reader
from ..sinks.contract import Publication, Sink
from ..sinks.partitions import folder_values
from ..sinks.public import parsed
from ..spelling import unknown
from .keys import Keys
from .rewrite_state import Writing


@dataclass(frozen=True)
class Content:
    """The bytes of a file and how many rows they have."""

    data: bytes
    rows: int


@dataclass
class Republished:
    """What a commit must withdraw and add in one sink, and which published files held the keys or are gone.

    `records` are versions whose records are replaced.
    """

    records: list[int] = field(default_factory=list)
    adds: list[AddedOutput] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def sink_of(context: Context, name: str) -> tuple[Sink, Publication]:
    """Return the sink of a name and what it needs to look at its place. `InvalidInput` if it has no folder."""
    output = context.job.outputs.get(name)
    if output is None:
        raise unknown("sink", name, list(context.job.outputs))
    if output.sink is None or not output.sink.path:
        raise InvalidInput(f"forget: sink `{name}` has no folder, so it has no columns to look at")
    return output.sink, place_of(context, output)


def without_keys(
    context: Context, head: Commit, name: str, columns: Sequence[str], keys: Keys, to: Writing
) -> Republished:
    """Write the output files of all versions again that the sink shows with rows of the keys. A dry run only looks."""
    made = Republished()
    sink, place = sink_of(context, name)
    for record in records(context, head, name):
        if record.uri != sink.uri:
            made.missing += [f"{record.uri}/{file.name}" for file in record.files]
            continue
        files: list[tuple[PublishedFile, Content]] = []
        is_ours = False
        for file in record.files:
            public = parsed(file.name)
            if public is not None and not public.is_ours(place.identity):
                made.missing.append(f"{sink.uri}/{file.name}, which the repository published of which this is a copy")
                continue
            data = sink.fetch(place, file.name)
            if data is None:
                made.missing.append(f"{sink.uri}/{file.name}")
                continue
            _refuse_altered(file, data, f"{sink.uri}/{file.name}")
            left = _filtered(context, record, file, data, columns, keys)
            if left is not None:
                is_ours = True
                made.rewritten.append(f"{sink.uri}/{file.name}")
            files.append((file, Content(data, file.rows) if left is None else left))
        if is_ours:
            made.records.append(record.version)
            if not to.dry_run:
                stored = list(_stored(context, name, files, to, len(made.adds)))
                made.adds += [AddedOutput(MAIN, record.version, stored)] if stored else []
    return made


def _refuse_altered(file: PublishedFile, data: bytes, uri: str) -> None:
    if (found := digest(data)) != file.checksum:
        raise CorruptState(
            f"forget: read `{uri}`: found checksum {found}, but {file.checksum} was published",
            hint="restore the file, or move it away and remove the key from it yourself",
        )


def records(context: Context, head: Commit, name: str) -> Iterator[Published]:
    """Yield the published records of a sink whose files it shows, oldest first."""
    prefix = names.published(MAIN, name)
    for entry in context.store.list(prefix):
        number = names.number_in(prefix, entry.name)
        if number is not None and number <= head.version and is_shown(head, number, name):
            record = read_record(context, VersionOf(MAIN, number), name)
            if record is not None and record.files:
                yield record


def key_columns(table: pa.Table, columns: Sequence[str], keys: Keys, where: str) -> pa.Table:
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


def rows_of(context: Context, record: Published, file: PublishedFile, data: bytes) -> pa.Table:
    """Return the rows of a published file, with its partition columns."""
    commit = context.log.commit(record.version)
    schema = pa.schema([*to_arrow(commit.sinks[record.sink]["schema"]), *added_fields()])
    suffix, _, _ = file.name.rpartition("/")
    return reader(_extension(file.name), file.name).decode([(data, f"{suffix}/" if suffix else "")], schema)


def _filtered(
    context: Context, record: Published, file: PublishedFile, data: bytes, columns: Sequence[str], keys: Keys
) -> Content | None:
    """Return the content of a file without the keys, or None if it has none of them."""
    table = rows_of(context, record, file, data)
    is_ours = keys.among(key_columns(table, columns, keys, f"sink `{record.sink}`"))
    if not any(is_ours.to_pylist()):
        return None
    left = table.filter(pc.invert(is_ours))
    left = left.drop_columns(list(folder_values(file.name.rpartition("/")[0])))
    encoded = reader(_extension(file.name), file.name).encode(left) if left.num_rows else []
    return Content(encoded[0].data if encoded else b"", left.num_rows)


def _stored(
    context: Context, name: str, files: Sequence[tuple[PublishedFile, Content]], to: Writing, index: int
) -> Iterator[OutputFile]:
    """Store the files of a record in the repository, without those that have no row left."""
    for part, (file, content) in enumerate(one for one in files if one[1].rows):
        suffix, _, _ = file.name.rpartition("/")
        extension = _extension(file.name)
        path = to.name(names.output(name, context.branch, to.stem(index), 0, part, extension))
        etag = context.store.put(path, content.data) or ""
        yield OutputFile(
            name=path,
            checksum=digest(content.data),
            size=len(content.data),
            rows=content.rows,
            pass_number=0,
            lo=0,
            part=part,
            suffix=f"{suffix}/" if suffix else "",
            extension=extension,
            etag=etag,
        )


def _extension(name: str) -> str:
    return f".{name.rpartition('/')[2].rpartition('.')[2]}"


def added_fields() -> list[pa.Field]:
    """Return the columns that Tidemill adds to the rows of sinks."""
    return [pa.field(name, pa.int64()) for name in names.ADDED]
