"""Parquet: Rust reads row groups; columns are matched by name, and types are widened if no value can change.

Corruption in unused columns is not detected, because only the footer of such columns is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import pyarrow as pa

from .. import _native
from ..protocol.records import Split
from ..values import dataclass
from .columns_by_name import ColumnsByName
from .contract import ROW
from .numbers import consecutive
from .read_ahead import read_ahead
from .unreadable import Unreadable

_BATCH_ROWS = 131_072
BATCH_BYTES = 32 * 1024**2
"""Of rows that are so large that `_BATCH_ROWS` of them have more bytes, fewer are decoded at once."""


@dataclass(frozen=True)
class ParquetColumns:
    """The columns that a file must have, those of them that are read, and how they are matched."""

    schema: pa.Schema
    asked: pa.Schema
    by_name: ColumnsByName = field(default_factory=ColumnsByName)
    time_zone: str = "UTC"
    """Of times that Spark 2 wrote, because their files do not name a zone."""


def read_parquet(given: Any, columns: ParquetColumns, split: Split) -> Iterator[pa.Table]:
    """Yield the rows of a split of a Parquet file, with `_row`. Raises `Unreadable` if the file cannot be read.

    `given` is a path, bytes, or an object with ranged reads. Rows are read in batches as they are decoded.
    """
    file = _open(given, columns.time_zone)
    first, last = split.row_groups or (0, len(file.row_groups) - 1)
    row = split.first_row
    at_once = _rows_at_once(file, first, last)
    try:
        rows = file.rows(columns.schema, columns.asked, columns.by_name, first, max(first, last), at_once)
        decoded = iter(rows.next_batch, None)
        for batch in read_ahead(decoded) if _rows(file, first, last) > at_once else decoded:
            table = pa.Table.from_batches([batch])
            yield table.append_column(pa.field(ROW, pa.int64()), consecutive(row, batch.num_rows))
            row += batch.num_rows
    except _native.Unreadable as error:
        raise Unreadable(error.args[0], hint=error.args[2]) from error


def footer_rows(given: Any) -> int | None:
    """Return how many rows a Parquet file has by its footer, or None if that cannot be read."""
    try:
        return sum(rows for rows, _ in _open(given).row_groups)
    except Unreadable:
        return None


def _open(given: Any, time_zone: str = "UTC") -> _native.ParquetFile:
    try:
        return _native.ParquetFile(given, time_zone)
    except _native.Unreadable as error:
        raise Unreadable(error.args[0], hint=error.args[2]) from error


def _rows_at_once(file: _native.ParquetFile, first: int, last: int) -> int:
    """Return how many rows to decode at once, so that they have about `BATCH_BYTES` at most as far as is known."""
    groups = file.row_groups[first : last + 1]
    rows, size = sum(count for count, _ in groups), sum(bytes_ for _, bytes_ in groups)
    return max(1, min(_BATCH_ROWS, BATCH_BYTES * rows // size if size else _BATCH_ROWS))


def _rows(file: _native.ParquetFile, first: int, last: int) -> int:
    return sum(count for count, _ in file.row_groups[first : last + 1])


def row_group_ranges(given: Any, size: int, split_bytes: int) -> list[tuple[int, int, int]]:
    """Return (first group, last group, first row) of ranges of about `split_bytes` in a file of `size` bytes.

    None if the file is not valid Parquet: the error is raised when it is read.
    """
    try:
        groups = _native.ParquetFile(given).row_groups
    except _native.Unreadable:
        return []
    total = sum(bytes_ for _, bytes_ in groups) or 1
    ranges: list[tuple[int, int, int]] = []
    first, row, next_row, size_so_far = 0, 0, 0, 0.0
    for number, (rows, bytes_) in enumerate(groups):
        share = bytes_ / total * size
        if number > first and size_so_far + share > split_bytes:
            ranges.append((first, number - 1, row))
            first, row, size_so_far = number, next_row, 0.0
        size_so_far += share
        next_row += rows
    return [*ranges, (first, len(groups) - 1, row)] if groups else ranges
