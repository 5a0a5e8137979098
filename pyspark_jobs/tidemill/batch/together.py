"""Small splits whose rows are prepared and sent together, so that ten thousand small files cost little.

INVARIANT: an operator is given the same rows of each split in the same order as if each split were sent alone. Splits
of which something must be said one by one (a late row, a time in the future, a row for a sink) are sent alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .. import _native
from ..pipeline import flow
from ..pipeline.job import Job, JobSink, Port
from . import wire
from .input import Several
from .sender import Sender, is_anonymous
from .work import Item


def is_plain(job: Job, source: str) -> bool:
    """Whether rows of a source reach only operators without user functions, through watermarks and unions."""
    waiting = [node.number for node in job.roots(source)]
    while waiting:
        number = waiting.pop()
        if job.outputs_of(number):
            return False
        for child in job.children(number):
            node = child.node
            if node.step is not None:
                return False
            if node.operator is None:
                waiting.append(node.number)
            elif not _is_plain_port(job.operators[node.operator].ports[child.place]):
                return False
    return True


def _is_plain_port(port: Port) -> bool:
    """Whether an input needs nothing of a row but its columns."""
    return is_anonymous(port.operator) and not port.carries_places


def send_together(sender: Sender, several: Several) -> Iterator[Item] | None:
    """Send the rows of small splits to the ranges of their keys. None: these splits must be sent alone."""
    batch = sender.batch
    split = batch.plan.splits[several.numbers[0]]
    arrived = _Arrived(sender)
    for node in batch.job.roots(split.source):
        flow.run_steps(batch.job, node.number, several.files.rows, arrived, f"`{split.path}`")
    return None if arrived.need_places else _sent(sender, several, arrived)


def _sent(sender: Sender, several: Several, arrived: _Arrived) -> Iterator[Item]:
    observed, files, first = sender.observed, several.files, several.numbers[0]
    for name, bounds in arrived.event_times:
        wire.widen(observed.event_times, name, bounds)
    for turn, (port, rows) in enumerate(arrived.rows):
        sender.count_reached(port, rows.num_rows)
        prepared = sender.prepare_splits(port, rows, files.counts)
        head = wire.ChunkHead(
            wire.ROWS, sender.task, port.operator.name, (first, 0, turn), 0, first, 0, port=port.number
        )
        if prepared.num_rows:
            yield from sender.by_key(port, head, prepared)
    for number, count, mark in zip(several.numbers, files.counts, files.fingerprints, strict=True):
        observed.splits[str(number)] = count
        if mark is not None:
            observed.fingerprints[str(number)] = mark


class _Arrived:
    """Receives the rows of several splits. A `flow.Receiver`. `need_places`: something must be said of single rows."""

    def __init__(self, sender: Sender) -> None:
        self._batch = sender.batch
        self.rows: list[tuple[Port, pa.RecordBatch]] = []
        self.event_times: list[tuple[str, tuple[int, int] | None]] = []
        self.need_places = False

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Keep rows for an operator. By two branches they reach it in another order if each split is sent alone."""
        is_again = any(port.label == other.label for other, _ in self.rows)
        self.need_places |= is_again or self._may_be_late(port, rows)
        self.rows.append((port, rows))

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Refuse rows for a sink: they are sent by their split."""
        del output, rows
        self.need_places = True

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Note the event times. Rows after the batch time need their places."""
        bounds = _native.time_bounds_ms(rows.column(column))
        self.event_times.append((name, bounds))
        self.need_places |= bounds is not None and bounds[1] > self._batch.plan.batch_time_ms
        return rows

    def _may_be_late(self, port: Port, rows: pa.RecordBatch) -> bool:
        before, time = port.least(self._batch.watermarks), port.input.event_time
        if before is None or time is None:
            return False
        bounds = _native.time_bounds_ms(rows.column(time))
        return bounds is not None and bounds[0] <= before
