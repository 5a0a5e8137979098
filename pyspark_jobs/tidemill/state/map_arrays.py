"""Whole arrays that users give to a `tm.StateMap`: from pyarrow, or from whatever exports Arrow data.

INVARIANT: nothing of it reaches the engine unchecked, because the engine believes buffers.
"""

from __future__ import annotations

from contextlib import suppress
from operator import index
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, repr_of
from ..schema import checked, conform, normalise, one_batch


def rows_in(columns: Any, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """What a user gives as `what` (keys, states), in the columns of `schema`; not copied where it has these types.

    `InvalidInput` for what is no Arrow data, has other columns, or is broken.
    """
    columns = _from_others(columns, what)
    if isinstance(columns, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        columns = checked(columns, f"StateMap: {what}")
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
        raise InvalidInput(f"StateMap: expected {what} of ({listed(expected)}), found ({listed(found)})")
    return one_batch(columns, f"StateMap: {what}")


_DEEPEST = 50
"""More than any type that a state map takes."""
_TIMES_IN_MS = (pa.timestamp("ms"), pa.timestamp("ms", "UTC"))


def deadlines_in(deadlines: Any) -> pa.Array:
    """Deadlines as int64: an array, or anything that is one row by row; `InvalidInput` for what is no whole ms."""
    try:
        deadlines = _deadlines(deadlines)
        kind = deadlines.type
        inexact = pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
        if inexact or (pa.types.is_temporal(kind) and kind not in _TIMES_IN_MS):
            raise InvalidInput(f"StateMap.put_many: deadlines_ms are {kind}, expected whole ms since the epoch")
        return checked(pa.array(deadlines, pa.int64()), "StateMap.put_many: deadlines_ms")
    except InvalidInput:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"StateMap.put_many: deadlines_ms are no whole ms since the epoch: {error}") from error


def _deadlines(given: Any) -> pa.Array:
    # INVARIANT: pyarrow sees no object but numbers: it follows a list into itself, and code of the user's that it calls
    # may take a list away under it. Either ends the process.
    if str(getattr(given, "dtype", None)) != "object":
        given = _from_others(given, "deadlines_ms")
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, pa.Array):
            return given
        if hasattr(given, "dtype"):  # numbers of NumPy and its like
            return pa.array(given)
    return pa.array([_deadline(number, cell) for number, cell in enumerate(given)], pa.int64())


def _deadline(number: int, cell: Any) -> int | None:
    if cell is None:
        return None
    if not isinstance(cell, bool):
        with suppress(TypeError):
            return index(cell)
    raise InvalidInput(
        f"StateMap.put_many: deadlines_ms are no whole ms: number {number} is {repr_of(cell)}, expected whole ms since "
        "the epoch or None"
    )


def listed(schema: pa.Schema) -> str:
    """Names and types of columns, for a message."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _check_objects(columns: Any, what: str) -> None:
    """`InvalidInput` where objects of pandas lie too deep within each other: pyarrow follows a list into itself."""
    for _, column in columns.items() if hasattr(columns, "columns") else [("", columns)]:
        if str(getattr(column, "dtype", None)) == "object" and any(_is_deeper(cell, _DEEPEST) for cell in column):
            raise InvalidInput(f"StateMap: {what} have a cell with more than {_DEEPEST} lists or dicts in each other")


def _is_deeper(cell: Any, levels: int) -> bool:
    if not (isinstance(cell, list | tuple | dict) or str(getattr(cell, "dtype", None)) == "object"):
        return False
    within = cell.values() if isinstance(cell, dict) else cell
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in within)


def _from_others(columns: Any, what: str) -> Any:
    """A pyarrow object for what others export by the PyCapsule interface."""
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
    for way in ways:  # what is no table is an array
        try:
            return way(columns)
        except Exception as error:  # noqa: BLE001 - whatever the producer raises
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
