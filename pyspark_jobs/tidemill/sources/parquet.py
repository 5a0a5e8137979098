"""Parquet: row groups by pyarrow, columns by name, types checked and widened where nothing can be lost.

INVARIANT: a file is read whole or not at all: one that does not fit the schema is one reject.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from ..errors import InvalidInput
from ..schema import normalise, type_ddl
from ..schema.arrow import conform, listed
from .ahead import ahead
from .contract import ROW
from .delimited import Decoded, sequence
from .stream import Unreadable

_WIDTHS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_BATCH_ROWS = 131_072


def read_parquet(
    file: IO[bytes], schema: pa.Schema, row_groups: tuple[int, int] | None, first_row: int, what: str
) -> Iterator[Decoded]:
    """The rows of a Parquet file, or of its row groups `first..last`; `Unreadable` where it does not fit `schema`."""
    try:
        parquet = pq.ParquetFile(file)
        misfit = _misfit(schema, parquet.schema_arrow)
        if misfit is not None:
            raise Unreadable(misfit)
        groups = None if row_groups is None else list(range(row_groups[0], row_groups[1] + 1))
        row = first_row
        decoded = parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=schema.names, use_threads=False)
        for batch in ahead(decoded) if parquet.metadata.num_rows > _BATCH_ROWS else decoded:
            rows = conform(pa.Table.from_batches([batch]), schema, what)
            yield Decoded(rows.append_column(pa.field(ROW, pa.int64()), sequence(row, batch.num_rows)))
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Unreadable(f"not a sound Parquet file: {error}") from error
    except InvalidInput as error:  # a value that its column's type cannot hold, such as a timestamp[ns] beyond 1 µs
        raise Unreadable(error.message) from error


def row_group_ranges(file: IO[bytes], size: int, split_bytes: int) -> list[tuple[int, int, int]]:
    """(first, last, first row) of ranges of row groups of about `split_bytes` of a file of `size` bytes."""
    footer = pq.ParquetFile(file).metadata
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    total = sum(group.total_byte_size for group in groups) or 1
    ranges: list[tuple[int, int, int]] = []
    first, row, next_row, taken = 0, 0, 0, 0.0
    for number, group in enumerate(groups):
        share = group.total_byte_size / total * size
        if number > first and taken + share > split_bytes:
            ranges.append((first, number - 1, row))
            first, row, taken = number, next_row, 0.0
        taken += share
        next_row += group.num_rows
    return [*ranges, (first, len(groups) - 1, row)] if groups else ranges


def _misfit(expected: pa.Schema, found: pa.Schema) -> str | None:
    """Why columns of `found` cannot be read as `expected`; None: they can."""
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
    """The same type once canonical, or one whose values all fit: int → long, float → double, int → decimal, …"""
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
