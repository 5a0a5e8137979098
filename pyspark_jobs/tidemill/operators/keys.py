"""Keys as the engine tells them apart: −0.0 is 0.0, NaN is NaN, null is a key of its own.

For what works on whole tables in Python. INVARIANT: two keys are one here exactly if they are one in a state map.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .. import _native

_END = 2**64 - 1


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """The rows as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


class KeySet:
    """Distinct keys, in the order of (hash, key bytes)."""

    def __init__(self, keys: pa.Table) -> None:
        self._map = _native.StateMap.open(
            _native.MapSchema("keys", keys.schema, pa.schema([]), pa.schema([])), [], 0, _END
        )
        batch = batch_of(keys)
        if batch.num_rows:
            self._map.put_many(batch, batch.select([]), 0)
        self.keys: pa.RecordBatch = self._map.scan().select(keys.schema.names)

    def holds(self, keys: pa.RecordBatch) -> pa.BooleanArray:
        """For each of `keys` whether it is among them."""
        return self._map.get_many(keys)[0]


class KeyTexts:
    """A text for each of some distinct keys."""

    def __init__(self, keys: pa.RecordBatch, texts: list[str]) -> None:
        name = "text"
        while name in keys.schema.names:
            name += "_"
        values = pa.schema([pa.field(name, pa.string())])
        self._map = _native.StateMap.open(_native.MapSchema("texts", keys.schema, pa.schema([]), values), [], 0, _END)
        self._map.put_many(keys, pa.record_batch([pa.array(texts, pa.string())], schema=values), 0)

    def of(self, keys: pa.RecordBatch) -> pa.Array:
        """The text of each of `keys`; null where it has none."""
        found, values = self._map.get_many(keys)
        return pc.if_else(found, values.column(0), None)


def repeated(keys: pa.Table) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Each key that comes more than once, and how often."""
    if keys.num_rows < 2:
        return
    hashes = _native.key_hashes(batch_of(keys))
    counted = pa.table(pc.value_counts(hashes).flatten(), names=["hash", "count"])
    for hash_ in counted.filter(pc.greater(counted.column("count"), 1)).column("hash"):
        rows = keys.filter(pc.equal(hashes, hash_)).to_pylist()
        for key, count in Counter(tuple(_canonical(value) for value in row.values()) for row in rows).items():
            if count > 1:
                yield key, count


def in_hash_order(rows: pa.Table, key: list[str]) -> pa.Table:
    """The rows in the order of their keys' hashes, those of one key in the order they had."""
    hashes = _native.key_hashes(batch_of(rows.select(key)))
    names = ["hash", *(f"k{i}" for i in range(len(key)))]
    keyed = pa.table([hashes, *(rows.column(name) for name in key)], names=names)
    return rows.take(pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in names]))


def shown(key: tuple[Any, ...]) -> str:
    """A key for a message."""
    return repr(key[0] if len(key) == 1 else key)


def _canonical(value: Any) -> Any:
    """Equal values as one object."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value
