"""The place of a row in the plan, by which an operator behind another one gets its rows in the order of the plan.

A place is two numbers: one for the split and the block, one for the row in the block. A row that is emitted for another
row has the place of that row. A row that is emitted for a key comes after all of these, and a row that was due comes
last, by its time. Several rows may have one place. Then rows that were read come first; emitted rows follow, operator
by operator in the order of the code, and within an operator by the hashes of their keys.
INVARIANT: places depend on the plan alone, so they are the same for every number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..schema import int64_scalar
from ..schema.kernels import call, pc
from ..sources.contract import ROW
from ..sources.numbers import consecutive
from ..values import dataclass
from .held import LARGEST_HELD_BYTES

_FIELDS = (pa.field("_at.block", pa.int64()), pa.field("_at.row", pa.int64()))
"""The last columns of rows that carry their places. They are found by position, so no name can clash."""
MANY_ROWS = LARGEST_HELD_BYTES // 8
"""From so many rows on, a chunk says the block of all rows in its head. Such rows are never held."""
_SPLIT_FROM = 33
"""The bits of a block: the split from here on, then the number of the block, then `_IS_NUMBERED`."""
_IS_NUMBERED = 1
"""Set if the rows are numbered as in their file. Otherwise the rows of the block are counted."""
AFTER_ALL, BEFORE_TIMES = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Places:
    """The places of some rows."""

    blocks: pa.Array | int
    """The block of each row, or the one that all rows are of."""
    rows: pa.Array

    @staticmethod
    def joined(parts: Sequence[Places]) -> Places:
        """Return the places of the rows of some chunks, one after the other."""
        blocks = pa.concat_arrays([one.block_of_each() for one in parts])
        return Places(blocks, pa.concat_arrays([one.rows for one in parts]))

    def take(self, at: pa.Array) -> Places:
        """Return the places of some of the rows; places after all for nulls."""
        blocks = self.blocks if isinstance(self.blocks, int) else call("take", self.blocks, at)
        return _known(blocks, call("take", self.rows, at))

    def block_of_each(self) -> pa.Array:
        """Return the block of each row."""
        return pa.repeat(int64_scalar(self.blocks), len(self.rows)) if isinstance(self.blocks, int) else self.blocks

    def of_rows(self) -> list[tuple[int, int | None] | None]:
        """Return for each row the number of its split and, if it is known, of the row in its file. None: no row."""
        return [
            None if block == AFTER_ALL else (block >> _SPLIT_FROM, row if block & _IS_NUMBERED else None)
            for block, row in zip(self.block_of_each().to_pylist(), self.rows.to_pylist(), strict=True)
        ]


def of_block(split: int, block: int, rows: pa.RecordBatch) -> Places:
    """Return the places of the rows of a block. By two branches of a union, a row has the same place twice."""
    numbers = rows.column(ROW) if ROW in rows.schema.names else None
    is_numbered = numbers is not None and not numbers.null_count
    found = split << _SPLIT_FROM | block << 1 | (_IS_NUMBERED if is_numbered else 0)
    return Places(found, numbers if is_numbered else consecutive(0, rows.num_rows))


def after_all(count: int) -> Places:
    """Return the places of rows of which only the key is known."""
    return Places(AFTER_ALL, pa.repeat(int64_scalar(BEFORE_TIMES), count))


@dataclass(frozen=True)
class Emitted:
    """The places of the rows that a pass emitted, which are found by their order numbers."""

    order: pa.Array
    places: Places

    def of(self, rows: pa.RecordBatch) -> Places:
        """Return the places of some of the rows, which may have passed steps."""
        if ROW not in rows.schema.names:
            return after_all(rows.num_rows)
        numbers = rows.column(ROW)
        if numbers.equals(self.order):
            return self.places
        return self.places.take(pc.index_in(numbers, value_set=self.order))


def _known(blocks: pa.Array | int, rows: pa.Array) -> Places:
    """Return places, after all others for rows that are null."""
    if not rows.null_count:
        return Places(blocks, rows)
    given = int64_scalar(blocks) if isinstance(blocks, int) else blocks
    blocks = call("if_else", call("is_valid", rows), given, int64_scalar(AFTER_ALL))
    return Places(blocks, call("coalesce", rows, int64_scalar(BEFORE_TIMES)))


def of_prepared(prepared: Any, values: pa.Array) -> pa.Array:
    """Return for each prepared row the value of the given row that it was made of; nulls if that is not known."""
    made_of, late = getattr(prepared, "made_of", None), prepared.late
    if made_of is not None:
        values = call("take", values, made_of)
    elif late is not None:
        values = call("filter", values, call("invert", late))
    return values if len(values) == prepared.rows.num_rows else pa.nulls(prepared.rows.num_rows, values.type)


def attach(rows: pa.RecordBatch, prepared: Any, places: Places) -> tuple[pa.RecordBatch, int | None]:
    """Return rows with the places of those that they were made of, and the block if the rows do not say it.

    Few rows say it themselves, because those of several small files are sent as one chunk.
    """
    blocks = places.blocks if isinstance(places.blocks, int) else of_prepared(prepared, places.blocks)
    found = _known(blocks, of_prepared(prepared, places.rows))
    block = found.blocks if isinstance(found.blocks, int) and rows.num_rows >= MANY_ROWS else None
    if block is None:
        rows = rows.append_column(_FIELDS[0], found.block_of_each())
    return rows.append_column(_FIELDS[1], found.rows), block


def detach(rows: pa.RecordBatch, block: int | None) -> tuple[pa.RecordBatch, Places]:
    """Return rows without their places, and these."""
    at = rows.num_columns - 1
    if block is not None:
        return rows.select(list(range(at))), Places(block, rows.column(at))
    return rows.select(list(range(at - 1))), Places(rows.column(at - 1), rows.column(at))
