"""The input of a split: blocks of a file from its source, or of requeued rows from the repository.

Requeued rows take the same way as rows of a file, except that `Only` keeps them from operators and sinks that have
taken them already. INVARIANT: blocks depend only on the plan and the bytes that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..pipeline import flow
from ..pipeline.job import Job, Output, Placed
from ..protocol.records import Requeued, Split
from ..sources.contract import ROW, Block, ReadContext
from ..sources.requeued import read_requeued

if TYPE_CHECKING:
    from .batch import Batch


SMALL_BYTES = 128 * 1024
"""Files of at most this size are fetched together from a remote store."""
MOST_BYTES = 4 * 1024**2
MOST_FILES = 256
"""How many bytes and files are fetched together at most."""


def read_context(batch: Batch, source: str) -> ReadContext:
    """Return how a source is read: only the columns that some operator reads, if that is known."""
    reads = [batch.job.reads(action.number) for action in batch.job.roots(source)]
    known = [columns for columns in reads if columns is not None]
    columns = frozenset[str]().union(*known) if len(known) == len(reads) else None
    return replace(batch.read_context(), columns=columns)


def read_split(batch: Batch, split: Split, context: ReadContext) -> Iterator[Block]:
    """Yield the rows of a split in blocks; see `Source.read`."""
    source = batch.job.sources[split.source]
    if split.requeued is None:
        return source.read(split, batch.plan.block_rows, context)
    return read_requeued(batch.store(), source, split, batch.plan.block_rows, context)


def read_splits(batch: Batch, numbers: Sequence[int]) -> Iterator[tuple[int, Iterable[Block]]]:
    """Yield the number and the blocks of each split, in order. Small files of a remote store are fetched together."""
    contexts = {name: read_context(batch, name) for name in batch.job.sources}
    for group in _groups(batch.plan.splits, numbers):
        splits = [batch.plan.splits[number] for number in group]
        context = contexts[splits[0].source]
        if len(group) > 1:
            context = replace(context, early=batch.job.sources[splits[0].source].read_early_together(splits, context))
        for split, number in zip(splits, group, strict=True):
            yield number, read_split(batch, split, context)


def _groups(splits: Sequence[Split], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers in order, several small files of one source that follow each other as one group."""
    group: list[int] = []
    size = 0
    for number in numbers:
        split = splits[number]
        is_small = split.size <= SMALL_BYTES and split.requeued is None and split.row_groups is None
        fits = group and splits[group[0]].source == split.source and len(group) < MOST_FILES
        if group and not (is_small and fits and size + split.size <= MOST_BYTES):
            yield group
            group, size = [], 0
        if is_small:
            group.append(number)
            size += split.size
        else:
            yield [number]
    if group:
        yield group


def read_rows(batch: Batch, split: Split, numbers: set[int]) -> list[pa.RecordBatch]:
    """Return the rows of a split with these numbers, as the source gives them, with all columns.

    The split is read again, up to the last of these rows. That is cheaper than to send whole rows with every batch,
    because functions seldom fail.
    """
    wanted, found = pa.array(sorted(numbers), pa.int64()), []
    left = len(numbers)
    for block in read_split(batch, split, batch.read_context()):
        rows = block.rows.filter(pc.is_in(block.rows.column(ROW), value_set=wanted))
        if rows.num_rows:
            found.append(rows)
            left -= rows.num_rows
        if left <= 0:
            break
    return found


@dataclass(frozen=True)
class Only:
    """Passes on what requeued rows are for: some operators, or all that is below a watermark. A `flow.Receiver`."""

    inner: flow.Receiver
    operators: frozenset[str]
    outputs: frozenset[str]
    watermarks: frozenset[str]

    def to_operator(self, placed: Placed, rows: pa.RecordBatch) -> None:
        """Pass on rows for an operator that has not taken them."""
        if placed.operator.name in self.operators:
            self.inner.to_operator(placed, rows)

    def to_output(self, output: Output, rows: pa.RecordBatch) -> None:
        """Pass on rows for a sink that has not got them."""
        if output.name in self.outputs:
            self.inner.to_output(output, rows)

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Let rows move only the watermarks of the operators that they are for."""
        return self.inner.at_watermark(name, column, rows) if name in self.watermarks else rows


def only(job: Job, requeued: Requeued | None, inner: flow.Receiver) -> flow.Receiver:
    """Return the receiver of the rows of a split: `inner`, or a part of it for requeued rows that others have taken."""
    if requeued is None or not (requeued.operators or requeued.watermark):
        return inner
    marks = {name for one in requeued.operators if one in job.operators for name in job.operators[one].watermarks}
    below = _below(job, requeued.watermark)
    outputs = frozenset(output.name for output in job.outputs.values() if output.node in below)
    return Only(inner, frozenset(requeued.operators), outputs, frozenset({*marks, requeued.watermark}))


def _below(job: Job, watermark: str) -> set[int]:
    """Return the nodes that rows reach from a watermark without passing an operator."""
    waiting = [action.number for action in job.actions if watermark and action.watermark == watermark]
    found: set[int] = set()
    while waiting:
        node = waiting.pop()
        found.add(node)
        waiting.extend(action.number for action in job.children(node) if action.operator is None)
    return found
