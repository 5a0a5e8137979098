"""An apply task: one key range of one level. Checks what arrived, folds it into the state, fires what is due, writes.

The data pass sees W(N−1), then, where the batch moved the watermark, the due pass sees W(N). What it writes carries
the attempt and the task's own try. CRASH: nothing it wrote counts until a commit names it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError, InvalidInput
from ..operators.contract import BoundOperator, Handle, closed_if_it_fails
from ..pipeline.job import Output, Placed
from ..protocol import codec
from ..protocol.records import OperatorMetrics, QuarantineFile, Receipt, Segment, digest
from ..state.cache import RunCache, process_cache
from ..state.versions import Opened, open_map, persist
from ..store import Store
from . import flow, wire
from .batch import Batch, task_attempt
from .inbox import Inbox
from .outbox import Outbox
from .put_aside import failed_rejects
from .wire import Message
from .work import Item

T = TypeVar("T")
U = TypeVar("U")
Segments = dict[str, list[Segment]]
"""The segments of an operator, by map."""


def run(batch: Batch, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
    """What one range of one level makes of what was sent to it."""
    inbox = Inbox([wire.decode(data) for data in items])
    if inbox.failures:
        raise wire.raised(inbox.failures[0])
    inbox.check(len(batch.assignment) if level == 0 else batch.tasks, level)
    task = _Range(batch, level, range_index, inbox)
    operators = batch.job.at_level(level)
    for placed in operators:
        handle = placed.operator.open()
        with closed_if_it_fails(handle):
            applied = task.apply(placed, handle)
            is_last = placed is operators[-1]
            # All rows for sinks are known after the last one: their files are made while its maps are stored. What a
            # sink encodes with may be a thread's own, so it is the maps that are given to another one.
            store = functools.partial(task.stored, applied)
            segments, more = both(store, functools.partial(task.meanwhile, applied, is_last))
            task.settle(applied, segments, more)
    if not operators:
        task.store_outputs()
    inbox.check_read(level)
    yield from task.finish()


@dataclass(frozen=True)
class _Times:
    """The watermarks after the batch, as far as this level knows them: the event times of one behind an operator of
    this level are not known yet. `moved`: there is a due pass, also for operators that no row of one was sent to."""

    after: dict[str, int]
    moved: bool


@dataclass(frozen=True)
class _Applied:
    """An operator after its passes: its maps as they were opened and as they are, which nothing has stored yet."""

    operator: BoundOperator
    opened: list[Opened]
    counters: dict[str, Any]
    maps: list[_native.StateMap]
    started: float
    ended: float


def both(aside: Callable[[], T], here: Callable[[], U]) -> tuple[T, U]:
    """What `aside` returns, which a thread runs while this one runs `here`, and what that returns. Where both fail, the
    error is that of `aside`. The thread does not outlive the call, so an interrupt waits for it too."""
    with ThreadPoolExecutor(1, "tidemill-aside") as thread:
        outcome = thread.submit(aside)
        try:
            found = here()
        except Exception as error:
            if (failed := outcome.exception()) is not None:
                raise failed from error
            raise
        return outcome.result(), found


class _Range:
    """One apply task at work."""

    def __init__(self, batch: Batch, level: int, range_index: int, inbox: Inbox) -> None:
        self.batch, self.level, self.index, self.inbox = batch, level, range_index, inbox
        self.lo, self.hi = batch.bounds[range_index]
        self.store: Store = batch.store()
        self.cache: RunCache = process_cache(batch.settings)
        self.stem = names.stem(batch.plan.number, batch.attempt, range_index, task_attempt())
        self.times = self._times()
        self.out = Outbox(batch, level, self.lo)
        self.state: dict[str, Segments] = {}
        self.metrics: dict[str, OperatorMetrics] = {}
        self.deadlines: dict[str, int] = {}
        self.aside: list[pa.RecordBatch] = []
        self.aside_rows = 0

    def _times(self) -> _Times:
        batch = self.batch
        after = batch.watermarks_after({name: bounds[1] for name, bounds in self.inbox.event_times.items()})
        moved = any(watermark > batch.watermarks.get(name, 0) for name, watermark in after.items())
        return _Times(after, moved and batch.job.uses_event_time)

    def _passes(self, placed: Placed) -> list[Any]:
        data = self.batch.data_pass(placed)
        has_due = self.times.moved or self.inbox.chunks(placed.operator.name, 1)
        return [data, self.batch.due_pass(placed, self.times.after)] if has_due else [data]

    def apply(self, placed: Placed, handle: Handle) -> _Applied:
        """Both passes of one operator; its outputs are sent on."""
        started = time.perf_counter()
        operator = placed.operator
        opened = [self._open(operator.name, columns.name, columns.engine()) for columns in operator.maps]
        handle.open([one.map for one in opened])
        begins = operator.name in self.batch.begins
        for number, times in enumerate(self._passes(placed)):
            pass_ = times.beginning() if begins else times
            chunks = self.inbox.chunks(operator.name, number)
            rows = self._pass(handle, chunks, pass_)
            self._put_aside(handle, chunks)
            self.out.pass_number = number
            if rows.num_rows:
                flow.run(self.batch.job, placed.node, rows, self.out, f"operator `{operator.name}`")
        ended = time.perf_counter()
        return _Applied(operator, opened, handle.metrics(), handle.finish(), started, ended)

    def stored(self, applied: _Applied) -> Segments:
        """The maps of an operator, stored."""
        name = applied.operator.name
        return {
            one.name: self._persist(name, one.name, before, changed)
            for one, before, changed in zip(applied.operator.maps, applied.opened, applied.maps, strict=True)
        }

    def meanwhile(self, applied: _Applied, is_last: bool) -> int:
        """While the maps of an operator are stored: the files for sinks, after the last operator, and by how many rows
        its first map has become larger."""
        if is_last:
            self.store_outputs()
        return sum(one.live_change() for one in applied.maps[:1])

    def settle(self, applied: _Applied, segments: Segments, more: int) -> None:
        """What the receipt says of an operator, which has `more` rows than before."""
        operator, counters = applied.operator, applied.counters
        self.state[operator.name] = segments
        self._deadline(operator)
        self.metrics[operator.name] = OperatorMetrics(
            rows=counters.get("rows", 0),
            rows_updated=counters.get("rows_updated", 0),
            rows_removed=counters.get("rows_removed", 0),
            timed_out=counters.get("timed_out", 0),
            failed=counters.get("failed", 0),
            failure=str(counters.get("failure", "")),
            rows_total=more,  # the driver adds those of the version below
            late_rows=self.inbox.late.get(operator.name, 0) if self.index == 0 else 0,
            apply_ms=int((applied.ended - applied.started) * 1000),
            commit_ms=int((time.perf_counter() - applied.ended) * 1000),
        )

    def _pass(self, handle: Handle, chunks: list[Message], pass_: Any) -> pa.RecordBatch:
        try:
            return handle.apply([chunk.batch() for chunk in chunks], pass_)
        except InvalidInput as error:
            number = getattr(error, "chunk", None)
            split = chunks[number].head.split if number is not None and number < len(chunks) else None
            if split is None:
                raise
            path = self.batch.plan.splits[split].path
            first, _, rest = error.message.partition("\n")
            raise InvalidInput(f"{first} in file `{path}`" + (f"\n{rest}" if rest else ""), hint=error.hint) from error

    def _put_aside(self, handle: Handle, chunks: list[Message]) -> None:
        """Rows of keys whose calls failed: to quarantine; those of the input are counted."""
        for number, rows, reasons in handle.put_aside():
            split = chunks[number].head.split
            of = None if split is None else self.batch.plan.splits[split]
            self.aside.append(failed_rejects(rows, reasons, of))
            self.aside_rows += rows.num_rows if self.level == 0 else 0

    def _open(self, operator: str, map_name: str, schema: _native.MapSchema) -> Opened:
        segments = self.batch.state.get(operator, {}).get(map_name, [])
        return open_map(self.store, self.cache, schema, segments, self.lo, self.hi)

    def _persist(self, operator: str, map_name: str, before: Opened, after: _native.StateMap) -> list[Segment]:
        name = names.segment(operator, map_name, self.batch.plan.branch, self.stem)
        return persist(self.store, self.cache, before, after, self.batch.plan.number, name)

    def _deadline(self, operator: BoundOperator) -> None:
        segments = [segment for of_map in self.state[operator.name].values() for segment in of_map]
        found = [segment.min_deadline_ms for segment in segments if segment.min_deadline_ms is not None]
        if operator.clock is not None and found:
            timer = "batch" if operator.clock == "batch" else f"event/{operator.name}"
            self.deadlines[timer] = min(*found, self.deadlines.get(timer, found[0]))

    def store_outputs(self) -> None:
        """Stores the rows for sinks as files: those of the operators, and those of keyless streams."""
        for message in self.inbox.keyless_outputs():
            self.out.to_output(self._output(message.head.subject), message.batch(), number=0)
        self.out.store(self.store, self.stem)

    def finish(self) -> Iterator[Item]:
        """Quarantine files, the receipt, and, below the last level, what goes on."""
        outputs = self.out.stored()
        receipt = Receipt(
            level=self.level,
            lo=self.lo,
            hi=self.hi,
            splits=self.inbox.splits,
            state=self.state,
            outputs=outputs,
            quarantine=self._quarantine(),
            operators=self.metrics,
            watermarks=self.times.after,
            next_deadline=self.deadlines,
            late_rows=self.inbox.late_rows if self.index == 0 else 0,
            quarantined_rows=self.aside_rows + (self.inbox.quarantined_rows if self.index == 0 else 0),
            event_time={name: {"min": low, "max": high} for name, (low, high) in self.inbox.event_times.items()},
        )
        last = self.level == self.batch.levels - 1
        if not last:
            yield from self.out.items(self.inbox)
        target = 0 if last else self.index
        yield Item(target, wire.receipt(codec.encode(receipt)))
        for message in self.inbox.receipts:
            yield Item(target, wire.receipt(message.body.to_pybytes()))

    def _output(self, name: str) -> Output:
        output = self.batch.job.outputs.get(name)
        if output is None:
            raise InternalError(f"rows arrived for the sink `{name}`, which the job does not have")
        return output

    def _quarantine(self) -> list[QuarantineFile]:
        tables = [pa.Table.from_batches(message.batches()) for message in self.inbox.quarantined()]
        tables += [pa.Table.from_batches([rows]) for rows in self.aside]
        if not tables:
            return []
        table = pa.concat_tables(tables)
        data = self.out.parquet(table)
        name = names.quarantine(self.batch.plan.branch, self.stem)
        self.store.put(name, data)
        return [QuarantineFile(name, digest(data), len(data), table.num_rows)]
