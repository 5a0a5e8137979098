"""Parquet: pyarrow reads row groups; columns are matched by name, and types are widened if no value can change.

INVARIANT: with PERMISSIVE a split is read as a whole or not at all. A damaged split gives no rows and one reject, which
says how many rows are lost. With FAILFAST the batch fails, perhaps after some rows.
Corruption in unused columns is not detected, because only the footer of such columns is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from ..errors import InvalidInput
from ..protocol.records import Split
from ..schema import conform, has_within, listed, normalise, type_ddl
from .contract import ROW
from .decode import Decoded
from .numbers import sequence
from .read_ahead import read_ahead
from .rejects import FAILFAST
from .unreadable import Unreadable, is_damage

KEPT_BYTES = 128 * 1024**2
"""With PERMISSIVE, up to so many bytes of rows are kept until all are decoded. A larger split is read twice."""
_WIDTHS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_BATCH_ROWS = 131_072
BATCH_BYTES = 32 * 1024**2
"""Of rows that are so large that `_BATCH_ROWS` of them have more bytes, fewer are decoded at once."""
_BUFFER_BYTES = 1024**2
"""How much of each column of such rows is read at once. Otherwise a column of a row group is read whole."""


def read_parquet(
    file: IO[bytes],
    schema: pa.Schema,
    split: Split,
    mode: str,
    misfit: str | None = None,
    asked: pa.Schema | None = None,
) -> Iterator[Decoded]:
    """Yield the rows of a split of a Parquet file. Raises `Unreadable`, with PERMISSIVE before the first row.

    The file must have the columns of `schema`; those of `asked`, if given, are read. If the file does not fit, by its
    columns or for the reason `misfit`, only its first split reports that with PERMISSIVE; the others give no rows.
    """
    parquet = _open(file)
    misfit = misfit or _misfit(schema, parquet.schema_arrow)
    if misfit is not None:
        if mode != FAILFAST and split.row_groups is not None and split.row_groups[0] > 0:
            return
        raise Unreadable(f"{misfit}; {_lost_rows(parquet.metadata, None)}")
    columns = schema if asked is None else asked
    if _rows_at_once(parquet.metadata, _groups(parquet.metadata, split.row_groups), columns) < _BATCH_ROWS:
        parquet = pq.ParquetFile(file, metadata=parquet.metadata, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    if mode == FAILFAST:
        yield from _decode(parquet, columns, split)
        return
    kept = _decode_fully(_decode(parquet, columns, split))
    try:
        yield from _decode(parquet, columns, split) if kept is None else kept
    except Unreadable as end:
        # INVARIANT: after the first row is yielded, damage fails the batch. A reject would lose rows already counted.
        raise InvalidInput(
            f"read file `{split.path}` of source `{split.source}`: the file was valid when it was checked, but "
            f"is damaged now: {end.reason}",
            hint="run again; if it fails again, look for a process that writes this file, and check the disk",
        ) from end


def _open(file: IO[bytes]) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        if not is_damage(error):
            raise
        raise Unreadable(f"{_invalid_file(error)}; its number of rows is unknown") from error


def _decode(parquet: pq.ParquetFile, schema: pa.Schema, split: Split) -> Iterator[Decoded]:
    """Yield the rows of a split in batches as they are decoded. Raises `Unreadable` if one cannot be decoded."""
    what = f"read file `{split.path}` of source `{split.source}`"
    groups = _groups(parquet.metadata, split.row_groups)
    row = split.first_row
    at_once = _rows_at_once(parquet.metadata, groups, schema)
    decimals = [field.name for field in schema if has_within(field.type, pt.is_decimal)]
    try:
        decoded = parquet.iter_batches(at_once, row_groups=groups, columns=schema.names, use_threads=False)
        for batch in read_ahead(decoded) if _rows(parquet.metadata, groups) > at_once else decoded:
            rows = conform(pa.Table.from_batches([batch]), schema, what)
            for name in decimals:  # a value with more digits than its type would turn into another number
                rows.column(name).validate(full=True)
            yield Decoded(rows.append_column(pa.field(ROW, pa.int64()), sequence(row, batch.num_rows)))
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if not is_damage(error):
            raise
        raise Unreadable(f"{_invalid_file(error)}; {_lost_rows(parquet.metadata, split.row_groups)}") from error
    except InvalidInput as error:  # a value that its column's type cannot hold, such as a timestamp[ns] beyond 1 µs
        raise Unreadable(f"{error.message}; {_lost_rows(parquet.metadata, split.row_groups)}") from error


def _decode_fully(parts: Iterator[Decoded]) -> list[Decoded] | None:
    """Decode all of `parts` and return them, or None if they are larger than `KEPT_BYTES`."""
    kept: list[Decoded] = []
    size = 0
    for part in parts:
        size += 0 if part.rows is None else part.rows.nbytes
        kept.append(part)
        if size > KEPT_BYTES:
            kept.clear()
    return kept if size <= KEPT_BYTES else None


def _groups(footer: pq.FileMetaData, row_groups: tuple[int, int] | None) -> list[int]:
    first, last = row_groups or (0, footer.num_row_groups - 1)
    return list(range(first, last + 1))


def _rows_at_once(footer: pq.FileMetaData, groups: list[int], schema: pa.Schema) -> int:
    """Return how many rows to decode at once, so that they have about `BATCH_BYTES` at most as far as is known."""
    size = 0
    for group in map(footer.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            size += column.total_uncompressed_size if column.path_in_schema.partition(".")[0] in schema.names else 0
    rows = _rows(footer, groups)
    return max(1, min(_BATCH_ROWS, BATCH_BYTES * rows // size if size else _BATCH_ROWS))


def _rows(footer: pq.FileMetaData, groups: list[int]) -> int:
    return sum(footer.row_group(group).num_rows for group in groups)


def _lost_rows(footer: pq.FileMetaData, row_groups: tuple[int, int] | None) -> str:
    """Say how many rows are lost with a split, or with the whole file, by the counts in the footer."""
    count = _rows(footer, _groups(footer, row_groups))
    if row_groups is None:
        return "its only row could not be read" if count == 1 else f"none of its {count:,} rows could be read"
    return f"none of the {count:,} rows of row groups {row_groups[0]} to {row_groups[1]} could be read"


def _invalid_file(error: Exception) -> str:
    return f"not a valid Parquet file: {str(error).rstrip('.')}"


def row_group_ranges(file: IO[bytes], size: int, split_bytes: int) -> list[tuple[int, int, int]]:
    """Return (first group, last group, first row) of ranges of about `split_bytes` in a file of `size` bytes."""
    footer = pq.ParquetFile(file).metadata
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    total = sum(group.total_byte_size for group in groups) or 1
    ranges: list[tuple[int, int, int]] = []
    first, row, next_row, size_so_far = 0, 0, 0, 0.0
    for number, group in enumerate(groups):
        share = group.total_byte_size / total * size
        if number > first and size_so_far + share > split_bytes:
            ranges.append((first, number - 1, row))
            first, row, size_so_far = number, next_row, 0.0
        size_so_far += share
        next_row += group.num_rows
    return [*ranges, (first, len(groups) - 1, row)] if groups else ranges


def _misfit(expected: pa.Schema, found: pa.Schema) -> str | None:
    """Return why the columns `found` cannot be read as `expected`, or None if they can."""
    for field in expected:
        index = found.get_field_index(field.name)
        if index < 0:
            return f"column `{field.name}` is missing; found {listed(found.names)}"
        kind = found.field(index).type
        if not _fits(kind, field.type):
            return f"column `{field.name}` is {_shown(kind)}, expected {type_ddl(field.type)}"
    return None


def _shown(kind: pa.DataType) -> str:
    try:
        return type_ddl(normalise(pa.schema([pa.field("c", kind)])).field(0).type)
    except InvalidInput:
        return str(kind)


def _fits(kind: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether every value of `kind` fits `expected`: same canonical type, int → long, float → double, …"""
    try:
        found = normalise(pa.schema([pa.field("c", kind)])).field(0).type
    except InvalidInput:
        return False
    if pt.is_struct(found) and pt.is_struct(expected):
        return found.num_fields == expected.num_fields and all(
            a.name == b.name and _fits(a.type, b.type) for a, b in zip(found, expected, strict=True)
        )
    if pt.is_list(found) and pt.is_list(expected):
        return _fits(found.value_type, expected.value_type)
    if pt.is_map(found) and pt.is_map(expected):
        return _fits(found.key_type, expected.key_type) and _fits(found.item_type, expected.item_type)
    return bool(found == expected) or _widens(found, expected)


def _widens(found: pa.DataType, expected: pa.DataType) -> bool:
    if found in _WIDTHS and expected in _WIDTHS:
        return _WIDTHS[found] < _WIDTHS[expected]
    if found in _WIDTHS and pt.is_decimal(expected):
        return bool(expected.precision - expected.scale >= _WIDTHS[found])
    if found in _WIDTHS and expected == pa.float64():
        return _WIDTHS[found] < _WIDTHS[pa.int64()]
    if pt.is_decimal(found) and pt.is_decimal(expected):
        return bool(
            expected.scale >= found.scale and expected.precision - expected.scale >= found.precision - found.scale
        )
    return bool(found == pa.float32() and expected == pa.float64())
