"""The rows in which two versions of a state map differ. What both versions share is not read, except single rows.

The keys that differing segments hold are looked up in both versions. INVARIANT: no other key has different rows
(`protocol.differing`), so the cost follows the differing segments, not the map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from .. import _native
from ..protocol.differing import differing
from ..protocol.records import HASH_END, Segment
from ..protocol.tiling import segments_within
from ..schema import differs
from ..schema.kernels import pc
from ..store import Store
from ..values import dataclass
from .cache import RunCache
from .columns import NO_COLUMNS, MapColumns
from .point import FoundRows, as_batch, distinct, look_up_rows, rows_of_keys
from .versions import open_map

_PART_ROWS = 1 << 20
"""About how many rows of differing segments are compared at once."""


@dataclass(frozen=True)
class Side:
    """A state map in one version: its columns and its live segments. Both sides have the same key and sub-key."""

    columns: MapColumns
    segments: Sequence[Segment]


@dataclass(frozen=True)
class Compared:
    """Rows of both versions for some keys, which may differ: `keys` has the key and sub-key columns."""

    keys: pa.RecordBatch
    before: FoundRows
    after: FoundRows

    def filter(self, mask: pa.BooleanArray) -> Compared:
        """Return the keys for which `mask` is true."""
        before = FoundRows(self.before.found.filter(mask), self.before.values.filter(mask))
        after = FoundRows(self.after.found.filter(mask), self.after.values.filter(mask))
        return Compared(self.keys.filter(mask), before, after)


def compared(
    store: Store, cache: RunCache, before: Side, after: Side, keys: pa.RecordBatch | None = None
) -> Iterator[Compared]:
    """Yield all keys whose rows differ, in the order of state maps, a part at a time. Others may be among them.

    `keys`: only these, as key columns.
    """
    parts = _parts(store, cache, before, after) if keys is None else _asked(store, cache, before, after, keys)
    for part in parts:
        if not part.num_rows:
            continue
        found = Compared(
            part, *(look_up_rows(store, cache, one.columns, one.segments, part) for one in (before, after))
        )
        either = pc.or_(found.before.found, found.after.found)
        if before.columns.value.equals(after.columns.value):
            columns = zip(found.before.values.columns, found.after.values.columns, strict=True)
            changed = pc.xor(found.before.found, found.after.found)
            for one, other in columns:
                changed = pc.or_(changed, differs(one, other))
            either = pc.and_(either, changed)
        yield found.filter(either)


def _parts(store: Store, cache: RunCache, before: Side, after: Side) -> Iterator[pa.RecordBatch]:
    """Yield the keys that differing segments hold, each once, by parts of the hash space."""
    ours, theirs = differing(before.segments, after.segments)
    if not ours and not theirs:
        return
    count = max(1, -(-sum(one.rows for one in (*ours, *theirs)) // _PART_ROWS))
    width = -(-(HASH_END + 1) // count)
    for lo in range(0, HASH_END + 1, width):
        hi = min(lo + width - 1, HASH_END)
        yield _keys(store, cache, [(before.columns, ours), (after.columns, theirs)], lo, hi)


def _keys(
    store: Store, cache: RunCache, sides: Sequence[tuple[MapColumns, Sequence[Segment]]], lo: int, hi: int
) -> pa.RecordBatch:
    columns = sides[0][0]
    names = [*columns.key.names, *columns.sub_key.names]
    known = _native.StateMap.open(
        MapColumns("keys", columns.key, columns.sub_key, NO_COLUMNS).engine(), [], 0, HASH_END
    )
    for one, segments in sides:
        for shown in open_map(store, cache, one.engine(), segments_within(segments, lo, hi), lo, hi).shown:
            keys = shown.run.rows().select(names)
            if keys.num_rows:
                known.put_many(keys, keys.select([]), 0)
    return known.scan().select(names)


def _asked(store: Store, cache: RunCache, before: Side, after: Side, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows that some keys have in either version, as key and sub-key columns."""
    if not len(before.columns.sub_key):
        yield distinct(keys)
        return
    names = [*before.columns.key.names, *before.columns.sub_key.names]
    tables = [rows_of_keys(store, cache, one.columns, one.segments, keys).select(names) for one in (before, after)]
    columns = MapColumns("keys", before.columns.key, before.columns.sub_key, NO_COLUMNS)
    known = _native.StateMap.open(columns.engine(), [], 0, HASH_END)
    for table in tables:
        if table.num_rows:
            batch = as_batch(table)
            known.put_many(batch, batch.select([]), 0)
    yield known.scan().select(names)
