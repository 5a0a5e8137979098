"""Rows as JSON lines and back, in Spark's form and exact in every digit. DuckDB does the conversion.

Nulls are omitted, also in structs. NaN and infinities are strings. Times are ISO 8601 in UTC with three digits of a
second, or six if needed. Decimals keep their scale, binary is base64, and keys of maps are strings.
INVARIANT: `rows_from_json` of `rows_to_json` returns equal rows.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from .. import _native
from ..errors import CorruptState, InvalidInput
from ..schema import empty_table, literal, quoted, type_ddl
from ..sources import connections
from ..sources.contract import BLOCK_BYTES
from ..sources.text import MOST_ROWS, opener
from ..sources.text_format import JsonFormat, TextLimits
from .far_times import times_from_text, with_text

_LINE_END = "chr(10)"


def check_map_keys(kind: pa.DataType, column: str) -> None:
    """Raise `InvalidInput` if a map has keys that cannot be names in JSON."""
    if pt.is_map(kind):
        if pt.is_nested(kind.key_type) or pt.is_binary(kind.key_type):
            raise InvalidInput(
                f"column `{column}` is {type_ddl(kind)}: JSON cannot hold such keys, expected strings, numbers or times"
            )
        check_map_keys(kind.item_type, column)
    elif pt.is_struct(kind):
        for field in kind:
            check_map_keys(field.type, f"{column}.{field.name}")
    elif pt.is_list(kind):
        check_map_keys(kind.value_type, column)


def rows_to_json(rows: pa.Table) -> bytes:
    """Return the rows as JSON, one line a row."""
    if rows.num_rows == 0:
        return b""
    line = f"{_object([(field.name, quoted(field.name), field.type) for field in rows.schema], 0)} || {_LINE_END}"
    made = connections.query(connections.for_files(), f"SELECT {line} AS line FROM given", given=rows).column(0)
    return b"".join(_characters(chunk) for chunk in made.chunks)


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python objects, or all as in JSON if a time is outside of Python's years 1 to 9999."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [json.loads(line).get("value") for line in rows_to_json(pa.table({"value": column})).splitlines()]


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts of Python objects, where `python_values` gives the values."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_from_json(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of lines that `rows_to_json` wrote, in the columns of `schema`."""
    try:
        return _read(data, schema)
    except CorruptState:
        textual = pa.schema([field.with_type(with_text(field.type)) for field in schema])
        found = None if textual == schema else times_from_text(_read(data, textual), schema)
        if found is None:
            raise
        return found


def _read(data: bytes, schema: pa.Schema) -> pa.Table:
    files = opener(schema, JsonFormat(), TextLimits(MOST_ROWS, BLOCK_BYTES), "UTC")
    tables = [empty_table(schema)]
    try:
        reader = files.open(data)
        while (found := reader.next_block()) is not None:
            rows, rejects = found
            if rejects:
                raise CorruptState(f"read a JSON file that a commit names: {rejects[0][2]}")
            columns = rows.columns[: len(schema)]  # by position: a column may be named `_row`
            tables.append(pa.Table.from_arrays(columns, schema=schema))
    except _native.Unreadable as error:
        raise CorruptState(f"read a JSON file that a commit names: {error.args[0]}") from error
    return pa.concat_tables(tables)


def _characters(lines: pa.StringArray) -> bytes:
    """Return all strings of an array, concatenated, straight from its buffer."""
    offsets = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, lines.buffers()[1]], offset=lines.offset)
    data: bytes = lines.buffers()[2].to_pybytes()
    return data[offsets[0].as_py() : offsets[len(lines)].as_py()]


def _object(fields: list[tuple[str, str, pa.DataType]], depth: int) -> str:
    """Return SQL for an object of (name, value, type), without null values."""
    parts = [f"{literal(_name(name) + ':')} || {_value(value, kind, depth)}" for name, value, kind in fields]
    return f"('{{' || concat_ws(',', {', '.join(parts)}) || '}}')" if parts else "'{}'"


@functools.lru_cache(4096)  # DuckDB takes more than a millisecond for each, in every batch
def _name(name: str) -> str:
    text: str = connections.for_files().execute("SELECT CAST(to_json(?::VARCHAR) AS VARCHAR)", [name]).fetchall()[0][0]
    return text


def _value(value: str, kind: pa.DataType, depth: int) -> str:
    """Return SQL for the expression `value` as JSON text, NULL if it is null."""
    if pt.is_struct(kind):
        members = [(field.name, f"struct_extract({value}, {literal(field.name)})", field.type) for field in kind]
        return f"CASE WHEN {value} IS NOT NULL THEN {_object(members, depth)} END"
    if pt.is_map(kind):
        entry = f"x{depth}"
        key = f"CAST(to_json({_text(f'{entry}.key', kind.key_type)}) AS VARCHAR)"
        item = _value(f"{entry}.value", kind.item_type, depth + 1)
        entries = f"list_transform(map_entries({value}), lambda {entry}: {key} || ':' || coalesce({item}, 'null'))"
        return f"CASE WHEN {value} IS NOT NULL THEN '{{' || {_joined(entries)} || '}}' END"
    if pt.is_list(kind):
        item = f"x{depth}"
        inner = f"coalesce({_value(item, kind.value_type, depth + 1)}, 'null')"
        items = f"list_transform({value}, lambda {item}: {inner})"
        return f"CASE WHEN {value} IS NOT NULL THEN '[' || {_joined(items)} || ']' END"
    if pt.is_string(kind):
        return f"CAST(to_json({value}) AS VARCHAR)"
    if pt.is_floating(kind):
        text = _text(value, kind)
        return f"CASE WHEN isfinite({value}) THEN {text} ELSE '\"' || {text} || '\"' END"
    if pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_decimal(kind):
        return _text(value, kind)
    return f"'\"' || {_text(value, kind)} || '\"'"


def _joined(items: str) -> str:
    return f"coalesce(array_to_string({items}, ','), '')"


def _text(value: str, kind: pa.DataType) -> str:
    """Return SQL for a value as text without quotes, as in a key of an object."""
    if pt.is_binary(kind):
        return f"to_base64({value})"
    if pt.is_floating(kind):
        infinite = f"WHEN isinf({value}) THEN CASE WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        return f"CASE WHEN isnan({value}) THEN 'NaN' {infinite} ELSE CAST({value} AS VARCHAR) END"
    if pt.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        local = f"({value} AT TIME ZONE 'UTC')" if zone else value
        micros = f"((epoch_us({value}) % 1000000 + 1000000) % 1000000)"
        digits = f"CASE WHEN {micros} % 1000 = 0 THEN lpad(CAST({micros} // 1000 AS VARCHAR), 3, '0') "
        digits += f"ELSE lpad(CAST({micros} AS VARCHAR), 6, '0') END"
        seconds = f"replace(CAST(date_trunc('second', {local}) AS VARCHAR), ' ', 'T')"
        return f"({seconds} || '.' || {digits} || '{zone}')"
    return f"CAST({value} AS VARCHAR)"
