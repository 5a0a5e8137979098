"""Values in the form of the recordings: exact, and the same for Spark's rows and for Arrow's."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

CORRUPT = "_corrupt_record"


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: doubles and decimals as text, binary in hexadecimal digits."""
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return f"double {value!r}"
    if isinstance(value, Decimal):
        return f"decimal {value:f}"
    if isinstance(value, bytes | bytearray):
        return f"binary {bytes(value).hex()}"
    if isinstance(value, datetime):
        return str(value.replace(microsecond=0)) + (
            f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        )
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value]


def exact(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; dates are days and times are microseconds, at any depth."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in exact(chunk)]
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_struct(kind):
        children = [exact(child) for child in column.flatten()]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)]
        return _with_nulls(rows or [{}] * len(column), column)
    if pa.types.is_map(kind):
        pairs = list(map(list, zip(exact(column.keys), exact(column.items), strict=True)))
        return _with_nulls(_parts(pairs, column), column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _with_nulls(_parts(exact(column.values), column), column)
    if pa.types.is_string(kind):  # Spark's may have bytes that are not UTF-8
        texts = column.cast(pa.binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "backslashreplace") for text in texts]
    return [plain(value) for value in column.to_pylist()]


def _parts(values: list[Any], column: pa.Array) -> list[Any]:
    places = column.offsets.to_pylist()
    return [values[start:end] for start, end in pairwise(places)]


def _with_nulls(values: list[Any], column: pa.Array) -> list[Any]:
    return [value if is_valid else None for value, is_valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def shown(value: Any) -> str:
    """Return JSON in one line."""
    return json.dumps(value, ensure_ascii=False)
