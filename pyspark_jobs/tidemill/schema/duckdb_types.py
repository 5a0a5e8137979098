"""Canonical types and names in DuckDB's SQL. Text only."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InternalError
from .types import TIMESTAMP, TIMESTAMP_NTZ

_NAMES = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMPTZ", TIMESTAMP_NTZ: "TIMESTAMP",
}  # fmt: skip


def to_duckdb(kind: pa.DataType) -> str:
    """Return a canonical type in DuckDB's SQL: `STRUCT("x" DOUBLE)[]`."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pt.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pt.is_list(kind):
        return f"{to_duckdb(kind.value_type)}[]"
    if pt.is_map(kind):
        return f"MAP({to_duckdb(kind.key_type)}, {to_duckdb(kind.item_type)})"
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {to_duckdb(field.type)}' for field in kind)})"
    raise InternalError(f"type {kind} is not canonical and has no DuckDB name")


def quoted(name: str) -> str:
    """Return `name` as an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return `text` as a string in SQL."""
    return "'" + text.replace("'", "''") + "'"
