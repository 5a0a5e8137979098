"""Blocks of the rows that the reader of Parquet decodes, and the reject for a damaged split.

INVARIANT: every block of a split except the last has exactly `block_rows` rows, or at least `BLOCK_BYTES`, in the order
of the file. Readers cut a file into parts by its bytes alone, so the same file always has the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..schema import empty_table, one_batch
from .contract import BLOCK_BYTES, REJECT_SCHEMA, Block
from .rejects import FAILFAST, Reject, reject_error, rejects_table
from .unreadable import Unreadable

__all__ = ["REJECT_SCHEMA", "Reading", "blocks"]


@dataclass(frozen=True)
class Decoded:
    """Consecutive records of a file: rows with the file's columns and `_row`, and rejects in order."""

    rows: pa.Table | None
    rejects: Sequence[Reject] = ()


@dataclass(frozen=True)
class Reading:
    """One split that is being read: its origin, its mode, and the columns of its blocks."""

    source: str
    path: str
    mode: str
    schema: pa.Schema
    """The columns of a block, including the hidden ones."""
    finish: Callable[[pa.RecordBatch], pa.RecordBatch]
    """Turns columns of the file into those of a block: adds partition columns and `_metadata`, puts `_row` last."""


def blocks(decoded: Iterable[Decoded], block_rows: int, reading: Reading) -> Iterator[Block]:
    """Yield the rows in blocks. A reject is an error with FAILFAST, else it comes with the block that ends after it."""
    number, waiting = 0, empty_table(reading.schema)
    rejects: list[Reject] = []
    for part in _guarded(decoded):
        if part.rejects and reading.mode == FAILFAST:
            raise reject_error(part.rejects[0], reading.source, reading.path)
        rejects.extend(part.rejects)
        if part.rows is None:
            continue
        finished = [reading.finish(batch) for batch in part.rows.to_batches()]
        waiting = pa.concat_tables([waiting, pa.Table.from_batches(finished, reading.schema)])
        while waiting.num_rows >= block_rows or waiting.nbytes >= BLOCK_BYTES:
            yield Block(number, _batch(waiting.slice(0, block_rows), reading), _take_rejects(rejects, reading))
            number, waiting = number + 1, waiting.slice(block_rows)
    if waiting.num_rows or rejects:
        yield Block(number, _batch(waiting, reading), _take_rejects(rejects, reading))


def _guarded(decoded: Iterable[Decoded]) -> Iterator[Decoded]:
    """Yield what was decoded. If the file turns out to be invalid, one reject stands for everything that follows."""
    try:
        yield from decoded
    except Unreadable as end:
        yield Decoded(None, [Reject(end.line, None, end.reason, None, end.hint)])


def _take_rejects(rejects: list[Reject], reading: Reading) -> pa.Table | None:
    table = rejects_table(rejects, reading.source, reading.path) if rejects else None
    rejects.clear()
    return table


def _batch(table: pa.Table, reading: Reading) -> pa.RecordBatch:
    return one_batch(table, f"source `{reading.source}`: a block of {reading.path}")
