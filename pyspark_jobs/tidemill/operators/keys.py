"""Sets of keys and look-ups by key over whole tables, with the engine's equality of keys.

−0.0 equals 0.0, NaN equals NaN, and null is a key of its own.
INVARIANT: two keys are equal here exactly if they are equal in a state map.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import pyarrow as pa

from .. import _native
from ..protocol.records import HASH_END
from ..schema import one_batch, shown_cells
from ..schema.kernels import pc

_Keys = TypeVar("_Keys", pa.Table, pa.RecordBatch)


class KeySet:
    """A set of distinct keys, in the order of (hash, key bytes)."""

    def __init__(self, keys: pa.Table) -> None:
        schema = _numbered(keys).schema
        self._map = _native.StateMap.open(
            _native.MapSchema("keys", schema, pa.schema([]), pa.schema([])), [], 0, HASH_END
        )
        batch = _numbered(one_batch(keys, "keys"))
        if batch.num_rows:
            self._map.put_many(batch, batch.select([]), 0)
        self.keys: pa.RecordBatch = self._map.scan().select(schema.names).rename_columns(keys.schema.names)

    def holds(self, keys: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each of `keys` whether it is in the set."""
        return self._map.get_many(_numbered(keys))[0]


class KeyValues:
    """A value for each of some distinct keys."""

    def __init__(self, keys: pa.RecordBatch, values: pa.Array) -> None:
        schema, numbered = pa.schema([pa.field("value", values.type)]), _numbered(keys)
        self._map = _native.StateMap.open(
            _native.MapSchema("values", numbered.schema, pa.schema([]), schema), [], 0, HASH_END
        )
        self._map.put_many(numbered, pa.record_batch([values], schema=schema), 0)

    def of(self, keys: pa.RecordBatch) -> pa.Array:
        """Return the value of each of `keys`, or null if it has none."""
        found, values = self._map.get_many(_numbered(keys))
        return pc.if_else(found, values.column(0), None)


def _numbered(keys: _Keys) -> _Keys:
    """Rename the columns to numbers, which cannot clash with the columns of a map."""
    return keys.rename_columns([str(place) for place in range(keys.num_columns)])


def repeated(keys: pa.Table) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield each key that occurs more than once, and how often."""
    rows = one_batch(keys, "keys")
    if pc.count_distinct(_native.key_hashes(rows)).as_py() == rows.num_rows:
        return
    distinct = KeySet(keys).keys
    number = KeyValues(distinct, pa.array(range(distinct.num_rows), pa.int64())).of(rows)
    counted = pa.table(pc.value_counts(number).flatten(), names=["number", "count"])
    for row in counted.filter(pc.greater(counted.column("count"), 1)).to_pylist():
        yield cells_of(distinct, row["number"]), row["count"]


def in_hash_order(rows: pa.Table, key: list[str]) -> pa.Table:
    """Sort the rows by (hash, key bytes). Rows with equal keys keep their order."""
    return rows.take(_native.key_order(one_batch(rows.select(key), "keys")))


def cells(key: Any, columns: pa.Schema) -> tuple[Any, ...]:
    """Return the cells of a key as a user writes it: a tuple for several columns, otherwise its only value.

    The only value of a struct column may be a tuple itself.
    """
    only_struct = len(columns) == 1 and pa.types.is_struct(columns.field(0).type)
    return key if isinstance(key, tuple) and not only_struct else (key,)


def cells_of(keys: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    """Return the cells of one key for a message. Arrow formats values that Python lacks, such as the year 10000."""
    return tuple(shown_cells(column.slice(row, 1))[0] for column in keys.columns)


def format_key(key: tuple[Any, ...]) -> str:
    """Format a key for a message."""
    return repr(key[0] if len(key) == 1 else key)
