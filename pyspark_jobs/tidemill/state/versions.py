"""Open the state map of a key range from the segments that a commit lists, and store a changed map as new segments.

Reading opens the runs that the range sees. Writing stores a delta, merged with the older runs that `layers` selects.
INVARIANT: the segments that `persist` returns show only hashes in `lo..hi`, and every live row there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from .. import _native
from ..errors import CorruptState
from ..names import inside, part_of
from ..protocol.records import HASH_END, Segment, digest
from ..protocol.tiling import NEVER, DuePlace, due_from, neighbours, segments_within, with_due_from
from ..store import Store
from ..store.contract import ObjectMissing
from ..values import dataclass
from .cache import RunCache
from .layers import HashSpan, to_merge
from .older import cache_key, columns_key, read_run

LARGEST_COLUMN = 2**31 - 1
"""The most bytes of text or binary, or items of lists, in one column of a segment."""


@dataclass(frozen=True)
class _Shown:
    """Segments of one object whose ranges touch, opened as one run. They may differ in where their deadlines begin."""

    segments: list[Segment]
    run: _native.Run

    @property
    def span(self) -> HashSpan:
        """The hash range and the number of rows."""
        return HashSpan(self.segments[0].lo, self.segments[-1].hi, len(self.run))

    def hidden_before(self, place: DuePlace) -> list[Segment]:
        """Return the segments, given that newer segments hide all rows with a deadline before `place`."""
        return [with_due_from(segment, max(place, due_from(segment))) for segment in self.segments]


@dataclass(frozen=True)
class OpenedMap:
    """The state map of one key range, and the segments it was opened from: oldest first, clipped to the range."""

    map: _native.StateMap
    shown: list[_Shown]
    lo: int
    hi: int

    @property
    def segments(self) -> list[Segment]:
        """The segments of the range."""
        return [segment for one in self.shown for segment in one.segments]


def open_map(
    store: Store, cache: RunCache, schema: _native.MapSchema, segments: Sequence[Segment], lo: int, hi: int
) -> OpenedMap:
    """Open the state map of `lo..hi` from `segments`. `CorruptState` if a segment is missing or damaged.

    Segments with older columns are converted to those of `schema`.
    """
    columns = columns_key(schema)
    shown = [
        _show(store, cache, schema, columns, together) for together in neighbours(segments_within(segments, lo, hi))
    ]
    return OpenedMap(_native.StateMap.open(schema, [one.run for one in shown], lo, hi), shown, lo, hi)


def persist(
    store: Store,
    cache: RunCache,
    before: OpenedMap,
    after: _native.StateMap,
    version: int,
    name: str,
) -> list[Segment]:
    """Store the changes of `after` as the segment `name`, and return the live segments of the range, oldest first.

    Changes that are too large for one segment become several segments with adjacent hash ranges.

    Each returned segment records the earliest deadline among its rows that no newer segment hides, so that no batch
    searches for hidden deadlines again. The least of these is the next deadline of the range.

    The oldest segments are dropped as soon as newer ones hide all their rows. A state whose keys all end after a while
    is therefore rarely merged. A new segment gets a higher sequence than all that the range shows.

    CRASH: segments are stored before a commit names them. A crash leaves segments that no commit names; nothing reads
    them.
    """
    delta, places, spent = after.delta(), after.due_places(), after.spent_runs()
    with_rows = zip((one for one in before.shown if len(one.run)), places, strict=True)
    shown, still = [], []
    for one, place in islice(with_rows, spent, None):
        shown.append(one)
        still.append(one.hidden_before(place))
    merged = () if delta is None else to_merge([one.span for one in shown], len(delta))
    kept = [segment for number, of_object in enumerate(still) if number not in merged for segment in of_object]
    if delta is None:
        return kept
    runs = [*(shown[number].run for number in merged), delta]
    sequence = 1 + max((segment.sequence for segment in before.segments), default=0)
    parts = _native.Run.merge(runs, before.lo, before.hi, "nothing" if kept else "tombstones", LARGEST_COLUMN)
    for number, (lo, hi, run) in enumerate(part for part in parts if len(part[2])):
        kept += store_run(store, cache, run, (sequence, version), part_of(name, number), lo, hi)
    return kept


def store_run(
    store: Store, cache: RunCache, run: _native.Run, age: tuple[int, int], name: str, lo: int = 0, hi: int = HASH_END
) -> list[Segment]:
    """Store a run as a segment that shows `lo..hi`, and return the segment. An empty run gives no segment.

    `age` is its sequence and its version.
    """
    if len(run) == 0:
        return []
    data = run.write()
    checksum = digest(data)
    etag = store.put(name, data) or ""
    cache.put(cache_key(checksum, columns_key(run.schema)), run)
    segment = Segment(name, checksum, len(data), len(run), lo, hi, *age, etag=etag)
    return [with_due_from(segment, run.first_due or NEVER)]


def checked_content(data: bytes, name: str, checksum: str) -> bytes:
    """Return `data` if it has the checksum that the commit records for `name`; otherwise raise `CorruptState`."""
    found = digest(data)
    if found == checksum:
        return data
    raise CorruptState(
        f"read `{name}`: found checksum {found}, but the commit records {checksum}",
        hint="restore the object from a backup; nothing is repaired silently",
    )


def fetch(store: Store, name: str, checksum: str) -> bytes:
    """Return the content of an object that a commit names. `CorruptState` if it is missing or its content differs."""
    try:
        data = store.get(inside(name))
    except ObjectMissing as error:
        raise CorruptState(
            f"read `{name}` in `{store.uri}`: a commit names this object, but it is missing",
            hint="restore the object from a backup; Tidemill never continues with an empty state",
        ) from error
    return checked_content(data, name, checksum)


def _show(store: Store, cache: RunCache, schema: _native.MapSchema, columns: str, segments: list[Segment]) -> _Shown:
    first = min(due_from(segment) for segment in segments)
    run = _load(store, cache, schema, columns, segments[0]).within(segments[0].lo, segments[-1].hi)
    return _Shown(segments, run.with_due_from(*first))


def _load(store: Store, cache: RunCache, schema: _native.MapSchema, columns: str, segment: Segment) -> _native.Run:
    def read() -> _native.Run:
        return read_run(schema, fetch(store, segment.name, segment.checksum), segment.name)

    return cache.get(cache_key(segment.checksum, columns), schema, read)
