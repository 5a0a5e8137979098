"""A version of a state map as an Arrow table: the live rows of all key ranges, in hash order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..protocol.records import Segment
from ..store import Store
from .cache import RunCache
from .columns import MapColumns
from .versions import open_map


def live_rows(
    store: Store, cache: RunCache, columns: MapColumns, segments: Sequence[Segment], lo: int, hi: int
) -> pa.Table:
    """Key, sub-key and value columns, `updated_at` and `deadline`; no tombstones."""
    opened = open_map(store, cache, columns.engine(), segments, lo, hi)
    return pa.Table.from_batches([opened.map.scan()])
