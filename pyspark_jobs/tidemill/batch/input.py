"""The input of a split: blocks of a file from its source, or of requeued rows from the repository.

Requeued rows take the same way as rows of a file, except that `Only` keeps them from operators and sinks that have
taken them already. INVARIANT: blocks depend only on the plan and the bytes that it names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..pipeline import flow
from ..pipeline.job import Job, JobSink, Port
from ..protocol.records import Requeued, Split
from ..schema.kernels import pc
from ..sources import asked
from ..sources.contract import ROW, Block, ReadContext, SmallFiles
from ..sources.requeued import read_requeued
from ..values import dataclass

if TYPE_CHECKING:
    from .batch import Batch


TOGETHER_BYTES = 128 * 1024
"""Files of at most this size are fetched together from a remote store."""
_MOST_BYTES = 4 * 1024**2
_MOST_FILES = 256
"""How many bytes and files are fetched together at most."""


def columns_read(job: Job, source: str, context: ReadContext) -> ReadContext:
    """Return how a source is read: only the columns that some operator reads, if that is known."""
    reads = [job.reads(node.number) for node in job.roots(source)]
    known = [columns for columns in reads if columns is not None]
    columns = frozenset[str]().union(*known) if len(known) == len(reads) else None
    return replace(context, columns=columns)


def read_split(batch: Batch, split: Split, context: ReadContext) -> Iterator[Block]:
    """Yield the rows of a split in blocks; see `Source.read`."""
    source = batch.job.sources[split.source]
    if split.requeued is None:
        return source.read(split, batch.plan.block_rows, context)
    columns: pa.Schema | None = source.schema
    if is_given_back(split):
        port, context = _given_to(batch.job, split), replace(context, metadata=False)
        columns = None if port is None else pa.schema([field.with_nullable(True) for field in port.input.schema])
    return read_requeued(batch.store(), columns, source.place, split, batch.plan.block_rows, context)


def is_given_back(split: Split) -> bool:
    """Whether the rows of a split are those that operators had emitted, and are given back to one of them."""
    return split.requeued is not None and bool(split.requeued.given)


def _given_to(job: Job, split: Split) -> Port | None:
    """Return the input that gets the rows of a split back, or None if the code no longer has it."""
    return None if split.requeued is None else job.port(split.requeued.given)


def feed(job: Job, split: Split, rows: pa.RecordBatch, receiver: flow.Receiver) -> None:
    """Send rows of a split through the steps of its source, or directly to the operator that is given them back."""
    if is_given_back(split):
        port = _given_to(job, split)
        if port is not None:
            receiver.to_operator(port, rows)
        return
    for node in job.roots(split.source):
        flow.run_steps(job, node.number, rows, only(job, split.requeued, receiver), f"`{split.path}`")


@dataclass(frozen=True)
class Several:
    """Small splits that were read together, by their numbers, which follow each other."""

    numbers: Sequence[int]
    files: SmallFiles


@dataclass(frozen=True)
class Alone:
    """A split by its number, and its blocks."""

    number: int
    blocks: Iterable[Block]


class Splits:
    """The splits of a task, read in order.

    `together` are the sources whose small files may be read together. A source may be taken out of it at any time.
    """

    def __init__(self, batch: Batch, numbers: Sequence[int], together: set[str]) -> None:
        self._batch, self._numbers, self.together = batch, numbers, together
        self._contexts = {name: columns_read(batch.job, name, batch.read_context()) for name in batch.job.sources}

    def __iter__(self) -> Iterator[Alone | Several]:
        """Yield every split once. Small files of a remote store are fetched together."""
        for group in small_groups(self._batch.plan.splits, self._numbers):
            splits = [self._batch.plan.splits[number] for number in group]
            name = splits[0].source
            context = self._contexts[name]
            if len(group) > 1:
                source = self._batch.job.sources[name]
                context = replace(context, early=asked.read_early_together(source, splits, context))
            yield from self._several(group, context) if len(group) > 1 else self._each(group, context)

    def alone(self, number: int) -> Alone:
        """Return a split to be read alone, also one that was read before."""
        return next(self._each([number], self._contexts[self._batch.plan.splits[number].source]))

    def _each(self, numbers: Sequence[int], context: ReadContext) -> Iterator[Alone]:
        for number in numbers:
            yield Alone(number, read_split(self._batch, self._batch.plan.splits[number], context))

    def _several(self, group: Sequence[int], context: ReadContext) -> Iterator[Alone | Several]:
        splits, job = self._batch.plan.splits, self._batch.job
        name = splits[group[0]].source
        for run in _consecutive(group):
            if len(run) == 1 or name not in self.together:
                yield from self._each(run, context)
                continue
            at = 0
            small = [splits[number] for number in run]
            read = asked.read_small(job.sources[name], small, self._batch.plan.block_rows, context)
            for files in read:
                count = 1 if files is None else len(files.counts)
                numbers = run[at : at + count]
                at += count
                if files is None or name not in self.together:
                    yield from self._each(numbers, context)
                else:
                    yield Several(numbers, files)


def _consecutive(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield runs of numbers that follow each other."""
    for _, run in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        yield [number for _, number in run]


def small_groups(splits: Sequence[Split], numbers: Iterable[int], most: int = _MOST_FILES) -> list[list[int]]:
    """Return the numbers in order, small files of one source that follow each other as groups of at most `most`."""
    groups: list[list[int]] = []
    group: list[int] = []
    size = 0
    for number in numbers:
        split = splits[number]
        is_small = split.size <= TOGETHER_BYTES and split.requeued is None and split.row_groups is None
        fits = group and splits[group[0]].source == split.source and len(group) < min(most, _MOST_FILES)
        if group and not (is_small and fits and size + split.size <= _MOST_BYTES):
            groups.append(group)
            group, size = [], 0
        if is_small:
            group.append(number)
            size += split.size
        else:
            groups.append([number])
    return [*groups, group] if group else groups


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
    """Passes on what requeued rows are for: some operators, or all that is below a watermark. A `flow.Receiver`.

    `operators` are labels, which name an input of an operator that has several.
    """

    inner: flow.Receiver
    operators: frozenset[str]
    outputs: frozenset[str]
    watermarks: frozenset[str]

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Pass on rows for an operator that has not taken them."""
        if port.label in self.operators:
            self.inner.to_operator(port, rows)

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
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
    ports = (port for label in requeued.operators if (port := job.port(label)) is not None)
    marks = {name for port in ports for name in port.watermarks}
    below = _below(job, requeued.watermark)
    outputs = frozenset(output.name for output in job.outputs.values() if output.node in below)
    return Only(inner, frozenset(requeued.operators), outputs, frozenset({*marks, requeued.watermark}))


def _below(job: Job, watermark: str) -> set[int]:
    """Return the nodes that rows reach from a watermark without passing an operator."""
    waiting = [node.number for node in job.nodes if watermark and node.watermark == watermark]
    found: set[int] = set()
    while waiting:
        node = waiting.pop()
        found.add(node)
        waiting.extend(one.node.number for one in job.children(node) if one.node.operator is None)
    return found
