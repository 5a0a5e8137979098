"""`merge`: merges segments of the head outside of batches, and records each merged range as a `base` entry of `refs/`.

INVARIANT: an entry lists its inputs, and `protocol.bases` lays its outputs under a version only while all of them are
live. So a merge may run beside batches, other merges and dead runs; at worst it has no effect. CRASH: files are stored
before their entry and carry its number. What no entry names is garbage.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial

from .. import names
from ..batch.merging import Merge, MergedRun, MergeWork, merged_runs, outcomes, stored
from ..batch.work import Engine
from ..clock import now_ms
from ..errors import CorruptState, TidemillError
from ..protocol.bases import applies, fits, idle, lay
from ..protocol.compatible import renamed_schemas
from ..protocol.entries import Base
from ..protocol.records import Commit, Segment
from ..protocol.refs import BaseOf, Refs
from ..protocol.refs_log import position
from ..repo.identity import check_root
from ..repo.opened import Opened
from ..repo.operators import committed_state, declared_operators
from ..state.older import cache_key, columns_key
from ..state.versions import checked_content
from ..store import ObjectMissing
from ..store.probe import probe
from ..values import dataclass
from .merge_choice import RULE, MergeRule, choose_merges

_THREADS = 2
"""How many ranges are merged at once. Each is in memory as a whole."""
_MOST_TRIES = 5
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
class _Stored:
    """A segment that a task of an engine has stored for entry `number` of `refs/`."""

    segment: Segment
    number: int


_Part = MergedRun | _Stored
_Outcome = Callable[[], Sequence[_Part]]
"""Returns the merged runs of a range, or raises the error."""


def plan_merges(repo: Opened, rule: MergeRule = RULE) -> list[Merge]:
    """Return what `merge` would merge now, in its order. It writes nothing and reads only records."""
    repo.refresh()
    head = repo.head()
    if head is None:
        return []
    declared = declared_operators(repo, head)
    state = {name: maps for name, maps in committed_state(repo, head).items() if name in declared}
    return choose_merges(head, state, rule)


def merge(
    repo: Opened,
    deadline: float | None = None,
    on_merged: OnMerged | None = None,
    rule: MergeRule = RULE,
    engine: Callable[[], Engine] | None = None,
) -> MergeReport:
    """Merge segments of the head, range by range, until nothing is left to merge or `deadline` has passed.

    `deadline` is a time of `time.monotonic()`. At least one range is merged, so that repeated calls finish. A range has
    about 4 million rows or 64 MiB. After a crash or an error, what was merged before remains.

    Two ranges at once are merged in this process, or as many as `engine` runs tasks at once. It is called once it is
    known that there is something to merge.
    """
    check_root(repo)
    chosen = plan_merges(repo, rule)
    report = MergeReport()
    if not chosen:
        return report
    probe(repo.store)
    begin = _in_threads if engine is None else partial(_on_engine, engine=engine())
    for one, outcome in begin(repo, chosen, deadline):
        parts = _unless_overtaken(repo, one, outcome)
        outputs = None if parts is None else _Recording(repo, one, parts).record()
        if outputs is None:
            report.overtaken.append(one)
        else:
            report.merged.append(_merged(one, outputs))
        if on_merged is not None:
            on_merged(len(report.merged) + len(report.overtaken), len(chosen))
    report.left.extend(chosen[len(report.merged) + len(report.overtaken) :])
    repo.refresh()
    return report


def _in_threads(repo: Opened, chosen: Sequence[Merge], deadline: float | None) -> Iterator[tuple[Merge, _Outcome]]:
    """Yield ranges and their merged runs, in order, as long as there is time to begin another one."""
    todo, begun = deque(chosen), deque[tuple[Merge, Future[list[MergedRun]]]]()
    with ThreadPoolExecutor(_THREADS, "tidemill-merge") as pool:
        try:
            while todo or begun:
                has_time = deadline is None or time.monotonic() < deadline
                while todo and len(begun) < _THREADS and (has_time or len(todo) == len(chosen)):
                    begun.append((todo[0], pool.submit(_merge, repo, todo.popleft())))
                if not begun:
                    return
                one, future = begun.popleft()
                yield one, future.result
        finally:
            pool.shutdown(cancel_futures=True)


def _merge(repo: Opened, one: Merge) -> list[MergedRun]:
    return merged_runs(repo.store, repo.cache, one)


def _on_engine(
    repo: Opened, chosen: Sequence[Merge], deadline: float | None, engine: Engine
) -> Iterator[tuple[Merge, _Outcome]]:
    """Yield ranges and what tasks of the engine have stored, in order, as long as there is time for another job."""
    left = deque(chosen)
    while left and (len(left) == len(chosen) or deadline is None or time.monotonic() < deadline):
        ours = tuple(left.popleft() for _ in range(min(engine.parallelism, len(left))))
        place = repo.task_place(repo.refresh().through + 1, uuid.uuid4().hex[:12])
        work = MergeWork(place, ours, paths=repo.paths)
        for index, found in enumerate(outcomes(work, engine.execute(work))):
            yield ours[index], partial(_parts, found, place.number + index)


def _parts(found: list[Segment] | CorruptState, number: int) -> list[_Stored]:
    if isinstance(found, CorruptState):
        raise found
    return [_Stored(segment, number) for segment in found]


def _unless_overtaken(repo: Opened, one: Merge, outcome: _Outcome) -> Sequence[_Part] | None:
    """Return the merged runs. None: an input was replaced and deleted as garbage before it was read."""
    try:
        return outcome()
    except CorruptState:
        head = repo.log.head()
        if head is None or _is_live(one, repo.refresh(), head):
            raise
        return None


def _is_live(one: Merge, refs: Refs, head: Commit) -> bool:
    """Whether all inputs of a merge are live in the head."""
    live = lay(head.state, refs.bases, head.schemas).get(one.operator, {}).get(one.map, [])
    base = BaseOf(0, one.operator, one.map, one.inputs, [], one.columns, one.is_oldest)
    declared = renamed_schemas(refs.schemas, head.renamed)
    return one.operator in declared and fits(base, head.schemas) and applies(live, base)


def _merged(one: Merge, outputs: Sequence[Segment]) -> Merged:
    rows, size = sum(out.rows for out in outputs), sum(out.size for out in outputs)
    return Merged(one.operator, one.map, one.lo, one.hi, len(one.inputs), len(outputs), one.rows, rows, one.bytes, size)


class _Recording:
    """Stores the segments of a merged range and appends the entry that names them.

    INVARIANT: a file of `refs/` carries the number of its entry. If another entry takes the number, the files are
    stored again under the next one. So a file that the entry of its number does not name is garbage forever. If the
    outcome of an append is unknown, the files stay, because the entry may exist.
    """

    def __init__(self, repo: Opened, merge_: Merge, parts: Sequence[_Part]) -> None:
        self.repo, self.merge, self.parts = repo, merge_, list(parts)
        self.entries: list[Base] = []

    def record(self) -> list[Segment] | None:
        """Return the stored segments. None: an input is not live, or the files are gone; then nothing is left."""
        given = {part.segment.name for part in self.parts if isinstance(part, _Stored)}
        refs = self.repo.refs_log.append(self._make)
        last = self.entries[-1] if self.entries else None
        ours = None if last is None else (last.number, last.inputs, last.outputs)
        if last is None or not any((base.number, base.inputs, base.outputs) == ours for base in refs.bases):
            self._delete(given if last is None else given | {one.name for one in last.outputs})
            return None
        self._delete(given - {one.name for one in last.outputs})
        for part, segment in zip(self.parts, last.outputs, strict=True):
            if isinstance(part, MergedRun):
                self.repo.cache.put(cache_key(segment.checksum, columns_key(part.run.schema)), part.run)
        return last.outputs

    def _make(self, refs: Refs, number: int) -> Base | None:
        if self.entries:
            self._delete({one.name for one in self.entries[-1].outputs})  # another entry has its number
        head = self.repo.log.head()
        if head is None or len(self.entries) == _MOST_TRIES or not _is_live(self.merge, refs, head):
            return None
        placed = position(refs, now_ms())
        outputs = self._store(number, names.base_stem(number, placed["attempt"]))
        if outputs is None:
            return None
        entry = Base(
            **placed,
            operator=self.merge.operator,
            map=self.merge.map,
            inputs=self.merge.inputs,
            outputs=outputs,
            columns=self.merge.columns,
            is_oldest=self.merge.is_oldest,
            branch=self.repo.branch,
            ends=self._ended(refs, head),
        )
        self.entries.append(entry)
        return entry

    def _ended(self, refs: Refs, head: Commit) -> list[int]:
        """Return the numbers of earlier entries that the head of their branch no longer uses."""
        ours = [base for base in idle(head.state, refs.bases, head.schemas) if base.branch == self.repo.branch]
        dropped = [base for base in refs.bases if base.branch in refs.dropped]
        return sorted({base.number for base in (*ours, *dropped)})

    def _store(self, number: int, stem: str) -> list[Segment] | None:
        """Return the segments under names with the number of the entry. What tasks stored may have them already.

        None: another process has deleted what tasks stored as garbage, because another entry has its number.
        """
        one, store = self.merge, self.repo.store
        if all(isinstance(part, _Stored) and part.number == number for part in self.parts):
            return [part.segment for part in self.parts if isinstance(part, _Stored)]
        runs = [part for part in self.parts if isinstance(part, MergedRun)]
        name = names.segment(one.operator, one.map, self.repo.branch, stem)
        segments = stored(store, self.repo.branch, stem, one, runs)
        for part in self.parts:
            if isinstance(part, _Stored):
                part_name = names.part_of(name, len(segments))
                try:
                    data = checked_content(store.get(part.segment.name), part.segment.name, part.segment.checksum)
                except ObjectMissing:
                    self._delete({one.name for one in segments})
                    return None
                segments.append(replace(part.segment, name=part_name, etag=store.put(part_name, data) or ""))
        return segments

    def _delete(self, stored_names: Collection[str]) -> None:
        """Delete files that no entry names. A delete that fails leaves garbage."""
        with contextlib.suppress(TidemillError):
            self.repo.store.delete_many(sorted(stored_names))
