"""Requeued rows as objects of the repository: how they are written, and how a batch reads them.

An object has the rows of one source in the struct column `row`, and beside it where each row was quarantined.
INVARIANT: an object is read with the checksum that its commit names, so its rows are those that were given.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa

from ..errors import CorruptState, InvalidInput
from ..protocol.records import Split, digest
from ..schema import conform, int64_array, one_batch, string_array
from ..schema.kernels import pq
from ..store import ObjectMissing, Store
from .contract import METADATA, METADATA_TYPE, ROW, Block, ReadContext
from .numbers import consecutive

_ROWS = "row"
PLACES = pa.schema(
    [
        pa.field("version", pa.int64()),
        pa.field("id", pa.int64()),
        pa.field("file", pa.string()),
    ]
)
"""Of each row: the version that quarantined it, its number there, and the file that it was read from."""


def encode_requeued(rows: pa.Table, places: pa.Table) -> bytes:
    """Return an object with rows of a source and their places."""
    fields = [field.with_nullable(True) for field in rows.schema]
    columns = [column.combine_chunks() for column in rows.columns]
    table = pa.table(
        [pa.StructArray.from_arrays(columns, fields=fields), *places.columns], names=[_ROWS, *PLACES.names]
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def fetch_requeued(store: Store, name: str, checksum: str) -> pa.Table:
    """Return an object's columns. `CorruptState` if it is missing or differs from what its commit names."""
    try:
        data = store.get(name)
    except ObjectMissing as error:
        raise CorruptState(
            f"read the requeued rows `{name}`: the object is missing", hint="restore the object from a backup"
        ) from error
    if digest(data) != checksum:
        raise CorruptState(
            f"read the requeued rows `{name}`: found checksum {digest(data)}, expected {checksum}",
            hint="restore the object from a backup",
        )
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def rows_as(found: pa.Table | pa.StructArray, schema: pa.Schema, what: str) -> pa.Table:
    """Return whole rows in the columns that a source has now. A new column is null, one that is gone is left out.

    `InvalidInput` if a value does not fit its column.
    """
    content = found.column(_ROWS).combine_chunks() if isinstance(found, pa.Table) else found
    names = [content.type.field(place).name for place in range(content.type.num_fields)]
    columns = dict(zip(names, content.flatten(), strict=True))
    given = [columns.get(field.name, pa.nulls(len(content), field.type)) for field in schema]
    return conform(pa.Table.from_arrays(given, names=schema.names), schema, what)


def read_requeued(
    store: Store, schema: pa.Schema | None, place: str | None, split: Split, block_rows: int, context: ReadContext
) -> Iterator[Block]:
    """Yield requeued rows in blocks of exactly `block_rows` rows, except the last, in the columns of `schema`.

    Without `schema`, nothing in this code takes them, and they have the columns that they were stored with.
    """
    if split.requeued is None:
        raise InvalidInput(f"read `{split.path}`: it has no requeued rows")
    table = fetch_requeued(store, split.requeued.name, split.requeued.checksum)
    numbers = consecutive(0, table.num_rows)
    if split.requeued.without:
        without = frozenset(split.requeued.without)
        numbers = int64_array([row for row in range(table.num_rows) if row not in without])
        table = table.take(numbers)
    what = f"requeued rows of source `{split.source}`, from version {split.requeued.version}"
    content = table.column(_ROWS).combine_chunks()
    rows = rows_as(content, pa.schema(list(content.type)) if schema is None else schema, what)
    if context.metadata:
        rows = rows.append_column(METADATA, _metadata(place, table.column("file").to_pylist()))
    rows = rows.append_column(ROW, numbers)  # in the object, so that its places are found
    for number, start in enumerate(range(0, rows.num_rows, block_rows)):
        yield Block(number, one_batch(rows.slice(start, block_rows), what))


def _metadata(place: str | None, files: list[str | None]) -> pa.Array:
    """Return `_metadata` of the files that the rows were first read from. Their sizes and times are not known."""
    paths = [None if file is None else f"{(place or '').rstrip('/')}/{file}" for file in files]
    names = [None if file is None else file.rpartition("/")[2] for file in files]
    sizes, times = (pa.nulls(len(files), METADATA_TYPE.field(place).type) for place in (2, 3))
    return pa.StructArray.from_arrays(
        [string_array(paths), string_array(names), sizes, times], fields=list(METADATA_TYPE)
    )
