"""An apply task: checks what one key range of one level received, folds it into the state, and fires due timeouts.

The data pass sees the watermark W(N−1). If the batch moved the watermark, the due pass follows and sees W(N).
CRASH: the task's files carry its attempt and its own random id, and count only once a commit names them. So a task that
dies and runs again never mixes its files with those of its earlier try.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError, InvalidInput
from ..operators.contract import BoundOperator, Handle, close_on_error
from ..pipeline import flow
from ..pipeline.job import JobSink, Placed, Port
from ..protocol import codec
from ..protocol.records import OperatorMetrics, QuarantineFile, Receipt, Segment, digest
from ..sinks import forms
from ..sources.contract import ROW
from ..state.cache import RunCache, process_cache
from ..state.versions import OpenedMap, open_map, persist
from ..store import Store, run_both, side_by_side
from ..values import dataclass
from . import wire
from .batch import Batch, task_attempt
from .failed_rows import failed_rows
from .given import GivenRows, failed_parts, parts_of
from .inbox import Inbox
from .input import is_given_back, read_rows
from .memory import PeakMemory
from .output_files import OutputFiles
from .places import Emitted, Places
from .quarantine import failed_rejects, with_given, with_rows
from .sender import Outgoing, RowOrigin, Sender
from .spill import received
from .wire import Chunk, Observed
from .work import Data, Item

Segments = dict[str, list[Segment]]
"""The segments of an operator, by map."""
ROWS_SHARE = 4
"""Rows that wait for a task may use one part in so many of its memory. More of them wait in a file."""
LARGE_BYTES = 128 * 1024**2
"""From so many bytes of rows on, memory that reading needed is returned to the system first."""


def apply_range(batch: Batch, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
    """Apply the items that one range of one level received; yield its chunks for the next level, and its receipt."""
    with PeakMemory() as memory:
        inbox = Inbox(received(items, batch.settings.task_memory_bytes // ROWS_SHARE))
        if inbox.row_bytes >= LARGE_BYTES:
            pa.default_memory_pool().release_unused()  # what reading needed; Arrow would keep it during the passes
        if inbox.failures:
            raise inbox.failures[0].error()
        inbox.check(len(batch.assignment) if level == 0 else batch.tasks, level)
        task = _Range(batch, level, range_index, inbox)
        task.run()
        yield from task.finish(memory)


@dataclass(frozen=True)
class _Times:
    """The watermarks after the batch, as far as this level knows them.

    Event times of streams downstream of this level's operators are not known yet. If `moved`, every operator has a due
    pass, even if no rows were sent to it.
    """

    after: dict[str, int]
    moved: bool


@dataclass(frozen=True)
class _Applied:
    """An operator after its passes: its maps as they were opened, and as they are now. Nothing is stored yet."""

    operator: BoundOperator
    opened: list[OpenedMap]
    counters: dict[str, Any]
    maps: list[_native.StateMap]
    started: float
    ended: float


@dataclass(frozen=True)
class _Results:
    """Receives the outputs of one pass of an operator. A `flow.Receiver`."""

    outgoing: Outgoing
    files: OutputFiles

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Send rows to an operator of a later level."""
        self.outgoing.to_operator(port, rows)

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Keep rows for a sink until the task stores its files."""
        self.files.add(output, self.outgoing.origin.pass_number, rows)

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Note event times downstream of the operator. They count from the next level on."""
        return self.outgoing.at_watermark(name, column, rows)


class _Range:
    """The state of one running apply task."""

    def __init__(self, batch: Batch, level: int, range_index: int, inbox: Inbox) -> None:
        self.batch, self.level, self.index, self.inbox = batch, level, range_index, inbox
        self.lo, self.hi = batch.bounds[range_index]
        self.store: Store = batch.store()
        self.cache: RunCache = process_cache(batch.settings)
        self.stem = names.stem(batch.plan.number, batch.attempt, range_index, task_attempt())
        self.times = self._times()
        self.sender = Sender(batch, range_index, Observed(event_times=inbox.event_times), combine=False)
        self.chunks: list[Item] = []
        self.files = OutputFiles(batch, self.lo)
        self.state: dict[str, Segments] = {}
        self.rows: dict[str, dict[str, int]] = {}
        self.metrics: dict[str, OperatorMetrics] = {}
        self.deadlines: dict[str, int] = {}
        self.failed: dict[int | None, list[pa.RecordBatch]] = {}
        self.failed_rows: Counter[str] = Counter()
        self.failed_behind: Counter[str] = Counter()
        self.failed_input_rows = 0

    def _times(self) -> _Times:
        batch = self.batch
        after = batch.watermarks_after({name: bounds[1] for name, bounds in self.inbox.event_times.items()})
        moved = any(watermark > batch.watermarks.get(name, 0) for name, watermark in after.items())
        return _Times(after, moved and batch.job.uses_event_time)

    def _passes(self, placed: Placed) -> list[Any]:
        data = self.batch.data_pass(placed)
        has_due = self.times.moved or self.inbox.chunks(placed.operator.name, 1)
        return [data, self.batch.due_pass(placed, self.times.after)] if has_due else [data]

    def run(self) -> None:
        """Apply the operators of the level, one after the other, and store what they change and return."""
        operators = self.batch.job.at_level(self.level)
        self.pass_on()
        for placed in operators:
            handle = placed.operator.open()
            with close_on_error(handle):
                applied = self.apply(placed, handle)
                is_last = placed is operators[-1]
                # After the last operator all rows for sinks are known: their files are made while its maps are stored.
                # The maps go to the other thread, because a sink may encode with objects that belong to this one.
                store_maps = functools.partial(self.store_maps, applied)
                segments, grown = run_both(store_maps, functools.partial(self.work_beside, applied, is_last))
                self.record(applied, segments, grown)
        if not operators:
            self.store_outputs()
        self.inbox.check_read(self.level)

    def pass_on(self) -> None:
        """Send the rows for operators of later levels on, with their counts.

        Their keys are in the range of the same number there. So an operator that reads a source and another operator
        gets the rows of both at once.
        """
        later = [one for one in self.batch.job.operators.values() if one.level > self.level]
        self.chunks += [
            self.sender.pass_on(self.index, chunk) for chunk in self.inbox.take([one.operator.name for one in later])
        ]
        if self.index == 0:  # every range has the counts of all tasks
            labels = {port.label for one in later for port in one.ports}
            observed = self.sender.observed
            for counts in ("reached", "late", "late_behind", "kept_late", "ahead", "ahead_behind"):
                found = getattr(self.inbox, counts)
                setattr(observed, counts, {label: rows for label, rows in found.items() if label in labels})

    def apply(self, placed: Placed, handle: Handle) -> _Applied:
        """Run the passes of one operator and send its outputs on."""
        started = time.perf_counter()
        operator = placed.operator
        opened = [self._open(operator.name, columns.name, columns.engine()) for columns in operator.maps]
        handle.open([one.map for one in opened])
        if placed.keeps_origins:
            handle.keep_origins(placed.may_keep_order)
        begins = operator.name in self.batch.begins
        for number, times in enumerate(self._passes(placed)):
            chunks = self.inbox.chunks(operator.name, number)
            given = parts_of(placed, chunks)
            rows = self._apply_pass(placed, handle, chunks, given, times.beginning() if begins else times)
            self._quarantine_failed(operator, handle, given)
            emitted = self._emitted(handle, given, rows) if placed.keeps_origins else None
            del chunks, given
            self.inbox.drop(operator.name, number)
            if rows.num_rows:
                # Not by the number of the range first: it depends on the number of tasks.
                order = (wire.EMITTED, list(self.batch.job.operators).index(operator.name))
                origin = RowOrigin(order, self.index, number, order_last=(self.index,), emitted=emitted)
                outgoing = Outgoing(self.sender, origin)
                results = _Results(outgoing, self.files)
                flow.run_steps(self.batch.job, placed.node, rows, results, f"operator `{operator.name}`")
                self.chunks += outgoing.items
        ended = time.perf_counter()
        return _Applied(operator, opened, handle.metrics(), handle.finish(), started, ended)

    def store_maps(self, applied: _Applied) -> Segments:
        """Store the maps of an operator."""
        maps = applied.operator.maps
        persist_map = functools.partial(self._persist, applied.operator.name)
        calls = [
            functools.partial(persist_map, one.name, before, changed)
            for one, before, changed in zip(maps, applied.opened, applied.maps, strict=True)
        ]
        return dict(zip((one.name for one in maps), side_by_side(self.store, calls), strict=True))

    def work_beside(self, applied: _Applied, is_last: bool) -> dict[str, int]:
        """Do the work that runs beside `store_maps`: after the last operator, store the files for sinks.

        Return by how many rows each map of the operator has grown.
        """
        if is_last:
            self.store_outputs()
        return {
            one.name: changed.live_change() for one, changed in zip(applied.operator.maps, applied.maps, strict=True)
        }

    def record(self, applied: _Applied, segments: Segments, grown: dict[str, int]) -> None:
        """Record an operator for the receipt, whose maps have `grown` by so many rows."""
        operator, counters = applied.operator, applied.counters
        job = self.batch.job
        ports = job.operators[operator.name].ports if self.index == 0 else ()
        late = {port.input.port: rows for port in ports if (rows := self.inbox.late.get(port.label, 0))}

        def total(counts: dict[str, int]) -> int:
            return sum(counts.get(port.label, 0) for port in ports)

        self.state[operator.name] = segments
        self.rows[operator.name] = grown
        self._record_deadline(operator)
        self.metrics[operator.name] = OperatorMetrics(
            rows=counters.get("rows", 0),
            rows_updated=counters.get("rows_updated", 0),
            rows_removed=counters.get("rows_removed", 0),
            timed_out=counters.get("timed_out", 0),
            failed=counters.get("failed", 0),
            failure=str(counters.get("failure", "")),
            rows_total=next(iter(grown.values()), 0),  # the driver adds the rows of the version before
            late_rows=sum(late.values()),
            late_inputs={name: rows for name, rows in late.items() if name},
            kept_late_rows=total(self.inbox.kept_late),
            reached_rows=total(self.inbox.reached) + total(self.inbox.ahead),
            failed_rows=self.failed_rows[operator.name] + total(self.inbox.ahead),
            late_behind=total(self.inbox.late_behind),
            failed_behind=self.failed_behind[operator.name] + total(self.inbox.ahead_behind),
            behind=sorted({name for port in ports for name in job.upstream_of(port)}),
            apply_ms=int((applied.ended - applied.started) * 1000),
            commit_ms=int((time.perf_counter() - applied.ended) * 1000),
        )

    def _apply_pass(
        self, placed: Placed, handle: Handle, chunks: list[Chunk], given: list[GivenRows], pass_: Any
    ) -> pa.RecordBatch:
        try:
            rows = handle.apply([part.rows for part in given], pass_, [part.port.number for part in given])
            order = handle.take_order()
            return rows if order is None else rows.append_column(ROW, order)
        except InvalidInput as error:
            number = getattr(error, "chunk", None)
            if number is None or number >= len(given):
                raise
            first, _, rest = error.message.partition("\n")
            place = failed_rows(self.batch, placed, self.index, chunks, given[number], error)
            raise InvalidInput(
                f"{first}, processing {place}" + (f"\n{rest}" if rest else ""), hint=error.hint
            ) from error

    def _emitted(self, handle: Handle, given: list[GivenRows], rows: pa.RecordBatch) -> Emitted | None:
        """Return the places of the rows that a pass emitted; None if they have no numbers, or none but their keys."""
        known = [part.places for part in given]
        found = handle.take_places([(one.blocks, one.rows) for one in known])
        if found is None or ROW not in rows.schema.names:
            return None
        return Emitted(rows.column(ROW), Places(*found))

    def _quarantine_failed(self, operator: BoundOperator, handle: Handle, given: list[GivenRows]) -> None:
        """Keep the rows of keys whose calls failed for quarantine. The batch counts those of files only."""
        for number, rows, reasons in handle.take_quarantined():
            for failed in failed_parts(given[number], rows, reasons, flow.key_of(rows, operator)):
                split = None if failed.split is None else self.batch.plan.splits[failed.split]
                label = given[number].port.label
                rejects = failed_rejects(failed.rows, failed.reasons, failed.numbers, label, split)
                # What an operator emitted is not found in a file, though it was emitted for a row there.
                is_emitted = not failed.is_read or (split is not None and is_given_back(split))
                if is_emitted:
                    rejects = with_given(rejects, label, failed.rows)
                self.failed.setdefault(None if is_emitted else failed.split, []).append(rejects)
                self.failed_rows[operator.name] += rejects.num_rows
                self.failed_behind[operator.name] += 0 if failed.is_read else rejects.num_rows
                self.failed_input_rows += rejects.num_rows if failed.is_read else 0

    def _open(self, operator: str, map_name: str, schema: _native.MapSchema) -> OpenedMap:
        segments = self.batch.state.get(operator, {}).get(map_name, [])
        return open_map(self.store, self.cache, schema, segments, self.lo, self.hi)

    def _persist(self, operator: str, map_name: str, before: OpenedMap, after: _native.StateMap) -> list[Segment]:
        name = names.segment(operator, map_name, self.batch.plan.branch, self.stem)
        return persist(self.store, self.cache, before, after, self.batch.plan.number, name)

    def _record_deadline(self, operator: BoundOperator) -> None:
        segments = [segment for of_map in self.state[operator.name].values() for segment in of_map]
        found = [segment.min_deadline_ms for segment in segments if segment.min_deadline_ms is not None]
        if operator.clock is not None and found:
            timer = "batch" if operator.clock == "batch" else f"event/{operator.name}"
            self.deadlines[timer] = min(*found, self.deadlines.get(timer, found[0]))

    def store_outputs(self) -> None:
        """Store the files for sinks: rows of this task's operators, and rows of keyless streams."""
        for chunk in self.inbox.keyless_outputs():
            self.files.add(self._output(chunk.head.subject), 0, chunk.batch(), chunk.head.split_hash)
        self.files.store(self.store, self.stem)

    def finish(self, memory: PeakMemory) -> Iterator[Item]:
        """Store the quarantine file; yield the chunks for a next level and the receipts."""
        quarantine = self._store_quarantine()
        peak = max(self.inbox.peak_memory_bytes, memory.look())
        receipt = Receipt(
            level=self.level,
            lo=self.lo,
            hi=self.hi,
            splits=self.inbox.splits,
            state=self.state,
            rows=self.rows,
            outputs=self.files.stored(),
            quarantine=quarantine,
            operators=self.metrics,
            watermarks=self.times.after,
            next_deadline=self.deadlines,
            fingerprints=self.inbox.fingerprints if self.index == 0 else {},
            bad_files=self.inbox.bad_files if self.index == 0 else {},
            late_rows=self.inbox.late_rows if self.index == 0 else 0,
            kept_late_rows=self.inbox.kept_late_rows if self.index == 0 else 0,
            late_examples=self.inbox.late_examples if self.index == 0 else [],
            quarantined_rows=self.failed_input_rows + (self.inbox.quarantined_rows if self.index == 0 else 0),
            furthest=self.inbox.furthest if self.index == 0 else {},
            event_time={name: {"min": low, "max": high} for name, (low, high) in self.inbox.event_times.items()},
            peak_memory_bytes=peak,
        )
        is_last = self.level == self.batch.levels - 1
        if not is_last:
            yield from self.chunks
            self.sender.observed.peak_memory_bytes = peak
            yield from self.sender.headers()
        target = 0 if is_last else self.index
        for record in (codec.encode(receipt), *(known.record for known in self.inbox.receipts)):
            yield Item(target, wire.receipt(record))

    def _output(self, name: str) -> JobSink:
        output = self.batch.job.outputs.get(name)
        if output is None:
            raise InternalError(f"rows arrived for the sink `{name}`, which the job does not have")
        return output

    def _failed_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of failed keys, whole if their numbers in a file are known."""
        for split, rejects in self.failed.items():
            numbers = {row - 1 for rows in rejects for row in rows.column("row").to_pylist() if row is not None}
            read = [] if split is None or not numbers else read_rows(self.batch, self.batch.plan.splits[split], numbers)
            yield from (with_rows(self.batch.job, rows, read) for rows in rejects)

    def _store_quarantine(self) -> list[QuarantineFile]:
        tables = [pa.Table.from_batches(chunk.batches()) for chunk in self.inbox.quarantined()]
        tables += [pa.Table.from_batches([rows]) for rows in self._failed_rows()]
        if not tables:
            return []
        table = pa.concat_tables(tables, promote_options="default")
        data = b"".join(staged.data for staged in forms.staged(table))
        name = names.quarantine_file(self.batch.plan.branch, self.stem)
        self.store.put(name, data)
        return [QuarantineFile(name, digest(data), len(data), table.num_rows)]
