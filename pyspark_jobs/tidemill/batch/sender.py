"""Sending rows to the key ranges of a level: cut by key, cut to size, counted, and announced by headers.

Scatter tasks send blocks of splits, apply tasks the outputs of their operators. INVARIANT: every range gets one header
from every task, with the number of chunks that the task sent to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from .. import _native
from ..operators.contract import BoundOperator, Handle
from ..pipeline import flow
from ..pipeline.job import JobSink, Port
from ..protocol.records import Furthest, Split
from ..schema import int64_array
from ..schema.kernels import pc
from ..sources.contract import ROW, Block
from ..values import dataclass
from . import places, wire
from .batch import Batch
from .held import LARGEST_HELD_BYTES, HeldRows
from .lateness import EXAMPLES, examples, kept_late
from .quarantine import Provenance, ahead_rejects, labels_of, late_rejects, row_numbers
from .wire import Chunk, ChunkHead
from .work import Item


@dataclass(frozen=True)
class RowOrigin:
    """Where rows come from: a block of a split, or one pass of an upstream operator."""

    order: tuple[int, ...]
    """Sorts its chunks among those of other origins, before the number of the branch that they came by."""
    keyless: int
    """The range that receives its rows without a key."""
    pass_number: int = 0
    number: int | None = None
    """The number of the split."""
    split: Split | None = None
    split_hash: int = 0
    read: pa.RecordBatch | None = None
    """The rows of the block as the source gave them, which quarantine keeps whole."""
    order_last: tuple[int, ...] = ()
    """Sorts its chunks after the number of the branch: the key range of rows that an operator emitted."""
    emitted: places.Emitted | None = None
    """The places of the rows that an operator emitted, if an operator behind it needs them."""

    def places(self, rows: pa.RecordBatch) -> places.Places:
        """Return the places of rows that reach an operator."""
        if self.number is not None:
            return places.of_block(self.number, self.order[1], rows)
        return places.after_all(rows.num_rows) if self.emitted is None else self.emitted.of(rows)

    def provenances(self, splits: Sequence[Split], rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Provenance]]:
        """Yield rows for quarantine with their provenance. Emitted rows have that of the rows they were emitted for."""
        if self.emitted is None:
            yield rows, Provenance(self.split, self.read)
            return
        found = self.emitted.of(rows).of_rows()
        for number in dict.fromkeys(None if one is None else one[0] for one in found):
            at = [row for row, one in enumerate(found) if (None if one is None else one[0]) == number]
            rows_there = [None if (one := found[row]) is None else one[1] for row in at]
            split = None if number is None else splits[number]
            yield rows.take(int64_array(at)), Provenance(split, None, tuple(rows_there))


class Sender:
    """The outgoing chunks of one task.

    With `combine` an operator may fold rows of one key into one row; without, each row stays its own.
    """

    def __init__(self, batch: Batch, task: int, observed: wire.Observed, *, combine: bool) -> None:
        self.batch, self.task, self.observed, self.combine = batch, task, observed, combine
        self._ends = [hi for _, hi in batch.bounds]
        self._sent = [0] * batch.tasks
        self._handles: dict[str, tuple[Port, Handle, Any]] = {}
        self._held: dict[str, tuple[Port, HeldRows]] = {}

    def prepare(self, port: Port, rows: pa.RecordBatch) -> Any:
        """Return what the operator makes of the rows before the exchange: `.rows` and the mask `.late`.

        Rows that carry their places are not combined.
        """
        given = flow.read_columns(rows, port) if self.combine else flow.declared(rows, port.input.schema)
        handle, data_pass = self._handle(port)
        prepared = handle.prepare(given, data_pass, combine=self.combine and not port.carries_places)
        return NumberedRows(prepared, rows) if self._numbers(port.operator, rows) else prepared

    def _numbers(self, operator: BoundOperator, rows: pa.RecordBatch) -> bool:
        """Whether rows keep their numbers: those of a file for quarantine, emitted ones for errors of functions."""
        if self.combine:
            return operator.quarantines
        return bool(operator.functions) and ROW in rows.schema.names

    def prepare_splits(self, port: Port, rows: pa.RecordBatch, counts: Sequence[int]) -> pa.RecordBatch:
        """Return what the operator makes of the rows of several splits, none of which is late."""
        handle, data_pass = self._handle(port)
        made: pa.RecordBatch = handle.prepare_splits(flow.read_columns(rows, port), counts, data_pass)
        return made

    def count_reached(self, port: Port, rows: int) -> None:
        """Count rows that reached an input of an operator, before the late ones are removed."""
        counts = self.observed.reached
        if rows:
            counts[port.label] = counts.get(port.label, 0) + rows

    @property
    def prepared(self) -> list[Port]:
        """The inputs whose rows were prepared so far."""
        return [port for port, _, _ in self._handles.values()]

    def rest(self, port: Port) -> pa.RecordBatch | None:
        """Return the rows that the operator buffered for combining, or None."""
        return self._handle(port)[0].rest()

    def by_key(self, port: Port, head: ChunkHead, rows: pa.RecordBatch) -> Iterator[Item]:
        """Send prepared rows to the ranges of their keys."""
        for target, part in enumerate(_native.partition(rows, flow.key_of(rows, port.operator), self._ends)):
            yield from self.to_range(target, head, part)

    def send(self, port: Port, head: ChunkHead, rows: pa.RecordBatch) -> Iterator[Item]:
        """Send prepared rows, or let few rows of a split wait for those of the next splits."""
        label = port.label
        is_small = self.combine and rows.nbytes < LARGEST_HELD_BYTES and is_anonymous(port.operator)
        _, held = self._held.get(label, (port, None))
        if held is not None and not (is_small and held.takes(head, rows)):
            yield from self.release(label)
            held = None
        if not is_small:
            yield from self.by_key(port, head, rows)
            return
        if held is None:
            self._held[label] = port, HeldRows.begin(head, rows)
        else:
            held.add(head, rows)
            if held.is_full:
                yield from self.release(label)

    def release(self, *labels: str) -> Iterator[Item]:
        """Send the rows that wait, of these inputs or of all."""
        for label in labels or list(self._held):
            port, held = self._held.pop(label)
            yield from self.by_key(port, held.head, held.together())

    def pass_on(self, target: int, chunk: Chunk) -> Item:
        """Send a chunk that arrived to a range of the next level, as a chunk of this task."""
        self._sent[target] += 1
        return Item(target, wire.again(replace(chunk.head, sender=self.task), chunk.body))

    def to_range(self, target: int, head: ChunkHead, rows: pa.RecordBatch) -> Iterator[Item]:
        """Send rows to one range, in chunks of about `chunk_bytes` at most."""
        for number, piece in enumerate(pieces(rows, self.batch.settings.chunk_bytes)):
            yield self.chunk(target, replace(head, order=(*head.order, number)), piece)

    def chunk(self, target: int, head: ChunkHead, rows: pa.RecordBatch | pa.Table) -> Item:
        """Send rows to one range as one chunk."""
        self._sent[target] += 1
        return Item(target, wire.chunk(head, rows))

    def headers(self) -> Iterator[Item]:
        """Send one header to each range. They come last, because they count the chunks."""
        for target, sent in enumerate(self._sent):
            yield Item(target, wire.header(wire.Header(self.task, sent, self.observed)))

    def _handle(self, port: Port) -> tuple[Handle, Any]:
        label = port.label
        if label not in self._handles:
            self._handles[label] = port, port.operator.open_port(port.number), self.batch.preparing(port)
        _, handle, data_pass = self._handles[label]
        return handle, data_pass


def is_anonymous(operator: BoundOperator) -> bool:
    """Whether no error names the split of a row: only functions of users fail on rows that were sent."""
    return not operator.functions and not operator.quarantines


class NumberedRows:
    """Prepared rows with their numbers as last column, null if a step lost them; never combined.

    By its number in its file, a row of a key that fails is found again. That of an emitted row is its order number.
    """

    def __init__(self, prepared: Any, given: pa.RecordBatch) -> None:
        self.late, self.made_of = prepared.late, getattr(prepared, "made_of", None)
        numbers = given.column(ROW) if ROW in given.schema.names else pa.nulls(given.num_rows, pa.int64())
        self.rows = prepared.rows.append_column(pa.field(ROW, pa.int64()), places.of_prepared(prepared, numbers))


class Outgoing:
    """Receives the rows of one origin from `flow`; `items` is what it sends. A `flow.Receiver`."""

    def __init__(self, sender: Sender, origin: RowOrigin) -> None:
        self.sender, self.origin = sender, origin
        self._items: list[Item] = []
        self._late: list[tuple[Port, pa.RecordBatch]] = []
        self._turns: Counter[str] = Counter()
        self._late_ids: set[int] = set()
        self._quarantined_ids: set[int] = set()
        self._late_without_id = 0
        self._kept_ids: set[int] = set()
        self._kept_without_id = 0

    @property
    def items(self) -> list[Item]:
        """Everything that was sent so far."""
        late, self._late = self._late, []
        self._quarantine_late(late)
        return self._items

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Send rows to the ranges of their keys, without the late ones."""
        self.sender.count_reached(port, rows.num_rows)
        prepared = self.sender.prepare(port, rows)
        if prepared.late is not None:
            self._count_late(port, rows.filter(prepared.late))
        kept = kept_late(port, rows, port.least(self.sender.batch.watermarks))
        if kept is not None:
            self._count_kept(port, kept)
        sent, block = prepared.rows, None
        if port.carries_places and sent.num_rows:
            sent, block = places.attach(sent, prepared, self.origin.places(rows))
        self._by_key(port, sent, block)

    def rest(self) -> None:
        """Send the rows that operators buffered for combining."""
        for port in self.sender.prepared:
            rows = self.sender.rest(port)
            if rows is not None:
                self._by_key(port, rows)

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Send rows of a keyless stream to the range of their split."""
        head = self._head(wire.OUTPUT, output.name, self._turn(f"output {output.name}"))
        self._items += self.sender.to_range(self.origin.keyless, head, flow.declared(rows, output.schema))

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Note the event times of the rows. Send those that are too far ahead to quarantine; return the others."""
        batch = self.sender.batch
        limit = batch.job.watermarks[name].max_ahead_ms
        bounds = _native.time_bounds_ms(rows.column(column))
        if limit is not None and bounds is not None and bounds[1] > batch.plan.batch_time_ms + limit:
            ahead = _native.after_ms(rows.column(column), batch.plan.batch_time_ms + limit)
            self._quarantine_ahead(name, column, rows.filter(ahead))
            rows = rows.filter(pc.invert(ahead))
            bounds = _native.time_bounds_ms(rows.column(column))
        wire.widen(self.sender.observed.event_times, name, bounds)
        if bounds is not None and bounds[1] > batch.plan.batch_time_ms:
            self._note_furthest(name, column, rows, bounds[1])
        return rows

    def _note_furthest(self, name: str, column: str, rows: pa.RecordBatch, time_ms: int) -> None:
        """Remember the row with the greatest event time, so that a warning can name it."""
        known = self.sender.observed.furthest.get(name)
        if known is not None and known.time_ms >= time_ms:
            return
        place = pc.index(rows.column(column), pc.max(rows.column(column))).as_py()
        ((one, provenance),) = self._provenances(rows.slice(place, 1))
        (number,) = row_numbers(one, provenance)
        file = None if provenance.split is None else provenance.split.path
        self.sender.observed.furthest[name] = Furthest(time_ms, file, None if number is None else number + 1)

    def quarantine_rejects(self, block: Block) -> None:
        """Send rows that could not be read to quarantine."""
        if block.lost_rows is not None:
            self.sender.observed.bad_files[str(self.origin.number)] = block.lost_rows
        if block.rejects is not None and block.rejects.num_rows:
            self.sender.observed.quarantined_rows += block.rejected_rows
            self._to_quarantine(wire.REJECTS, "", block.rejects)

    def count_late_rows(self, rows: int) -> None:
        """Add the late rows of a block of `rows` input rows to the batch's count.

        A row that is late for several operators counts once. Rows that lost their number are counted by operator, the
        largest count being taken.
        """
        late = min(rows, len(self._late_ids) + self._late_without_id)
        kept = len(self._kept_ids - self._late_ids) + self._kept_without_id
        self.sender.observed.late_rows += late
        self.sender.observed.kept_late_rows += min(rows - late, kept)

    def _by_key(self, port: Port, rows: pa.RecordBatch, block: int | None = None) -> None:
        head = self._head(wire.ROWS, port.operator.name, self._turn(port.label), port.number)
        if block is not None:
            head = replace(head, block=block)
        if rows.num_rows:
            self._items += self.sender.send(port, head, rows)

    def _count_late(self, port: Port, late: pa.RecordBatch) -> None:
        label, counts = port.label, self.sender.observed.late
        counts[label] = counts.get(label, 0) + late.num_rows
        if self.origin.split is None:
            behind = self.sender.observed.late_behind
            behind[label] = behind.get(label, 0) + late.num_rows
        if ROW in late.schema.names:
            self._late_ids.update(late.column(ROW).to_pylist())
        else:  # a step that changes the number of rows drops their numbers
            self._late_without_id = max(self._late_without_id, late.num_rows)
        self._note_late(port, late)
        if port.input.late == "quarantine" and late.num_rows:
            self._late.append((port, late))

    def _count_kept(self, port: Port, late: pa.RecordBatch) -> None:
        """Count late rows that the operator is given all the same."""
        label, counts = port.label, self.sender.observed.kept_late
        counts[label] = counts.get(label, 0) + late.num_rows
        if ROW in late.schema.names:
            self._kept_ids.update(late.column(ROW).to_pylist())
        else:
            self._kept_without_id = max(self._kept_without_id, late.num_rows)
        self._note_late(port, late)

    def _note_late(self, port: Port, late: pa.RecordBatch) -> None:
        """Remember the first late rows of the task, so that messages can name them."""
        known = self.sender.observed.late_examples
        if len(known) < EXAMPLES:
            watermark_ms = port.least(self.sender.batch.watermarks) or 0
            for rows, provenance in self._provenances(late.slice(0, EXAMPLES - len(known))):
                known += examples(port, rows, watermark_ms, provenance)

    def _quarantine_late(self, found: Sequence[tuple[Port, pa.RecordBatch]]) -> None:
        """Send late rows to quarantine, each row once, with all inputs that it is late for."""
        labels: dict[int, dict[str, None]] = {}
        for port, late in found:
            for row in late.column(ROW).to_pylist() if ROW in late.schema.names else ():
                labels.setdefault(row, {})[port.label] = None
        for port, late in found:
            named = None
            if ROW in late.schema.names:
                late, ids = self._fresh(late)
                named = {row: ",".join(labels[row]) for row in ids}
            for rows, provenance in self._provenances(late):
                given = None if named is None else [named[row] for row in rows.column(ROW).to_pylist()]
                rejects = late_rejects(self.sender.batch, port, rows, provenance, given)
                self._to_quarantine(wire.LATE_REJECTS, port.label, rejects)

    def _provenances(self, rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Provenance]]:
        """Yield rows for quarantine, if there are any, with their provenance."""
        if rows.num_rows:
            yield from self.origin.provenances(self.sender.batch.plan.splits, rows)

    def _fresh(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        """Return the rows that are not in quarantine yet, with their numbers. From now on they are."""
        ids = rows.column(ROW).to_pylist()
        fresh = [place for place, row in enumerate(ids) if row not in self._quarantined_ids]
        self._quarantined_ids.update(ids)
        return rows.take(int64_array(fresh)), [ids[place] for place in fresh]

    def _quarantine_ahead(self, name: str, column: str, ahead: pa.RecordBatch) -> None:
        """Send rows that are too far ahead of the batch time to quarantine, each row once. Input rows are counted."""
        if ROW in ahead.schema.names:
            ahead, _ = self._fresh(ahead)
        if not ahead.num_rows:
            return
        observed = self.sender.observed
        counts = [observed.ahead, *([observed.ahead_behind] if self.origin.split is None else [])]
        for label in labels_of(self.sender.batch.job, name):
            for by_label in counts:
                by_label[label] = by_label.get(label, 0) + ahead.num_rows
        if self.origin.split is not None:
            observed.quarantined_rows += ahead.num_rows
        for rows, provenance in self._provenances(ahead):
            rejects = ahead_rejects(self.sender.batch, name, column, rows, provenance)
            self._to_quarantine(wire.REJECTS, f"watermark {name}", rejects)

    def _to_quarantine(self, kind: wire.ChunkKind, subject: str, rejects: pa.RecordBatch | pa.Table) -> None:
        head = self._head(kind, subject, 0)
        self._items.append(self.sender.chunk(self.origin.keyless, replace(head, order=(*head.order, 0)), rejects))

    def _turn(self, subject: str) -> int:
        """Return how often rows of this origin reached `subject`. By two branches of a union they reach it twice."""
        self._turns[subject] += 1
        return self._turns[subject]

    def _head(self, kind: wire.ChunkKind, subject: str, turn: int, port: int = 0) -> ChunkHead:
        origin = self.origin
        order = (*origin.order, turn, *origin.order_last)
        return ChunkHead(
            kind, self.sender.task, subject, order, origin.pass_number, origin.number, origin.split_hash, port
        )


def pieces(rows: pa.RecordBatch, chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut rows into batches of about `chunk_bytes` at most; yield nothing if there are no rows."""
    if rows.num_rows == 0:
        return
    count = min(rows.num_rows, -(-rows.nbytes // chunk_bytes)) or 1
    step = -(-rows.num_rows // count)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
