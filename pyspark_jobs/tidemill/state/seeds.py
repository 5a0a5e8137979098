"""The initial state of an operator as segments of version -1, which its first batch reads like any other state.

CRASH: the segments have unique names and count only once an entry of `refs/` names them. Others are garbage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from .. import _native, names
from ..protocol.records import HASH_END, Segment, digest
from ..store import Store
from .cache import RunCache
from .columns import MapColumns
from .versions import store_run

_VERSION = -1
"""The version of the segments. It is lower than that of any batch, so the changes of every batch are newer."""
UPDATED_MS = -1
"""The `updated_at` of their rows, in ms: before any batch."""

Runs = Mapping[str, _native.Run | None]
"""The rows of each map, by the map's name; None for a map without rows."""


def seed_runs(maps: Sequence[MapColumns], rows: Mapping[str, pa.Table]) -> Runs:
    """Return `rows`, by map, as one run for each of `maps`. The same rows give the same runs.

    Each table in `rows` has the key, sub-key and value columns of its map.
    """
    runs: dict[str, _native.Run | None] = {}
    for columns in maps:
        state = _native.StateMap.open(columns.engine(), [], 0, HASH_END)
        for batch in rows[columns.name].to_batches() if columns.name in rows else ():
            if batch.num_rows:
                keys = batch.select([*columns.key.names, *columns.sub_key.names])
                state.put_many(keys, batch.select(columns.value.names), UPDATED_MS)
        runs[columns.name] = state.delta()
    return runs


def is_stored(runs: Runs, segments: Mapping[str, Sequence[Segment]]) -> bool:
    """Whether `segments` hold exactly `runs`."""
    found = {name: [digest(run.write())] if run is not None else [] for name, run in runs.items()}
    return found == {name: [segment.checksum for segment in of_map] for name, of_map in segments.items()}


def store_seeds(
    store: Store, cache: RunCache, operator: str, runs: Runs, branch: str, stem: str
) -> dict[str, list[Segment]]:
    """Store the runs, and return the live segments of every map."""
    return {
        name: []
        if run is None
        else store_run(store, cache, run, (0, _VERSION), names.segment(operator, name, branch, stem))
        for name, run in runs.items()
    }
