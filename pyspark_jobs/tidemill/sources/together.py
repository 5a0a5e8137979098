"""Small text files decoded together, because a query of DuckDB takes milliseconds even for a few rows.

INVARIANT: each file gets the rows that it gets when it is read alone. Where that is not certain, for example because a
record is invalid, the answer is None, and the caller reads each file alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from ..protocol.records import Split
from ..schema import one_batch
from ..store import Store, side_by_side
from .contract import ROW, Block
from .delimited import CsvOptions, Decoded, after_header, sequence
from .file_bytes import Content, Unreadable
from .file_columns import FileColumns

SMALL_BYTES = 128 * 1024
"""Files of at most this size are decoded together."""
MOST_BYTES = 4 * 1024**2
MOST_FILES = 256
"""How many bytes and files are decoded together at most."""
BOM = b"\xef\xbb\xbf"
Read = Callable[[BinaryIO], Iterator[Decoded]]


@dataclass(frozen=True)
class Small:
    """A small file: its name in messages, its bytes, the columns of its blocks, and its fingerprint."""

    what: str
    data: bytes
    columns: FileColumns
    fingerprint: str | None


def json_records(given: bytes) -> bytes | None:
    """Return the lines of a file of JSON lines, the last with its line end; None for a second byte order mark."""
    data = given.removeprefix(BOM)
    return None if data.startswith(BOM) else _ended(data)


def csv_records(given: bytes, schema: pa.Schema, options: CsvOptions) -> bytes | None:
    """Return the records of a CSV file, each with a line end; None if a line may not be a record.

    Also None if a byte order mark follows, because DuckDB drops it only at the start of a last line without a line end.
    Raises `Unreadable` for another header.
    """
    data = given.removeprefix(BOM)
    if b"\r" in data or BOM in data or (options.quote and options.quote.encode() in data):
        return None
    return _ended(data[after_header(data, schema, options) :] if options.header and given else data)


def each(store: Store, load: Callable[[Split], Content], splits: Sequence[Split]) -> list[Content]:
    """Call `load` for each split, for several at once if they are objects of a remote store."""
    return side_by_side(store, [partial(load, split) for split in splits])


def blocks_together(files: Sequence[Small], block_rows: int, read: Read) -> list[list[Block]] | None:
    """Return the blocks of each file, given a reader of their records, or None if a line is not a row."""
    counts = [file.data.count(b"\n") for file in files]
    try:
        decoded = list(read(io.BytesIO(b"".join(file.data for file in files))))
    except Unreadable:
        return None
    tables = [part.rows for part in decoded if part.rows is not None]
    if any(part.rejects for part in decoded) or sum(table.num_rows for table in tables) != sum(counts):
        return None
    if max(counts) > block_rows:
        return None
    found, start = [], 0
    rows = pa.concat_tables(tables).combine_chunks() if tables else None
    for file, count in zip(files, counts, strict=True):
        found.append([] if rows is None or not count else [_block(file, rows.slice(start, count))])
        start += count
    return found


def _block(file: Small, rows: pa.Table) -> Block:
    place = rows.schema.get_field_index(ROW)
    numbered = rows.set_column(place, rows.schema.field(place), sequence(0, rows.num_rows))
    return Block(0, one_batch(file.columns.finish(numbered), file.what), None, file.fingerprint)


def _ended(data: bytes) -> bytes:
    return data if not data or data.endswith(b"\n") else data + b"\n"
