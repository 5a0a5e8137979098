"""What leaves an apply task: rows for sinks, as files of the sink's own form, and rows for the next level, as chunks.

Outputs of an operator reach the next one in the order (pass, key hash, key bytes, emission number), not combined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError
from ..operators.contract import Handle
from ..pipeline.job import Output, Placed
from ..protocol.records import OutputFile, digest
from ..sinks.files import Parquet
from ..store import Store
from . import flow, wire
from .batch import Batch
from .inbox import Inbox
from .scatter import late_rejects, pieces
from .wire import Head
from .work import Item

_KEPT = Parquet("kept")


class Outbox:
    """The outgoing rows of one range of one level. A `flow.Receiver`."""

    def __init__(self, batch: Batch, level: int, lo: int) -> None:
        self.batch, self.level, self.lo = batch, level, lo
        self.pass_number = 0
        self.sender = [low for low, _ in batch.bounds].index(lo)
        self._rows: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
        self._chunks: list[Item] = []
        self._sent = [0] * batch.tasks
        self._parts: dict[str, int] = defaultdict(int)
        self._ends = [hi for _, hi in batch.bounds]
        self._handles: dict[str, Handle] = {}
        self._late_rows: dict[str, int] = {}
        self._event_times: dict[str, tuple[int, int]] = {}
        self._stored: dict[str, list[OutputFile]] = defaultdict(list)

    def to_output(self, output: Output, rows: pa.RecordBatch, number: int | None = None) -> None:
        """Rows for a sink; `number` is the pass, where it is not the one at work."""
        chosen = self.pass_number if number is None else number
        self._rows[output.name, chosen].append(flow.declared(rows, output.schema))

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> None:
        """Event times seen behind an operator: they count from the next level on."""
        wire.widen(self._event_times, name, _native.time_bounds_ms(rows.column(column)))

    def to_operator(self, placed: Placed, rows: pa.RecordBatch) -> None:
        """Rows for an operator of the next level, row by row as its input, cut by its key."""
        operator = placed.operator
        handle = self._handles.get(operator.name) or operator.open()
        self._handles[operator.name] = handle
        given = flow.declared(rows, operator.input.schema)
        prepared = handle.prepare(given, self.batch.data_pass(placed), combine=False)
        if prepared.late is not None:
            self._late(placed, given.filter(prepared.late))
        key = flow.key_of(prepared.rows, operator)
        for target, part in enumerate(_native.partition(prepared.rows, key, self._ends)):
            for piece in pieces(part, self.batch.settings.chunk_bytes):
                self._parts[operator.name] += 1
                head = Head(
                    wire.ROWS,
                    self.sender,
                    operator.name,
                    self.pass_number,
                    (self.sender, self._parts[operator.name]),
                )
                self._sent[target] += 1
                self._chunks.append(Item(target, wire.encode(head, piece)))

    def _late(self, placed: Placed, late: pa.RecordBatch) -> None:
        """Rows of an operator before that are late for `placed`: counted as its own, and put aside where it says so.

        They are no rows of the input, so the batch's `late_rows` does not have them.
        """
        name = placed.operator.name
        self._late_rows[name] = self._late_rows.get(name, 0) + late.num_rows
        if placed.operator.input.late == "quarantine":
            rejects = late_rejects(placed, late, None, None)
            self._parts[name] += 1
            order = (self.sender, self._parts[name])
            self._sent[self.sender] += 1
            self._chunks.append(Item(self.sender, wire.encode(Head(wire.LATE, self.sender, name, 0, order), rejects)))

    def items(self, inbox: Inbox) -> Iterator[Item]:
        """Chunks and headers for the next level."""
        yield from self._chunks
        seen = dict(inbox.event_times)
        for name, bounds in self._event_times.items():
            wire.widen(seen, name, bounds)
        for target, sent in enumerate(self._sent):
            fields: dict[str, Any] = {"sent": sent, "event_times": seen, "late": self._late_rows}
            yield Item(target, wire.encode(Head(wire.HEADER, sender=self.sender, fields=fields)))

    def store(self, store: Store, stem: str) -> None:
        """Brings the rows of each sink, all of them, to the sink's form and stores them; a file a pass and partition
        folder, one sink's after the other's."""
        for name, number in sorted(self._rows):
            table = pa.Table.from_batches(self._rows.pop((name, number)))
            stamp = pa.repeat(pa.scalar(self.batch.plan.number, pa.int64()), table.num_rows)
            table = table.append_column(pa.field(names.BATCH_ID, pa.int64(), nullable=False), stamp)
            sink = self.batch.job.outputs[name].sink or _KEPT
            for part, encoded in enumerate(sink.encode(table)):
                path = names.output(name, self.batch.plan.branch, stem, number, part, encoded.extension)
                store.put(path, encoded.data)
                self._stored[name].append(
                    OutputFile(
                        name=path,
                        checksum=digest(encoded.data),
                        size=len(encoded.data),
                        rows=encoded.rows,
                        pass_number=number,
                        lo=self.lo,
                        part=part,
                        suffix=encoded.suffix,
                        extension=encoded.extension,
                    )
                )

    def stored(self) -> dict[str, list[OutputFile]]:
        """The files that were stored, by output."""
        if self._rows:  # INVARIANT: no row for a sink is left behind
            raise InternalError(f"store output files: rows of {sorted(self._rows)} were not stored")
        return dict(self._stored)

    def parquet(self, table: pa.Table) -> bytes:
        """A table as one Parquet file."""
        return b"".join(encoded.data for encoded in _KEPT.encode(table))
