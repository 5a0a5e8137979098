"""Arrow arrays of Python numbers and text, built without pandas.

`pa.array` and `pa.scalar` import pandas to recognise its values, if it is installed. That takes longer than a small
batch, in every process. INVARIANT: nothing here imports pandas.
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_MOST_BYTES = 2**31 - 1
"""The most text that an Arrow array with offsets of 32 bits holds."""


def int64_array(values: Sequence[int | None]) -> pa.Array:
    """Return an int64 array of `values`; None becomes null."""
    numbers = array.array("q", [0 if value is None else value for value in values])
    return pa.Array.from_buffers(pa.int64(), len(values), [_validity(values), pa.py_buffer(numbers)])


def int64_scalar(value: int) -> pa.Scalar:
    """Return `value` as an int64 scalar."""
    return int64_array([value])[0]


def string_array(values: Sequence[str | None]) -> pa.Array:
    """Return a string array of `values`; None becomes null."""
    return _text_array([None if value is None else value.encode() for value in values], pa.string())


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Return a binary array of `values`; None becomes null."""
    return _text_array(values, pa.binary())


def records_batch(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return dicts as a record batch of `schema`, whose columns are all int64 or string; a missing key is null."""
    columns = []
    for field in schema:
        make = int64_array if field.type == pa.int64() else string_array
        columns.append(make([record.get(field.name) for record in records]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table of `schema` without rows."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch of `schema` without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _text_array(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    texts = [b"" if value is None else value for value in values]
    ends = list(itertools.accumulate(map(len, texts), initial=0))
    if ends[-1] > _MOST_BYTES:  # `pa.array` cuts such text into chunks
        return pa.array(values, kind)
    data = [_validity(values), pa.py_buffer(array.array("i", ends)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(kind, len(values), data)


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, or None if no value is None."""
    if None not in values:
        return None
    bits = bytearray(-(-len(values) // 8))
    for number, value in enumerate(values):
        bits[number // 8] |= (value is not None) << number % 8
    return pa.py_buffer(bytes(bits))


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of a table as one array."""
    if isinstance(column, pa.Array):
        return column
    chunks = column.combine_chunks()
    return chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks or [pa.nulls(0, column.type)])
