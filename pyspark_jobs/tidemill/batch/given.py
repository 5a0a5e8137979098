"""The rows that an operator is given in one pass: its chunks, or their rows in the order of the plan.

INVARIANT: rows that operators emitted reach an operator whose result depends on their order by their places in the
plan, whatever range they come from.
"""

from __future__ import annotations

import bisect
import functools
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
from .places import Places, after_all, detach
from .wire import Chunk, ChunkHead


class Arrived:
    """The chunks of one input that some parts were made of. `places` are those of their rows, if they carry any."""

    def __init__(self, heads: Sequence[ChunkHead], places: Sequence[Places] = ()) -> None:
        self.heads, self._places = heads, places

    @functools.cached_property
    def places(self) -> Places:
        """The places of the rows of all chunks."""
        return self._places[0] if len(self._places) == 1 else Places.joined(self._places)

    @functools.cached_property
    def ends(self) -> list[int]:
        """How many rows the chunks have up to each."""
        return list(itertools.accumulate(len(one.rows) for one in self._places))


@dataclass(frozen=True)
class GivenRows:
    """Rows of one input, which the operator is given as one chunk."""

    port: Port
    whole: pa.RecordBatch
    """The rows as the operator prepared them, and their numbers if they have any."""
    arrived: Arrived
    made_of: pa.Array | None = None
    """The number of each row among those of all chunks that arrived; None if it is the only chunk."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as the operator prepared them."""
        return self.whole.drop_columns([ROW]) if ROW in self.whole.schema.names else self.whole

    @property
    def places(self) -> Places:
        """The places of the rows. They are collected when they are asked for, because few passes ask."""
        if not self.port.carries_places:
            return after_all(self.whole.num_rows)
        return self.arrived.places if self.made_of is None else self.arrived.places.take(self.made_of)

    @property
    def only_head(self) -> ChunkHead | None:
        """The head of the chunk that all rows came in, or None if there may be several."""
        return self.arrived.heads[0] if self.made_of is None else None

    def head(self, row: int) -> ChunkHead:
        """Return the head of the chunk that a row came in."""
        number = 0 if self.made_of is None else bisect.bisect_right(self.arrived.ends, self.made_of[row].as_py())
        return self.arrived.heads[number]

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
        return [GivenRows(port, chunk.batch(), Arrived([chunk.head])) for chunk in chunks]
    heads = [chunk.head for chunk in chunks]
    parts = [detach(chunk.batch(), chunk.head.block) for chunk in chunks]
    places = [places for _, places in parts]
    in_order = None
    if port.sorts:
        in_order = _native.in_plan_order([rows for rows, _ in parts], [(one.blocks, one.rows) for one in places])
    if in_order is None:
        found = zip(heads, parts, strict=True)
        return [GivenRows(port, rows, Arrived([head], [places])) for head, (rows, places) in found]
    arrived = Arrived(heads, places)
    last = in_order[0].num_columns - 1
    return [GivenRows(port, one.select(list(range(last))), arrived, one.column(last)) for one in in_order]


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
        split = None if part.only_head is None else part.only_head.split
        return [FailedRows(failed, reasons, split, None, split is not None)]
    origins = [_origin(part, row) for row in at] if not part.port.carries_places else _origins(part, at)
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
    split = part.head(row).split
    if split is None or ROW not in part.whole.schema.names:
        return split, None, split is not None
    return split, part.whole.column(ROW)[row].as_py(), True


def _origins(part: GivenRows, at: Sequence[int]) -> list[_Origin]:
    known = part.places.take(int64_array(at)).of_rows()
    return [(*(one or (None, None)), part.is_read(row)) for row, one in zip(at, known, strict=True)]
