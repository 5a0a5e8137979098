"""Rows of small splits that wait until there are enough of them for a chunk, so that a small file costs little.

INVARIANT: rows that are sent together were prepared one after the other, from splits that follow each other in the
plan. So the order of an operator's rows is the same as if each split had a chunk of its own.
"""

from __future__ import annotations

import pyarrow as pa

from ..values import dataclass
from .wire import ChunkHead

LARGEST_HELD_BYTES = 64 * 1024
"""Only fewer bytes of rows wait."""
HELD_BYTES = 256 * 1024
"""Rows that wait are sent when they have so many bytes."""


@dataclass
class HeldRows:
    """Rows of one operator that wait, with the head of the first of them."""

    head: ChunkHead
    rows: list[pa.RecordBatch]
    last_split: int
    size: int

    @staticmethod
    def begin(head: ChunkHead, rows: pa.RecordBatch) -> HeldRows:
        """Let the first rows wait. They were read from a split."""
        assert head.split is not None
        return HeldRows(head, [rows], head.split, rows.nbytes)

    def takes(self, head: ChunkHead, rows: pa.RecordBatch) -> bool:
        """Whether rows may be sent together with those that wait."""
        follows = head.split is not None and head.split - self.last_split in (0, 1)
        return follows and rows.schema == self.rows[0].schema

    def add(self, head: ChunkHead, rows: pa.RecordBatch) -> None:
        """Let further rows wait."""
        assert head.split is not None
        self.rows.append(rows)
        self.last_split = head.split
        self.size += rows.nbytes

    @property
    def is_full(self) -> bool:
        """Whether these are enough."""
        return self.size >= HELD_BYTES

    def together(self) -> pa.RecordBatch:
        """Return all rows as one batch."""
        return self.rows[0] if len(self.rows) == 1 else pa.concat_batches(self.rows)
