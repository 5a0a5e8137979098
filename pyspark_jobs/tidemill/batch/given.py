"""The rows that an operator is given in one pass: its chunks, or their rows in the order of the plan.

INVARIANT: rows that operators emitted reach an operator whose result depends on their order by their places in the
plan, whatever range they come from.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..operators.keys import KeySet
from ..pipeline.job import Placed, Port
from ..schema import int64_array
from ..schema.kernels import pc
from ..sources.contract import ROW
from ..values import dataclass
from .places import Places, detach
from .wire import Chunk, ChunkHead


@dataclass(frozen=True)
class GivenRows:
    """Rows of one input, which the operator is given as one chunk."""

    port: Port
    whole: pa.RecordBatch
    """The rows as the operator prepared them, and their numbers if they have any."""
    heads: Sequence[ChunkHead]
    """The chunks that they came in."""
    places: Places | None = None
    chunk_of: pa.Array | None = None
    """Which of `heads` each row came in; None if there is only one."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as the operator prepared them."""
        return self.whole.drop_columns([ROW]) if ROW in self.whole.schema.names else self.whole

    def head(self, row: int) -> ChunkHead:
        """Return the head of the chunk that a row came in."""
        return self.heads[0 if self.chunk_of is None else self.chunk_of[row].as_py()]

    def is_read(self, row: int) -> bool:
        """Whether a row was read from a split. Otherwise an operator emitted it."""
        return self.head(row).split is not None


def parts_of(placed: Placed, chunks: Sequence[Chunk]) -> list[GivenRows]:
    """Return the rows of a pass, input by input. `chunks` are sorted by input, and those of one input by the plan."""
    found: list[GivenRows] = []
    for number, of_port in itertools.groupby(chunks, key=lambda one: one.head.port):
        found += _of_port(placed.ports[number], list(of_port))
    return found


def _of_port(port: Port, chunks: list[Chunk]) -> list[GivenRows]:
    if not port.carries_places:
        return [GivenRows(port, chunk.batch(), [chunk.head]) for chunk in chunks]
    batches, heads = [chunk.batch() for chunk in chunks], [chunk.head for chunk in chunks]
    in_order = _native.in_plan_order(batches) if port.sorts else None
    if in_order is None:
        parts = zip(batches, heads, strict=True)
        return [GivenRows(port, rows, [head], places) for batch, head in parts for rows, places in (detach(batch),)]
    found = []
    for batch in in_order:
        rows, places = detach(batch, 1)
        found.append(GivenRows(port, rows, heads, places, batch.column(batch.num_columns - 1)))
    return found


@dataclass(frozen=True)
class FailedRows:
    """Rows of one split on which a function failed, or rows of which no split is known."""

    rows: pa.RecordBatch
    reasons: Sequence[str]
    split: int | None
    numbers: Sequence[int | None] | None
    """Their numbers in the file, if they are known."""
    is_read: bool
    """Whether they were read from the split. Otherwise operators emitted them for its rows."""


def failed_parts(
    part: GivenRows, failed: pa.RecordBatch, reasons: Sequence[str], key: Sequence[str]
) -> list[FailedRows]:
    """Return the rows of a part on which a function failed, split by split. Of a key that fails, all rows do."""
    at = pc.indices_nonzero(_is_failed(part.rows, failed, key)).to_pylist()
    if len(at) != failed.num_rows:  # it is not known which rows these are
        split = part.heads[0].split if part.chunk_of is None else None
        return [FailedRows(failed, reasons, split, None, split is not None)]
    origins = [_origin(part, row) for row in at] if part.places is None else _origins(part, at)
    found: dict[tuple[int | None, bool], list[int]] = {}
    for place, (split, _, is_read) in enumerate(origins):
        found.setdefault((split, is_read), []).append(place)
    return [
        FailedRows(
            failed.take(int64_array(places)),
            [reasons[place] for place in places],
            split,
            [origins[place][1] for place in places],
            is_read,
        )
        for (split, is_read), places in found.items()
    ]


def _is_failed(rows: pa.RecordBatch, failed: pa.RecordBatch, key: Sequence[str]) -> pa.Array:
    if not key:
        return pa.array([True] * rows.num_rows)
    return KeySet(pa.Table.from_batches([failed.select(key)])).holds(rows.select(key))


_Origin = tuple[int | None, int | None, bool]
"""The split of a row and its number in the file, if they are known, and whether it was read from there."""


def _origin(part: GivenRows, row: int) -> _Origin:
    split = part.heads[0].split
    if split is None or ROW not in part.whole.schema.names:
        return split, None, split is not None
    return split, part.whole.column(ROW)[row].as_py(), True


def _origins(part: GivenRows, at: Sequence[int]) -> list[_Origin]:
    assert part.places is not None
    known = part.places.take(int64_array(at)).of_rows()
    return [(*(one or (None, None)), part.is_read(row)) for row, one in zip(at, known, strict=True)]
