"""Canonical Arrow types: which there are, and which one every other type becomes (`normalise`).

Canonical are boolean, int8–int64, float32/64, decimal128, string, binary, date32, timestamp[us] with zone UTC or
none, list, map and struct of these. Also checks of names and of nesting. Nothing here reads data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

_CANONICAL = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), TIMESTAMP, TIMESTAMP_NTZ,
}  # fmt: skip
_WIDENED = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(), pa.date64(): pa.date32(),
}  # fmt: skip

_DEEPEST = 20
"""How deep types may be nested. The engine has the same limit and explains it."""


def normalise(schema: pa.Schema) -> pa.Schema:
    """Return the schema in canonical types: `large_string` → `string`, `timestamp[ns]` → `[us]`, and so on.

    Raises `InvalidInput` for a column whose type has no counterpart or is nested too deep. Metadata is dropped.
    """
    check_depth(schema)
    return pa.schema([pa.field(f.name, _canonical(f.type, f.name), f.nullable) for f in schema])


def check_depth(fields: Iterable[pa.Field]) -> None:
    """Raise `InvalidInput` if types are nested more than 20 deep, because all other code is recursive."""
    left = [(field.type, 1) for field in fields]
    while left:
        kind, level = left.pop()
        if level > _DEEPEST:
            raise InvalidInput(
                f"types are nested more than {_DEEPEST} deep", hint="store deeper levels as a string or binary column"
            )
        left += [(inner, level + 1) for inner in _within(kind)]


def _within(kind: pa.DataType) -> list[pa.DataType]:
    if pt.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return [kind.value_type]
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    return [kind.field(place).type for place in range(kind.num_fields)]


def check_column_names(names: Sequence[str], where: str) -> None:
    """Raise `InvalidInput` if two columns have the same name. As in Spark and SQL, names are case-insensitive."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            other = seen[name.lower()]
            differs = "" if other == name else f" (also as `{other}`; column names are case-insensitive)"
            raise InvalidInput(f"{where} has column `{name}` twice{differs}")
        seen[name.lower()] = name


def has_within(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or a type nested in it, is `wanted`."""
    return wanted(kind) or any(has_within(kind.field(place).type, wanted) for place in range(kind.num_fields))


def in_backticks(names: Iterable[str]) -> str:
    """Return names for a message: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names) or "no columns"


def _canonical(kind: pa.DataType, column: str) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):  # first, because a user's extension type may not be hashable
        return _canonical(kind.storage_type, column)
    if kind in _CANONICAL:
        return kind
    if kind in _WIDENED:
        return _WIDENED[kind]
    if pt.is_timestamp(kind):
        return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    if pt.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_fixed_size_binary(kind) and not pt.is_decimal(kind):
        return pa.binary()
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _canonical(kind.value_type, column)
    return _canonical_nested(kind, column)


def _canonical_nested(kind: pa.DataType, column: str) -> pa.DataType:
    if pt.is_struct(kind):
        check_column_names([field.name for field in kind], f"struct column `{column}`")
        return pa.struct([pa.field(f.name, _canonical(f.type, f"{column}.{f.name}"), f.nullable) for f in kind])
    if pt.is_map(kind):
        return pa.map_(_canonical(kind.key_type, f"{column}.key"), _canonical(kind.item_type, f"{column}.value"))
    if (
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    ):
        return pa.list_(_canonical(kind.value_type, f"{column}.element"))
    raise InvalidInput(
        f"column `{column}` has type {kind}, which Tidemill does not support",
        hint="cast it first, for example to a string",
    )
