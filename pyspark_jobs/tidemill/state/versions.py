"""From the segments that a commit lists to state maps of a key range, and from changed maps to new segments.

Reading opens the runs that a range sees; writing stores a delta, merged with older runs where `layers` says so.
INVARIANT: what `persist` returns shows hashes of `lo..hi` alone, and all rows there that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from .._native import MapSchema, Run, StateMap
from ..errors import CorruptState
from ..names import inside, part_of
from ..protocol.records import HASH_END, Segment, digest
from ..protocol.tiling import NEVER, DuePlace, due_from, neighbours, visible, with_due_from
from ..store import Store
from ..store.contract import ObjectMissing
from .cache import RunCache
from .layers import Span, to_merge

LARGEST_COLUMN = 2**31 - 1
"""Most bytes of text or binary, or items of lists, that a column of a segment holds."""


@dataclass(frozen=True)
class Shown:
    """What segments show of one object, opened as one run: their ranges touch, their deadlines may begin elsewhere."""

    segments: list[Segment]
    run: Run

    @property
    def span(self) -> Span:
        """Its hashes and rows."""
        return Span(self.segments[0].lo, self.segments[-1].hi, len(self.run))

    def hidden_before(self, place: DuePlace) -> list[Segment]:
        """The segments, of which newer ones hide all rows with a deadline before `place`."""
        return [with_due_from(segment, max(place, due_from(segment))) for segment in self.segments]


@dataclass(frozen=True)
class Opened:
    """A state map of one key range, with what it was opened from (oldest first, clipped to the range)."""

    map: StateMap
    shown: list[Shown]
    lo: int
    hi: int

    @property
    def segments(self) -> list[Segment]:
        """The segments of the range."""
        return [segment for one in self.shown for segment in one.segments]


def open_map(store: Store, cache: RunCache, schema: MapSchema, segments: Sequence[Segment], lo: int, hi: int) -> Opened:
    """The state map that shows what `segments` hold of `lo..hi`; `CorruptState` for one that is missing or damaged."""
    shown = [_show(store, cache, schema, together) for together in neighbours(visible(segments, lo, hi))]
    return Opened(StateMap.open(schema, [one.run for one in shown], lo, hi), shown, lo, hi)


def persist(
    store: Store,
    cache: RunCache,
    before: Opened,
    after: StateMap,
    version: int,
    name: str,
) -> list[Segment]:
    """Stores what `after` changed as the segment `name`, and returns the range's live segments, oldest first.

    What one segment does not hold becomes several, side by side.

    Each is told where the deadlines of those of its rows begin that nothing newer hides, so that none is looked for
    twice. The least of them is the least deadline of the range. The oldest ones are left out once all their rows are
    hidden: a state of which everything ends is merged only where more batches live at once than there may be runs.
    CRASH: a segment that no commit names is garbage; nothing points to it.
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
    parts = Run.merge(runs, before.lo, before.hi, "nothing" if kept else "tombstones", LARGEST_COLUMN)
    for number, (lo, hi, run) in enumerate(part for part in parts if len(part[2])):
        kept += store_run(store, cache, run, version, part_of(name, number), lo, hi)
    return kept


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
    return [with_due_from(Segment(name, checksum, len(data), len(run), lo, hi, version), run.first_due or NEVER)]


def checked(data: bytes, name: str, checksum: str) -> bytes:
    """`data` if it has the checksum that the commit gives for `name`, else `CorruptState`."""
    found = digest(data)
    if found == checksum:
        return data
    raise CorruptState(
        f"read `{name}`: found checksum {found}, but the commit records {checksum}",
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


def _show(store: Store, cache: RunCache, schema: MapSchema, segments: list[Segment]) -> Shown:
    first = min(due_from(segment) for segment in segments)
    run = _load(store, cache, schema, segments[0]).within(segments[0].lo, segments[-1].hi)
    return Shown(segments, run.with_due_from(*first))


def _load(store: Store, cache: RunCache, schema: MapSchema, segment: Segment) -> Run:
    def read() -> Run:
        return Run.read(schema, fetch(store, segment.name, segment.checksum), segment.name)

    return cache.get(segment.checksum, schema, read)
