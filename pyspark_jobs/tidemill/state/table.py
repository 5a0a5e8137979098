"""A version of a state map as an Arrow table: its live rows in the order of the key hashes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..protocol.records import HASH_END, Segment
from ..schema import int64_scalar, one_batch
from ..schema.kernels import pc
from ..store import Store
from .cache import RunCache
from .columns import MapColumns
from .versions import open_map

_LATEST_MS = 253_402_300_799_999
"""The last time that Python can represent, and DuckDB in a condition: the end of the year 9999."""


def live_rows(
    store: Store, cache: RunCache, columns: MapColumns, segments: Sequence[Segment], lo: int, hi: int
) -> pa.Table:
    """Return key, sub-key and value columns, `updated_at` and `deadline`, without tombstones.

    Deadlines after the year 9999 are shown as its end.
    """
    opened = open_map(store, cache, columns.engine(), segments, lo, hi)
    return with_shown_deadlines(pa.Table.from_batches([opened.map.scan()]))


def with_shown_deadlines(table: pa.Table) -> pa.Table:
    """Return rows whose last column is `deadline`, with deadlines after the year 9999 as its end."""
    last = table.num_columns - 1
    deadlines = table.column(last)
    latest = int64_scalar(_LATEST_MS).cast(deadlines.type)
    shown = pc.if_else(pc.greater(deadlines, latest), latest, deadlines)
    return table.set_column(last, table.schema.field(last), shown)


def has_key_of(rows: pa.Table, keys: pa.RecordBatch) -> pa.Array:
    """Return which of `rows`, a table of key columns, are among `keys`. Keys are equal as in state maps."""
    columns = MapColumns("keys", keys.schema, pa.schema([]), pa.schema([]))
    known = _native.StateMap.open(columns.engine(), [], 0, HASH_END)
    known.put_many(keys, keys.select([]), 0)
    return known.get_many(one_batch(rows, "keys"))[0]
