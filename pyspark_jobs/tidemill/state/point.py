"""Look-ups of some keys in a version of a state map. Only the segments that show their hashes are opened.

INVARIANT: the rows are those that a scan of the whole map would give for these keys, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..protocol.differing import at_hashes
from ..protocol.records import HASH_END, Segment
from ..schema import one_batch
from ..store import Store
from ..values import dataclass
from .cache import RunCache
from .columns import NO_COLUMNS, MapColumns
from .table import has_key_of, live_rows, with_shown_deadlines
from .versions import open_map

MOST_RANGES = 1_000
"""For how many keys with sub-keys the ranges of single hashes are read. For more keys the whole map is."""


@dataclass(frozen=True)
class FoundRows:
    """For each of some keys, whether it has a row, and its value columns, `updated_at` and `deadline`, or nulls."""

    found: pa.BooleanArray
    values: pa.RecordBatch


def distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return each key once, in the order of state maps. Keys are equal as in state maps."""
    columns = MapColumns("keys", keys.schema, NO_COLUMNS, NO_COLUMNS)
    known = _native.StateMap.open(columns.engine(), [], 0, HASH_END)
    if keys.num_rows:
        known.put_many(keys, keys.select([]), 0)
    return known.scan().select(keys.schema.names)


def look_up_rows(
    store: Store, cache: RunCache, columns: MapColumns, segments: Sequence[Segment], keys: pa.RecordBatch
) -> FoundRows:
    """Return the rows of `keys`, which have the key and the sub-key columns, in their order."""
    hashes = sorted(set(_hashes(keys.select(columns.key.names)))) if keys.num_rows <= MOST_RANGES else None
    seen = segments if hashes is None else at_hashes(segments, hashes)
    return FoundRows(*open_map(store, cache, columns.engine(), seen, 0, HASH_END).map.get_many(keys))


def rows_of_keys(
    store: Store, cache: RunCache, columns: MapColumns, segments: Sequence[Segment], keys: pa.RecordBatch
) -> pa.Table:
    """Return the live rows of `keys`, which have the key columns, in the columns of `live_rows`."""
    keys = distinct(keys)
    if not len(columns.sub_key):
        rows = look_up_rows(store, cache, columns, segments, keys)
        both = [*keys.columns, *rows.values.columns]
        names = [*keys.schema.names, *rows.values.schema.names]
        live = columns.engine().columns
        table = pa.Table.from_arrays(both, schema=pa.schema([live.field(name) for name in names]))
        return with_shown_deadlines(table.filter(rows.found))
    if keys.num_rows > MOST_RANGES:
        table = live_rows(store, cache, columns, segments, 0, HASH_END)
    else:
        hashes = sorted(set(_hashes(keys)))
        parts = [live_rows(store, cache, columns, segments, one, one) for one in hashes]
        table = pa.concat_tables(parts or [live_rows(store, cache, columns, [], 0, HASH_END)])
    return table.filter(has_key_of(table.select(columns.key.names), keys))


@dataclass(frozen=True)
class Trace:
    """The last write to a key that a version shows, a removal too: the newest version that the segment holds, and the
    greatest `updated_at` of the key's rows in it, in ms. None: no segment has a row of the key.
    """

    version: int
    updated_ms: int | None


def last_write(
    store: Store, cache: RunCache, columns: MapColumns, segments: Sequence[Segment], key: pa.RecordBatch
) -> Trace | None:
    """Return the last write to a key, a row of key columns. None if no segment shows its hash.

    INVARIANT: the key was not written after `version`. If no segment has a row of it, a removal may have been merged
    into the oldest one, so that is the version of the oldest one.
    """
    (key_hash,) = _hashes(key)
    shown = open_map(store, cache, columns.engine(), segments, key_hash, key_hash).shown
    for one in reversed(shown):
        rows = one.run.rows() if len(one.run) else None
        if rows is not None:
            table = pa.Table.from_batches([rows])
            found = table.filter(has_key_of(table.select(columns.key.names), key)).column("updated_at")
            if len(found):
                return Trace(max(at.version for at in one.segments), max(found.cast(pa.int64()).to_pylist()))
    return Trace(max(at.version for at in shown[0].segments), None) if shown else None


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """Return rows of a state as one batch."""
    return one_batch(table, "state")


def _hashes(keys: pa.RecordBatch) -> list[int]:
    hashes: list[int] = _native.key_hashes(keys).to_pylist()
    return hashes
