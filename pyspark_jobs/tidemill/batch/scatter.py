"""A scatter task: reads its splits, applies the stateless steps, prepares rows for the operators, sends them by key.

Rows travel as chunks by key range; what has no key (unreadable rows, late rows, outputs of keyless streams) travels to
the range of its split's hash. INVARIANT: every range gets one header a task, naming the task's splits and the number
of chunks it was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from .. import _native
from ..pipeline.job import Action, Output, Placed
from ..protocol.records import Split
from ..sources.contract import REJECT_SCHEMA, ReadContext
from . import flow, wire
from .batch import Batch
from .inbox import split_hash
from .put_aside import texts
from .ranges import range_of
from .wire import Head
from .work import Item

ROW = "_row"


def run(batch: Batch, task: int) -> Iterator[Item]:
    """What scatter task `task` of a batch sends."""
    sender = _Sender(batch, task)
    for number in batch.assignment[task]:
        yield from sender.split(number, batch.plan.splits[number])
    yield from sender.headers()


@dataclass
class _Observed:
    """What a task saw, as its headers say it."""

    splits: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    late_rows: int = 0
    quarantined_rows: int = 0


class _Sender:
    """Cuts rows into chunks, counts what it sends to each range."""

    def __init__(self, batch: Batch, task: int) -> None:
        self.batch = batch
        self.task = task
        self.ends = [hi for _, hi in batch.bounds]
        self.sent = [0] * batch.tasks
        self.observed = _Observed()
        first = batch.job.at_level(0)
        self.passes = {placed.operator.name: batch.data_pass(placed) for placed in first}
        self.handles = {placed.operator.name: placed.operator.open() for placed in first}
        self.roots = {name: [a for a in batch.job.actions if a.source == name] for name in batch.job.sources}
        self.contexts = {name: self._context(roots) for name, roots in self.roots.items()}

    def split(self, number: int, split: Split) -> Iterator[Item]:
        """All chunks of one split."""
        source = self.batch.job.sources[split.source]
        roots = self.roots[split.source]
        keyless = split_hash(split.source, split.path)
        rows = blocks = 0
        for block in source.read(split, self.batch.plan.block_rows, self.contexts[split.source]):
            received = _Block(self, number, split, block.number, keyless)
            for action in roots:
                flow.run(self.batch.job, action.number, block.rows, received, f"`{split.path}`")
            received.rejected(block.rejects)
            received.finish(block.rows.num_rows)
            rows += block.rows.num_rows + (0 if block.rejects is None else block.rejects.num_rows)
            blocks = block.number + 1
            yield from received.items
        last = _Block(self, number, split, blocks, keyless)
        for placed in self.batch.job.at_level(0):
            last.rest(placed)
        yield from last.items
        self.observed.splits[str(number)] = self.observed.splits.get(str(number), 0) + rows

    def _context(self, roots: list[Action]) -> ReadContext:
        """How a source is read: only the columns that are looked at, where that is known."""
        reads = [self.batch.job.reads(action.number) for action in roots]
        known = [columns for columns in reads if columns is not None]
        columns = frozenset[str]().union(*known) if len(known) == len(reads) else None
        return replace(self.batch.read_context(), columns=columns)

    def item(self, target: int, head: Head, rows: pa.RecordBatch | pa.Table) -> Item:
        """A chunk, counted."""
        self.sent[target] += 1
        return Item(target, wire.encode(head, rows))

    def headers(self) -> Iterator[Item]:
        """One header for each range."""
        seen = self.observed
        for target, sent in enumerate(self.sent):
            fields: dict[str, Any] = {
                "sent": sent,
                "splits": seen.splits,
                "event_times": seen.bounds,
                "late": seen.late,
                "late_rows": seen.late_rows,
                "quarantined_rows": seen.quarantined_rows,
            }
            yield Item(target, wire.encode(Head(wire.HEADER, sender=self.task, fields=fields)))


class _Block:
    """Receives the rows of one block; `items` is what they become."""

    def __init__(self, sender: _Sender, split_number: int, split: Split, block: int, keyless: int) -> None:
        self.sender = sender
        self.split_number, self.split, self.block, self.hash = split_number, split, block, keyless
        self.keyless = range_of(keyless, sender.batch.bounds)
        self.items: list[Item] = []
        self.late_ids: set[int] = set()
        self.aside_ids: set[int] = set()
        self.late_uncounted = 0
        self.turns: Counter[str] = Counter()

    def to_operator(self, placed: Placed, rows: pa.RecordBatch) -> None:
        """Prepared in Rust (late rows out, combined or kept back to be), then cut by key range."""
        operator = placed.operator
        given = flow.looked_at(rows, operator)
        prepared = self.sender.handles[operator.name].prepare(given, self.sender.passes[operator.name])
        if prepared.late is not None:
            self._late(placed, rows, prepared.late)
        self._cut(placed, prepared.rows)

    def rest(self, placed: Placed) -> None:
        """What the operator has kept back of the split's rows."""
        rows = self.sender.handles[placed.operator.name].rest()
        if rows is not None:
            self._cut(placed, rows)

    def _cut(self, placed: Placed, rows: pa.RecordBatch) -> None:
        operator = placed.operator
        self.turns[operator.name] += 1
        parts = _native.partition(rows, flow.key_of(rows, operator), self.sender.ends)
        for target, part in enumerate(parts):
            for number, piece in enumerate(pieces(part, self.sender.batch.settings.chunk_bytes)):
                self._send(target, wire.ROWS, operator.name, piece, number, self.turns[operator.name])

    def to_output(self, output: Output, rows: pa.RecordBatch) -> None:
        """Rows of a keyless stream, to the range of the split."""
        given = flow.declared(rows, output.schema)
        turn = f"output {output.name}"
        self.turns[turn] += 1
        for number, piece in enumerate(pieces(given, self.sender.batch.settings.chunk_bytes)):
            self._send(self.keyless, wire.OUTPUT, output.name, piece, number, self.turns[turn])

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> None:
        """Event times seen."""
        wire.widen(self.sender.observed.bounds, name, _native.time_bounds_ms(rows.column(column)))

    def rejected(self, rejects: pa.Table | None) -> None:
        """Rows that could not be read, to quarantine."""
        if rejects is not None and rejects.num_rows:
            self.sender.observed.quarantined_rows += rejects.num_rows
            self._send(self.keyless, wire.REJECTS, "", rejects, 0)

    def finish(self, rows: int) -> None:
        """A row that is late for any operator counts as late, once; never more rows than the block's `rows`."""
        self.sender.observed.late_rows += min(rows, len(self.late_ids) + self.late_uncounted)

    def _late(self, placed: Placed, rows: pa.RecordBatch, mask: pa.BooleanArray) -> None:
        operator, observed = placed.operator, self.sender.observed
        late = rows.filter(mask)
        observed.late[operator.name] = observed.late.get(operator.name, 0) + late.num_rows
        if ROW in late.schema.names:
            self.late_ids.update(late.column(ROW).to_pylist())
        else:  # a step that changed the number of rows: rows have lost their numbers
            self.late_uncounted = max(self.late_uncounted, late.num_rows)
        if operator.input.late == "quarantine":
            self._put_aside(placed, late)

    def _put_aside(self, placed: Placed, late: pa.RecordBatch) -> None:
        """Late rows to quarantine, each once, however many operators it was late for."""
        if ROW in late.schema.names:
            ids = late.column(ROW).to_pylist()
            fresh = [i for i, row in enumerate(ids) if row not in self.aside_ids]
            self.aside_ids.update(ids)
            late = late.take(pa.array(fresh, pa.int64()))
        if late.num_rows:
            rejects = late_rejects(placed, late, self.split.source, self.split.path)
            self._send(self.keyless, wire.LATE, placed.operator.name, rejects, 0)

    def _send(
        self, target: int, kind: str, subject: str, rows: pa.RecordBatch | pa.Table, part: int, turn: int = 0
    ) -> None:
        """`turn`: how often the block has come here already, by another branch of a union."""
        order = (self.split_number, self.block, turn, part)
        fields = {"hash": self.hash} if kind == wire.OUTPUT else {}
        head = Head(kind, self.sender.task, subject, 0, order, self.split_number, fields)
        self.items.append(self.sender.item(target, head, rows))


def late_rejects(placed: Placed, late: pa.RecordBatch, source: str | None, file: str | None) -> pa.RecordBatch:
    """Late rows as rows for quarantine: what they were, and for which operator they came too late."""
    columns = [name for name in late.schema.names if name in placed.operator.input.schema.names]
    lines = late.column(ROW).to_pylist() if ROW in late.schema.names else [None] * late.num_rows
    time = placed.operator.input.event_time
    missing = [False] * late.num_rows if time is None else late.column(time).is_null().to_pylist()
    reasons = [
        f"operator `{placed.operator.name}`: without an event time, in no window"
        if is_missing
        else f"late for operator `{placed.operator.name}`: at or before the watermark"
        for is_missing in missing
    ]
    records = [
        {
            "source": source,
            "file": file,
            "line": None if line is None else line + 1,
            "column": time,
            "reason": reason,
            "text": text,
        }
        for line, text, reason in zip(lines, texts(late.select(columns)), reasons, strict=True)
    ]
    return pa.RecordBatch.from_pylist(records, schema=REJECT_SCHEMA)


def pieces(rows: pa.RecordBatch, chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of about `chunk_bytes` at most; none where there are no rows."""
    if rows.num_rows == 0:
        return
    count = min(rows.num_rows, -(-rows.nbytes // chunk_bytes)) or 1
    step = -(-rows.num_rows // count)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
