"""Merging the segments of a key range outside of batches: what a merge is, and its tasks for an engine.

INVARIANT: a merge reads only its inputs and depends on nothing else, so whoever runs it makes the same rows. CRASH:
what a task stores counts only once an entry of `refs/` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .. import _native, names
from ..errors import CorruptState, InternalError, TidemillError
from ..protocol import codec
from ..protocol.records import Receipt, Segment, digest
from ..protocol.tiling import NEVER, with_due_from
from ..state.cache import RunCache
from ..state.columns import MapColumns
from ..state.versions import LARGEST_COLUMN, open_map
from ..store import Store
from ..values import dataclass
from . import wire
from .batch import task_attempt
from .place import Place
from .work import Data, Item, StateWork


@dataclass(frozen=True)
class Merge:
    """The segments of a key range of a map to merge into one, oldest first and clipped to the range.

    `columns` are those of the map. `rows` and `bytes` are estimates if a segment also shows hashes outside of the
    range. `layers` and `layers_after` say how many runs a look-up passes before and after the merge. `is_oldest`: no
    older segment remains.
    """

    operator: str
    map: str
    columns: dict[str, str]
    lo: int
    hi: int
    inputs: list[Segment]
    rows: int
    bytes: int
    layers: int
    layers_after: int
    is_oldest: bool


@dataclass(frozen=True)
class MergedRun:
    """A merged run of the hashes `lo..hi`, as the bytes of its segment."""

    lo: int
    hi: int
    run: _native.Run
    data: bytes


def merged_runs(store: Store, cache: RunCache, one: Merge) -> list[MergedRun]:
    """Read the inputs of a range and merge them. Nothing is stored."""
    schema = MapColumns.described(one.map, one.columns).engine()
    opened = open_map(store, cache, schema, one.inputs, one.lo, one.hi)
    drop = "tombstones" if one.is_oldest else "nothing"
    parts = _native.Run.merge([shown.run for shown in opened.shown], one.lo, one.hi, drop, LARGEST_COLUMN)
    return [MergedRun(lo, hi, run, run.write()) for lo, hi, run in parts if len(run)]


def segment_of(run: MergedRun, name: str, inputs: Sequence[Segment], etag: str) -> Segment:
    """Return the segment that shows a merged run, as new as the newest of its inputs.

    INVARIANT: its deadlines begin at the first of all its rows. What batches have found out about the inputs' deadlines
    depends on newer segments, which older versions do not have.
    """
    sequence, version = (max(getattr(one, age) for one in inputs) for age in ("sequence", "version"))
    data = run.data
    segment = Segment(name, digest(data), len(data), len(run.run), run.lo, run.hi, sequence, version, etag=etag)
    return with_due_from(segment, run.run.first_due or NEVER)


def stored(store: Store, branch: str, stem: str, one: Merge, runs: Sequence[MergedRun]) -> list[Segment]:
    """Store the merged runs of a range, and return their segments."""
    name, segments = names.segment(one.operator, one.map, branch, stem), []
    for number, run in enumerate(runs):
        part = names.part_of(name, number)
        segments.append(segment_of(run, part, one.inputs, store.put(part, run.data) or ""))
    return segments


@dataclass(frozen=True)
class MergeWork(StateWork):
    """Several merges as tasks of an engine: each stores its segments for entry `place.number` plus its own number."""

    place: Place
    merges: tuple[Merge, ...]
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def ranges(self) -> int:
        """One task for each merge."""
        return len(self.merges)

    @property
    def levels(self) -> int:
        """1, because no task sends rows to another."""
        return 1

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
        """Merge a range, store it, and yield the number of the range with a receipt or an error."""
        del level, items
        try:
            message = wire.receipt(codec.encode(self._merged(range_index)))
        except TidemillError as error:
            message = wire.encode_failure(error)
        yield Item(0, range_index.to_bytes(_NUMBER, "little") + message)

    def _merged(self, index: int) -> Receipt:
        place, one = self.place, self.merges[index]
        runs = merged_runs(place.store, place.cache, one)
        stem = names.base_stem(place.number + index, f"{place.attempt}-{task_attempt()}")
        segments = stored(place.store, place.branch, stem, one, runs)
        return Receipt(
            level=0, lo=one.lo, hi=one.hi, splits={}, state={one.operator: {one.map: segments}}, rows={}, outputs={},
            quarantine=[], operators={}, watermarks={}, next_deadline={},
        )  # fmt: skip


_NUMBER = 4
"""How many bytes of a result are the number of its range."""


def outcomes(work: MergeWork, results: Iterable[bytes]) -> list[list[Segment] | CorruptState]:
    """Return for each merge its segments, or the error that an input is missing or damaged. Raises any other error."""
    found: dict[int, list[Segment] | CorruptState] = {}
    for data in results:
        index, message = int.from_bytes(data[:_NUMBER], "little"), wire.decode_message(data[_NUMBER:])
        if isinstance(message, wire.Failure):
            error = message.error()
            if not isinstance(error, CorruptState):
                raise error
            found[index] = error
        elif isinstance(message, wire.ReceiptMessage):
            one = work.merges[index]
            found[index] = codec.decode(Receipt, message.record, "a receipt").state[one.operator][one.map]
        else:
            raise InternalError(f"the engine returned a {type(message).__name__}, expected a receipt")
    return [found[index] for index in range(work.ranges)]
