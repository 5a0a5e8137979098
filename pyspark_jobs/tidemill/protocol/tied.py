"""Which types of columns state is tied to, because a value of another type would be another value.

Pure. State has values of input columns in three ways: it keeps them (keys, and aggregates such as `min`), has their
hashes (sketches), or adds them up. Kept values show their type in the columns of the state. The types of hashed and
added ones are recorded as `inputs`. INVARIANT: after an accepted change, state is what a fresh start over the same rows
with the new type would make.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from ..schema import FieldChange, field_changes, to_arrow, type_ddl

HASHED = ("approx_count_distinct",)
"""Aggregates whose state has hashes of values."""
_ADDED = ("sum", "mean", "var", "stddev")
"""Aggregates whose state has numbers made of all values."""
_LONG_DIGITS = 18
"""Decimals with more digits are hashed in another way. See `aggregate/distinct/hash.rs`."""
_ROUNDED = "float"
"""The only type of number of which a sum depends on the type: what is not a float is added exactly, or as a double."""


def is_recorded(function: str) -> bool:
    """Whether the type of the column of an aggregate is recorded, because its state does not show it."""
    return function in HASHED or function in _ADDED


def is_in_doubt(function: str, now: str) -> bool:
    """Whether the column of an aggregate may have had another type, if it was not recorded and the state fits.

    A sum of integers is a bigint, and sums and means of decimals are decimals.

    >>> is_in_doubt("sum", "int"), is_in_doubt("sum", "double"), is_in_doubt("mean", "int")
    (False, True, True)
    """
    if function == "sum":
        return now in (_ROUNDED, "double")
    return function != "mean" or not now.startswith("decimal")


def fault(function: str, before: str, now: str) -> str | None:
    """Return why values of the type `now` do not fit an aggregate's state of values of the type `before`, or None.

    >>> fault("sum", "int", "bigint"), fault("approx_count_distinct", "tinyint", "int")
    (None, None)
    >>> fault("approx_count_distinct", "int", "bigint")
    'equal values of both types would count twice'
    """
    if before == now:
        return None
    if function in HASHED:
        return None if _hashed(before) == _hashed(now) else "equal values of both types would count twice"
    if function in _ADDED and _ROUNDED in (before, now):
        return "a float is rounded, so the result would be that of neither type"
    return None


def _hashed(text: str) -> str:
    """Return what types have in common whose equal values have equal hashes. The hashes are those of Spark.

    Narrow integers are hashed as int. A bigint and a decimal of at most 18 digits are hashed as their unscaled 8 bytes,
    longer decimals as their shortest bytes, text and binary as their bytes.
    """
    kind = to_arrow(f"value {text}").field(0).type
    if kind in (pa.int8(), pa.int16(), pa.int32()):
        return "4 bytes"
    if kind == pa.int64():
        return "8 bytes of scale 0"
    if pt.is_decimal128(kind):
        return f"{'8' if kind.precision <= _LONG_DIGITS else 'shortest'} bytes of scale {kind.scale}"
    return "bytes" if kind in (pa.string(), pa.binary()) else type_ddl(kind)


def kept_changes(before: pa.Schema, now: pa.Schema, *, grows: bool) -> list[FieldChange]:
    """Return the differences between columns that keep values of input columns, as keys or in aggregates.

    Values must stay equal to those that are read later. So 0.1 as float does not become a double, and a struct gets no
    further field, because rows that differ only in that field were one value. With `grows`, columns of new aggregates
    are accepted.

    >>> a, b = (to_arrow(f"n struct<x: {x}>") for x in ("int", "bigint, y: int"))
    >>> [(change.path, change.is_accepted) for change in kept_changes(a, b, grows=True)]
    [('n.x', True), ('n.y', False)]
    """
    return field_changes(before, now, grows=grows, exact="everywhere")
