"""Blocks of the rows that the reader of Parquet decodes.

INVARIANT: every block of a split except the last has exactly `block_rows` rows, or at least `BLOCK_BYTES`, in the order
of the file. Rows of Parquet are counted as they are decoded, so where a block of many bytes ends depends on which
columns are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from ..schema import empty_table, one_batch
from ..values import dataclass
from .contract import BLOCK_BYTES, Block


@dataclass(frozen=True)
class Reading:
    """One split that is being read: its origin, and the columns of its blocks."""

    source: str
    path: str
    schema: pa.Schema
    """The columns of a block, including the hidden ones."""
    finish: Callable[[pa.RecordBatch], pa.RecordBatch]
    """Turns columns of the file into those of a block: adds partition columns and `_metadata`, puts `_row` last."""


def blocks(decoded: Iterable[pa.Table], block_rows: int, reading: Reading) -> Iterator[Block]:
    """Yield decoded rows, which have the file's columns and `_row`, in blocks."""
    number, waiting = 0, empty_table(reading.schema)
    for rows in decoded:
        finished = [reading.finish(batch) for batch in rows.to_batches()]
        waiting = pa.concat_tables([waiting, pa.Table.from_batches(finished, reading.schema)])
        while waiting.num_rows >= block_rows or waiting.nbytes >= BLOCK_BYTES:
            yield Block(number, _batch(waiting.slice(0, block_rows), reading))
            number, waiting = number + 1, waiting.slice(block_rows)
    if waiting.num_rows:
        yield Block(number, _batch(waiting, reading))


def _batch(table: pa.Table, reading: Reading) -> pa.RecordBatch:
    return one_batch(table, f"source `{reading.source}`: a block of {reading.path}")
