"""The tasks of a migration: each reads a key range of an operator's state, migrates its rows, and stores segments.

If keys change, there are two levels. The first stores the migrated rows of each range as a temporary segment, with
their places as a sub-key, so that no row is lost; the second reads its new range from all of them. So a task holds one
range in memory, on every engine. CRASH: segments carry the migration's attempt and count only once a commit names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError, TidemillError
from ..protocol import codec
from ..protocol.records import Receipt, Segment
from ..state.versions import LARGEST_COLUMN, open_map, store_run
from ..values import dataclass
from . import wire
from .place import Place
from .ranges import cut
from .rewriting import Rewrite, migrated, one_row_each, run_of
from .work import Data, Item, StateWork


@dataclass(frozen=True)
class MigrateWork(StateWork):
    """The rewriting of one map, for any engine."""

    place: Place
    rewrite: Rewrite
    segments: list[Segment]
    ranges: int
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def levels(self) -> int:
        """Two if rows may get other keys."""
        return 2 if self.rewrite.moves else 1

    @property
    def sequence(self) -> int:
        """The sequence of the new segments: above all that they replace."""
        return 1 + max((segment.sequence for segment in self.segments), default=0)

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:
        """Run a task. If it fails, the error goes to all ranges of the next level."""
        is_last = level == self.levels - 1
        try:
            lo, hi = cut(self.ranges)[range_index]
            if level == 0:
                record = self._read(range_index, lo, hi)
            else:
                record = self._gather(range_index, lo, hi, [_receipt(item) for item in items])
            message = wire.receipt(codec.encode(record))
        except TidemillError as error:
            message = wire.encode_failure(error)
        for target in range(1 if is_last else self.ranges):
            yield Item(target, message)

    def _read(self, index: int, lo: int, hi: int) -> Receipt:
        """Migrate the rows of a range."""
        rewrite, place = self.rewrite, self.place
        opened = open_map(place.store, place.cache, rewrite.before.engine(), self.segments, lo, hi)
        rows = pa.Table.from_batches([opened.map.scan()])
        made = (
            migrated(rewrite, rows)
            if rows.num_rows
            else pa.table({f.name: pa.nulls(0, f.type) for f in rewrite.columns})
        )
        if not rewrite.moves:
            return self._stored(index, lo, hi, made)
        columns = rewrite.spilled
        numbers = pa.array(range(index << 40, (index << 40) + made.num_rows), pa.int64())
        spilled = made.add_column(len(rewrite.identity), columns.sub_key.names[-1], numbers)
        run = run_of(columns, spilled)
        name = place.segment(rewrite.operator, rewrite.after.name, index)
        segments = store_run(place.store, place.cache, run, (index, place.number), name)
        return self._record(lo, hi, segments, rows.num_rows)

    def _gather(self, index: int, lo: int, hi: int, sent: Sequence[Receipt]) -> Receipt:
        """Collect the migrated rows of a new range, and merge those that have the same key."""
        rewrite, place = self.rewrite, self.place
        spilled = [one for receipt in sent for one in receipt.state[rewrite.operator][rewrite.after.name]]
        columns = rewrite.spilled
        opened = open_map(place.store, place.cache, columns.engine(), spilled, lo, hi)
        rows = pa.Table.from_batches([opened.map.scan()])
        at = columns.sub_key.names[-1]
        rows = rows.sort_by(at).drop_columns([at]) if rows.num_rows else rows.drop_columns([at])
        return self._stored(index, lo, hi, one_row_each(rewrite, rows.cast(rewrite.columns)))

    def _stored(self, index: int, lo: int, hi: int, rows: pa.Table) -> Receipt:
        rewrite, place = self.rewrite, self.place
        run = run_of(rewrite.after, rows)
        parts = _native.Run.merge([run], lo, hi, "nothing", LARGEST_COLUMN)
        first = place.segment(rewrite.operator, rewrite.after.name, index)
        segments: list[Segment] = []
        for number, (low, high, part) in enumerate(parts):
            age = (self.sequence, place.number)
            segments += store_run(place.store, place.cache, part, age, names.part_of(first, number), low, high)
        return self._record(lo, hi, segments, len(run))

    def _record(self, lo: int, hi: int, segments: list[Segment], rows: int) -> Receipt:
        operator, map_name = self.rewrite.operator, self.rewrite.after.name
        return Receipt(
            level=0, lo=lo, hi=hi, splits={}, state={operator: {map_name: segments}},
            rows={operator: {map_name: rows}}, outputs={}, quarantine=[], operators={}, watermarks={}, next_deadline={},
        )  # fmt: skip


def _receipt(data: Data) -> Receipt:
    message = wire.decode_message(data)
    if isinstance(message, wire.Failure):
        raise message.error()
    if not isinstance(message, wire.ReceiptMessage):
        raise InternalError(f"a task of a migration received a {type(message).__name__}, expected a receipt")
    return codec.decode(Receipt, message.record, "a receipt")
