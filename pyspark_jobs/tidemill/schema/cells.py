"""Python values as a column, for tests and initial states, and cells of a column for display.

INVARIANT: a value that does not fit is an error that names the column and its type; nothing is rounded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from .ddl import type_ddl
from .kernels import pc
from .plain import binary_array, int64_array, string_array

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = range(-(2**63), 2**63)


def array_of(values: Sequence[Any], field: pa.Field, zone: ZoneInfo, what: str) -> pa.Array:
    """Return `values` as a column with the type of `field`. Datetimes and text without an offset are in `zone`.

    Text is read as in a file: by Spark's forms of ISO, cut at microseconds. Raises `InvalidInput` for a value that does
    not fit; `what` names the values.
    """
    try:
        # Copy lists first, because a user's `tzinfo` could change a list while pyarrow converts it.
        values = [_own(value) for value in values]
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            return _times(values, field.type, zone)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type_ddl(field.type)
        raise InvalidInput(f"{what}: column `{field.name}` is {kind}: {error}") from error


def _times(values: Sequence[Any], kind: pa.DataType, zone: ZoneInfo) -> pa.Array:
    """Return dates or timestamps, of which some may be text."""
    texts = [value if isinstance(value, str) else None for value in values]
    others = pa.array([_fitting(value, kind, zone) for value in values], kind)
    if texts.count(None) == len(texts):
        return others
    read, misfits = _native.values_of_texts(texts, pa.schema([pa.field("value", kind)]), None, str(zone))
    if misfits:
        raise ValueError(f"found {texts[misfits[0]]!r}")
    return pc.coalesce(others, read)


def _fitting(value: Any, kind: pa.DataType, zone: ZoneInfo) -> Any:
    """Return a value that is not text as one that Arrow converts exactly; None for text. Raises `ValueError`."""
    if isinstance(value, str):
        return None
    if not isinstance(value, datetime):
        return value
    if pa.types.is_date(kind):
        if value.timetz() != time():
            raise ValueError(f"found {value}, which has a time of day")
        return value.date()
    if kind.tz is None and value.tzinfo is not None:
        raise ValueError(f"found {value}, which has a time zone")
    return value.replace(tzinfo=zone) if kind.tz is not None and value.tzinfo is None else value


def cell_array(value: Any, kind: pa.DataType) -> pa.Array:
    """Return `value` as an array of one cell, as `pa.array([value], kind)` does.

    Text, bytes, numbers, booleans, dates and timestamps do not import pandas (see `plain`).
    """
    plain = _plain_cell(value, kind)
    return pa.array([value], kind) if plain is None else plain


def _plain_cell(value: Any, kind: pa.DataType) -> pa.Array | None:
    """Return `value` as an array of one cell without pandas, or None if this function does not support its type."""
    exact, types = type(value), pa.types
    if value is None:
        return pa.nulls(1, kind)
    if exact is str and types.is_string(kind):
        return string_array([value])
    if exact is bytes and types.is_binary(kind):
        return binary_array([value])
    if (exact is bool and types.is_boolean(kind)) or (exact is int and types.is_integer(kind) and value in _INT64):
        return int64_array([value]).cast(kind)
    if exact is float and types.is_floating(kind):
        return pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(struct.pack("=d", value))]).cast(kind)
    if exact is Decimal and types.is_decimal(kind):
        return string_array([str(value)]).cast(kind)
    if exact is date and types.is_date32(kind):
        return int64_array([value.toordinal() - _EPOCH.toordinal()]).cast(pa.int32()).cast(kind)
    if exact is datetime and types.is_timestamp(kind):
        time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int64_array([(time - _EPOCH) // timedelta(microseconds=1)]).cast(pa.timestamp("us")).cast(kind)
    return None


def _own(value: Any) -> Any:
    """Return `value` with lists, tuples and dicts copied at any depth."""
    if isinstance(value, list):
        return [_own(one) for one in value]
    if isinstance(value, dict):
        return {key: _own(one) for key, one in value.items()}
    return tuple(map(_own, value)) if type(value) is tuple else value


def shown_cells(column: pa.Array) -> list[Any]:
    """Return the cells of a column for display: Python values, or Arrow's text if Python has none (a year 10000)."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        pass
    try:
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException:
        return [f"a {column.type} that cannot be shown" if is_there else None for is_there in column.is_valid()]
