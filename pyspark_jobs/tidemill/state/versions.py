"""From the segments that a commit lists to state maps of a key range, and from changed maps to new segments.

Reading opens the runs that a range sees; writing stores a delta, merged with older runs where `layers` says so.
INVARIANT: what `persist` returns shows hashes of `lo..hi` alone, and all rows there, the old segments clipped to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._native import MapSchema, Run, StateMap
from ..errors import CorruptState
from ..names import inside
from ..protocol.decide import visible
from ..protocol.records import HASH_END, Segment, digest
from ..store import Store
from ..store.contract import ObjectMissing
from .cache import RunCache
from .layers import Span, to_merge


@dataclass(frozen=True)
class Opened:
    """A state map of one key range, with the segments it was opened from (oldest first, clipped to the range).

    `runs` are what the segments show, one each.
    """

    map: StateMap
    segments: list[Segment]
    runs: list[Run]
    lo: int
    hi: int


def open_map(store: Store, cache: RunCache, schema: MapSchema, segments: Sequence[Segment], lo: int, hi: int) -> Opened:
    """The state map that shows what `segments` hold of `lo..hi`; `CorruptState` for one that is missing or damaged."""
    seen = visible(segments, lo, hi)
    runs = [_load(store, cache, schema, segment).within(segment.lo, segment.hi) for segment in seen]
    return Opened(StateMap.open(schema, runs, lo, hi), seen, runs, lo, hi)


def persist(
    store: Store,
    cache: RunCache,
    before: Opened,
    after: StateMap,
    version: int,
    name: str,
) -> list[Segment]:
    """Stores what `after` changed as the segment `name`, and returns the range's live segments, oldest first.

    CRASH: a segment that no commit names is garbage; nothing points to it.
    """
    delta = after.delta()
    if delta is None:
        return before.segments
    shown = [(segment, run) for segment, run in zip(before.segments, before.runs, strict=True) if len(run)]
    merged = to_merge([Span(segment.lo, segment.hi, len(run)) for segment, run in shown], len(delta))
    kept = [segment for number, (segment, _) in enumerate(shown) if number not in merged]
    runs = [*(shown[number][1] for number in merged), delta]
    run = Run.merge(runs, before.lo, before.hi, "nothing" if kept else "tombstones")
    return [*kept, *store_run(store, cache, run, version, name, before.lo, before.hi)]


def store_run(
    store: Store, cache: RunCache, run: Run, version: int, name: str, lo: int = 0, hi: int = HASH_END
) -> list[Segment]:
    """Stores a run as a segment that shows `lo..hi`; none where the run is empty."""
    if len(run) == 0:
        return []
    data = run.write()
    checksum = digest(data)
    store.put(name, data)
    cache.put(checksum, run)
    return [Segment(name, checksum, len(data), len(run), lo, hi, version, run.min_deadline_ms)]


def checked(data: bytes, name: str, checksum: str) -> bytes:
    """`data` if it has the checksum that the commit gives for `name`, else `CorruptState`."""
    found = digest(data)
    if found == checksum:
        return data
    raise CorruptState(
        f"read `{name}`: its content has checksum {found}, the commit says {checksum}",
        hint="restore the object from a backup; nothing is repaired silently",
    )


def fetch(store: Store, name: str, checksum: str) -> bytes:
    """The content of an object that a commit names; `CorruptState` where it is missing or another."""
    try:
        data = store.get(inside(name))
    except ObjectMissing as error:
        raise CorruptState(
            f"read `{name}` in {store.uri}: a commit names it, and it is not there",
            hint="restore the object from a backup; Tidemill never goes on with an empty state",
        ) from error
    return checked(data, name, checksum)


def _load(store: Store, cache: RunCache, schema: MapSchema, segment: Segment) -> Run:
    def read() -> Run:
        return Run.read(schema, fetch(store, segment.name, segment.checksum), segment.name)

    return cache.get(segment.checksum, schema, read)
