"""Arrays that users pass to a `tm.StateMap`, from pyarrow or any other library that exports Arrow data.

INVARIANT: all of them are checked before they reach the engine, because the engine trusts buffers.
"""

from __future__ import annotations

from contextlib import suppress
from operator import index
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, repr_of
from ..schema import checked_buffers, conform, normalise, one_batch


def rows_in(columns: Any, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Return the user's `columns` as a batch with the columns of `schema`. Data that has these types is not copied.

    `what` names the argument in messages (`keys`). `InvalidInput` if it is not Arrow data, has different columns, or is
    invalid.
    """
    columns = _from_others(columns, what)
    if isinstance(columns, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        columns = checked_buffers(columns, f"StateMap: {what}")
    if isinstance(columns, pa.Array | pa.ChunkedArray) and len(schema) == 1:
        columns = pa.table([columns], names=schema.names)
    if isinstance(columns, pa.RecordBatch):
        columns = pa.Table.from_batches([columns])
    if not isinstance(columns, pa.Table):
        raise InvalidInput(f"StateMap: expected {what} as Arrow data, found {type(columns).__name__}")
    found, expected = columns.schema.remove_metadata(), schema.remove_metadata()
    if found.types != expected.types and found.names == expected.names and _types(found) == expected.types:
        wanted = pa.schema([field.with_nullable(True) for field in expected])
        columns = conform(columns, wanted, f"StateMap: {what}")
        found = columns.schema
    if found.names != expected.names or found.types != expected.types:
        raise InvalidInput(f"StateMap: expected {what} of ({typed_columns(expected)}), found ({typed_columns(found)})")
    return one_batch(columns, f"StateMap: {what}")


_DEEPEST = 50
"""More levels of nesting than any type of a state map can have."""
_TIMES_IN_MS = (pa.timestamp("ms"), pa.timestamp("ms", "UTC"))


def deadlines_in(deadlines: Any) -> pa.Array:
    """Return deadlines as an int64 array, from an array or an iterable. `InvalidInput` unless all are whole ms."""
    try:
        deadlines = _deadlines(deadlines)
        kind = deadlines.type
        inexact = pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
        if inexact or (pa.types.is_temporal(kind) and kind not in _TIMES_IN_MS):
            raise InvalidInput(f"StateMap.put_many: deadlines_ms must be whole ms since the epoch, found {kind}")
        return checked_buffers(pa.array(deadlines, pa.int64()), "StateMap.put_many: deadlines_ms")
    except InvalidInput:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"StateMap.put_many: deadlines_ms must be whole ms since the epoch: {error}") from error


def _deadlines(given: Any) -> pa.Array:
    # INVARIANT: pyarrow gets only numbers, never other Python objects. It would follow a list that contains itself
    # forever, and the user's code that it calls may change a list while pyarrow reads it. Either crashes the process.
    if str(getattr(given, "dtype", None)) != "object":
        given = _from_others(given, "deadlines_ms")
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, pa.Array):
            return given
        if hasattr(given, "dtype"):  # an array of NumPy or a similar library
            return pa.array(given)
    return pa.array([_deadline(number, cell) for number, cell in enumerate(given)], pa.int64())


def _deadline(number: int, cell: Any) -> int | None:
    if cell is None:
        return None
    if not isinstance(cell, bool):
        with suppress(TypeError):
            return index(cell)
    raise InvalidInput(
        f"StateMap.put_many: deadlines_ms must be whole ms since the epoch or None, found {repr_of(cell)} at index "
        f"{number}"
    )


def typed_columns(schema: pa.Schema) -> str:
    """Return the names and types of columns, for a message."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _check_objects(columns: Any, what: str) -> None:
    """Raise `InvalidInput` for pandas objects that are nested too deeply.

    pyarrow would follow a list that contains itself until the process crashes.
    """
    for _, column in columns.items() if hasattr(columns, "columns") else [("", columns)]:
        if str(getattr(column, "dtype", None)) == "object" and any(_is_deeper(cell, _DEEPEST) for cell in column):
            raise InvalidInput(f"StateMap: {what} have a cell with more than {_DEEPEST} nested lists or dicts")


def _is_deeper(cell: Any, levels: int) -> bool:
    if not (isinstance(cell, list | tuple | dict) or str(getattr(cell, "dtype", None)) == "object"):
        return False
    within = cell.values() if isinstance(cell, dict) else cell
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in within)


def _from_others(columns: Any, what: str) -> Any:
    """Return a pyarrow object for data that another library exports by the PyCapsule interface."""
    if isinstance(columns, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        return columns
    if type(columns).__module__.partition(".")[0] == "pandas":
        _check_objects(columns, what)
    ways: tuple[Any, ...] = ()
    if hasattr(columns, "__arrow_c_stream__"):
        ways = (pa.table, pa.chunked_array)
    elif hasattr(columns, "__arrow_c_array__"):
        ways = (pa.record_batch, pa.array)
    refused: Exception | None = None
    for way in ways:  # a producer that cannot be a table may be an array
        try:
            return way(columns)
        except Exception as error:  # noqa: BLE001 - a producer may raise anything
            refused = error
    if refused is not None:
        why = str(refused).partition(". Detail: Python exception")[0]
        text = f"{type(columns).__name__} exports no Arrow data: {type(refused).__name__}: {why}"
        raise InvalidInput(f"StateMap: expected {what} as Arrow data, {text}") from refused
    return columns


def _types(found: pa.Schema) -> list[pa.DataType] | None:
    try:
        return list(normalise(found).types)
    except InvalidInput:
        return None
