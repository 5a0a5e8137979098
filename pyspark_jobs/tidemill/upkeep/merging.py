"""`merge`: merges runs of the head outside of batches, and records each merged range as a `base` entry of `refs/`.

INVARIANT: an entry lists its inputs, and `protocol.bases` lays its outputs under a version only while all of them are
live. So a merge may run beside batches, other merges and dead runs; at worst it has no effect. CRASH: files are stored
before their entry and carry its number. What no entry names is garbage.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from .. import _native, names
from ..clock import now_ms
from ..driver.context import Context
from ..driver.identity import check_root
from ..errors import CorruptState, TidemillError
from ..protocol.bases import applies, fits, idle, lay
from ..protocol.entries import Base
from ..protocol.records import Commit, Segment, digest
from ..protocol.refs import BaseOf, Refs
from ..protocol.refs_log import position
from ..protocol.tiling import NEVER, with_due_from
from ..state.columns import MapColumns
from ..state.versions import LARGEST_COLUMN, open_map
from ..store.probe import probe
from .merge_choice import RULE, Merge, MergeRule, choose

THREADS = 2
"""How many ranges are merged at once. Each is in memory as a whole."""
MOST_TRIES = 5
"""How often the files of a range are stored, under another number each time, while other entries take these numbers."""


@dataclass(frozen=True)
class Merged:
    """A range that was merged: its segments before and after, with all their rows and bytes.

    Rows and bytes of a segment that also shows hashes outside of the range count in part.
    """

    operator: str
    map: str
    lo: int
    hi: int
    inputs: int
    outputs: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class MergeReport:
    """What a call of `merge` did.

    `overtaken` are ranges whose inputs another run or merge replaced meanwhile; `left` are those for which no time was
    left. The next call takes care of both.
    """

    merged: list[Merged] = field(default_factory=list)
    overtaken: list[Merge] = field(default_factory=list)
    left: list[Merge] = field(default_factory=list)


OnMerged = Callable[[int, int], None]
"""Called with the number of ranges that are done, and of all."""


@dataclass(frozen=True)
class MergedRun:
    """A merged run of the hashes `lo..hi`, as the bytes of its segment."""

    lo: int
    hi: int
    run: _native.Run
    data: bytes


def plan_merges(context: Context, rule: MergeRule = RULE) -> list[Merge]:
    """Return what `merge` would merge now, in its order. It writes nothing and reads only records."""
    context.refresh()
    head = context.head()
    if head is None:
        return []
    declared = context.declared(head)
    state = {name: maps for name, maps in context.committed(head).items() if name in declared}
    return choose(head, state, rule)


def merge(
    context: Context, deadline: float | None = None, on_merged: OnMerged | None = None, rule: MergeRule = RULE
) -> MergeReport:
    """Merge runs of the head, range by range, until nothing is left to merge or `deadline` has passed.

    `deadline` is a time of `time.monotonic()`. At least one range is merged, so that repeated calls finish. A range has
    about 4 million rows or 64 MiB. After a crash or an error, what was merged before remains.
    """
    check_root(context)
    chosen = plan_merges(context, rule)
    report = MergeReport()
    if not chosen:
        return report
    probe(context.store)
    for one, future in _in_threads(context, chosen, deadline):
        runs = _unless_overtaken(context, one, future)
        outputs = None if runs is None else _Recording(context, one, runs).record()
        if outputs is None:
            report.overtaken.append(one)
        else:
            report.merged.append(_merged(one, outputs))
        if on_merged is not None:
            on_merged(len(report.merged) + len(report.overtaken), len(chosen))
    report.left.extend(chosen[len(report.merged) + len(report.overtaken) :])
    context.refresh()
    return report


def _in_threads(
    context: Context, chosen: Sequence[Merge], deadline: float | None
) -> Iterator[tuple[Merge, Future[list[MergedRun]]]]:
    """Yield ranges and their merged runs, in order, as long as there is time to begin another one."""
    todo, begun = deque(chosen), deque[tuple[Merge, Future[list[MergedRun]]]]()
    with ThreadPoolExecutor(THREADS, "tidemill-merge") as pool:
        try:
            while todo or begun:
                has_time = deadline is None or time.monotonic() < deadline
                while todo and len(begun) < THREADS and (has_time or len(todo) == len(chosen)):
                    begun.append((todo[0], pool.submit(_merge, context, todo.popleft())))
                if not begun:
                    return
                yield begun.popleft()
        finally:
            pool.shutdown(cancel_futures=True)


def _merge(context: Context, one: Merge) -> list[MergedRun]:
    """Read the inputs of a range and merge them. Nothing is stored."""
    schema = MapColumns.described(one.map, one.columns).engine()
    opened = open_map(context.store, context.cache, schema, one.inputs, one.lo, one.hi)
    drop = "tombstones" if one.is_oldest else "nothing"
    parts = _native.Run.merge([shown.run for shown in opened.shown], one.lo, one.hi, drop, LARGEST_COLUMN)
    return [MergedRun(lo, hi, run, run.write()) for lo, hi, run in parts if len(run)]


def _unless_overtaken(context: Context, one: Merge, future: Future[list[MergedRun]]) -> list[MergedRun] | None:
    """Return the merged runs. None: an input was replaced and deleted as garbage before it was read."""
    try:
        return future.result()
    except CorruptState:
        head = context.log.head()
        if head is None or _is_live(one, context.refresh(), head):
            raise
        return None


def _is_live(one: Merge, refs: Refs, head: Commit) -> bool:
    """Whether all inputs of a merge are live in the head."""
    live = lay(head.state, refs.bases, head.schemas).get(one.operator, {}).get(one.map, [])
    base = BaseOf(0, one.operator, one.map, one.inputs, [], one.columns, one.is_oldest)
    return one.operator in refs.schemas and fits(base, head.schemas) and applies(live, base)


def _merged(one: Merge, outputs: Sequence[Segment]) -> Merged:
    rows, size = sum(out.rows for out in outputs), sum(out.size for out in outputs)
    return Merged(one.operator, one.map, one.lo, one.hi, len(one.inputs), len(outputs), one.rows, rows, one.bytes, size)


def segment_of(run: MergedRun, name: str, inputs: Sequence[Segment], etag: str) -> Segment:
    """Return the segment that shows a merged run, as new as the newest of its inputs.

    INVARIANT: its deadlines begin at the first of all its rows. What batches have found out about the inputs' deadlines
    depends on newer segments, which older versions do not have.
    """
    sequence, version = (max(getattr(one, age) for one in inputs) for age in ("sequence", "version"))
    data = run.data
    segment = Segment(name, digest(data), len(data), len(run.run), run.lo, run.hi, sequence, version, etag=etag)
    return with_due_from(segment, run.run.first_due or NEVER)


class _Recording:
    """Stores the segments of a merged range and appends the entry that names them.

    INVARIANT: a file of `refs/` carries the number of its entry. If another entry takes the number, the files are
    stored again under the next one. So a file that the entry of its number does not name is garbage forever. If the
    outcome of an append is unknown, the files stay, because the entry may exist.
    """

    def __init__(self, context: Context, merge_: Merge, runs: Sequence[MergedRun]) -> None:
        self.context, self.merge, self.runs = context, merge_, runs
        self.entries: list[Base] = []

    def record(self) -> list[Segment] | None:
        """Return the stored segments. None: an input is no longer live in the head; then nothing is left."""
        refs = self.context.refs_log.append(self._make)
        if not self.entries:
            return None
        last = self.entries[-1]
        ours = (last.number, last.inputs, last.outputs)
        if any((base.number, base.inputs, base.outputs) == ours for base in refs.bases):
            for run, segment in zip(self.runs, last.outputs, strict=True):
                self.context.cache.put(segment.checksum, run.run)
            return last.outputs
        self._delete(last)
        return None

    def _make(self, refs: Refs, number: int) -> Base | None:
        if self.entries:
            self._delete(self.entries[-1])  # another entry has its number
        head = self.context.log.head()
        if head is None or len(self.entries) == MOST_TRIES or not _is_live(self.merge, refs, head):
            return None
        placed = position(refs, now_ms())
        entry = Base(
            **placed,
            operator=self.merge.operator,
            map=self.merge.map,
            inputs=self.merge.inputs,
            outputs=self._store(names.base_stem(number, placed["attempt"])),
            columns=self.merge.columns,
            is_oldest=self.merge.is_oldest,
            branch=self.context.branch,
            ends=self._ended(refs, head),
        )
        self.entries.append(entry)
        return entry

    def _ended(self, refs: Refs, head: Commit) -> list[int]:
        """Return the numbers of earlier entries that the head of their branch no longer uses."""
        ours = [base for base in idle(head.state, refs.bases, head.schemas) if base.branch == self.context.branch]
        dropped = [base for base in refs.bases if base.branch in refs.dropped]
        return sorted({base.number for base in (*ours, *dropped)})

    def _store(self, stem: str) -> list[Segment]:
        one, store = self.merge, self.context.store
        name = names.segment(one.operator, one.map, self.context.branch, stem)
        stored = []
        for number, run in enumerate(self.runs):
            place = names.part_of(name, number)
            stored.append(segment_of(run, place, one.inputs, store.put(place, run.data) or ""))
        return stored

    def _delete(self, entry: Base) -> None:
        """Delete the files of an entry that does not exist. A delete that fails leaves garbage."""
        with contextlib.suppress(TidemillError):
            self.context.store.delete_many([segment.name for segment in entry.outputs])
