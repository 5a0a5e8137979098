"""Segments written by another writer, with only pyarrow, xxhash and docs/format.md ("Key hash", "Segment")."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from tests.unit.native.naive_keys import cell, naive_hash, part

FOOTER = b"tidemill.footer"
SPLIT = ("INT32", "INT64", "FLOAT", "DOUBLE")
SYSTEM = [
    pa.field("updated_at", pa.timestamp("ms", "UTC"), nullable=False),
    pa.field("deadline", pa.timestamp("ms", "UTC")),
    pa.field("deleted", pa.bool_(), nullable=False),
]


def canonical(value: Any, kind: pa.DataType) -> Any:
    """Return the canonical value of a key, which is the same for equal keys."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return math.nan if math.isnan(value) else value + 0.0
    if pa.types.is_struct(kind):
        return {field.name: canonical(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = [(canonical(key, kind.key_type), canonical(item, kind.item_type)) for key, item in value]
        return sorted(pairs, key=lambda pair: part(pair[0], kind.key_type))
    if pa.types.is_list(kind):
        return [canonical(item, kind.value_type) for item in value]
    return value


def ordered(rows: list[dict[str, Any]], key: pa.Schema, sub_key: pa.Schema) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows with canonical keys and their hashes, in the order of a segment."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        seed = 0
        for field in key:
            seed = naive_hash(row[field.name], field.type, seed)
        cells = [(row[field.name], field.type) for field in [*key, *sub_key]]
        return seed, *((value is not None, b"" if value is None else cell(value, kind)) for value, kind in cells)

    kinds = {field.name: field.type for field in [*key, *sub_key]}
    made = [row | {name: canonical(row[name], kind) for name, kind in kinds.items()} for row in rows]
    return [(place(row)[0], row) for row in sorted(made, key=place)]


def segment(
    rows: list[dict[str, Any]],
    key: pa.Schema,
    sub_key: pa.Schema,
    value: pa.Schema,
    dictionaries: Sequence[str] = (),
    forged: Callable[[bytes], bytes] = lambda data: data,
) -> bytes:
    """The segment of `rows`, which have `updated_at`, `deadline` and `deleted` too: one row group, or none.

    `dictionaries`: the columns that have one. `forged`: what is done to the bytes, whose number stays, before the
    checksums are made.
    """
    placed = ordered(rows, key, sub_key)
    schema = pa.schema([*key, *sub_key, *value, *SYSTEM])
    table = pa.Table.from_pylist([row for _, row in placed], schema)
    bare = pq.ParquetFile(
        _written(table, {}, dictionaries)
    )  # where the row group ends does not hang on what the footer says
    group, data = "", b""
    for _ in range(2):
        data = forged(_written(table, metadata(key, sub_key, group), dictionaries).getvalue())
        if placed:
            chunks = [bare.metadata.row_group(0).column(number) for number in range(bare.metadata.num_columns)]
            end = 4 + sum(chunk.total_compressed_size for chunk in chunks)
            hashes = f"{placed[0][0]:016x} {placed[-1][0]:016x}"
            group = f"{len(placed)} {end - 4} {hashes} {xxhash.xxh3_64_intdigest(data[4:end]):016x}"
    return sealed(data, end if placed else 4)


def metadata(key: pa.Schema, sub_key: pa.Schema, groups: str) -> dict[str, str]:
    return {
        "tidemill.format": "1",
        "tidemill.key_columns": str(len(key)),
        "tidemill.sub_key_columns": str(len(sub_key)),
        "tidemill.row_groups": groups,
        FOOTER.decode(): "0" * 16,
    }


def sealed(data: bytes, end: int) -> bytes:
    """`data`, whose row groups end at `end`, with the checksum of its footer, which are sixteen zeros before."""
    place = data.index(b"0" * 16, data.rindex(FOOTER))
    sum_ = f"{xxhash.xxh3_64_intdigest(data[end:]):016x}".encode()
    return data[:place] + sum_ + data[place + 16 :]


def _written(table: pa.Table, entries: dict[str, str], dictionaries: Sequence[str]) -> io.BytesIO:
    leaves = pq.ParquetFile(_plain(table.schema)).schema
    split = [leaves.column(number) for number in range(len(leaves))]
    out = io.BytesIO()
    writer = pq.ParquetWriter(
        out, table.schema, compression="zstd", compression_level=1, use_dictionary=list(dictionaries),
        write_statistics=False,
        column_encoding={
            leaf.path: "BYTE_STREAM_SPLIT"
            for leaf in split
            if leaf.physical_type in SPLIT and leaf.path not in dictionaries
        },
        store_schema=False,
    )  # fmt: skip
    with writer:
        if table.num_rows:
            writer.write_table(table)
        writer.add_key_value_metadata(entries)
    return io.BytesIO(out.getvalue())


def _plain(schema: pa.Schema) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(schema.empty_table(), out, store_schema=False)
    return io.BytesIO(out.getvalue())
