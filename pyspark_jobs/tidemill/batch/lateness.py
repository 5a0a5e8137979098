"""Late rows: which rows are late for an operator that keeps them, and a few examples for messages.

For operators that remove late rows Rust decides (`prepare`). INVARIANT: both decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..pipeline.job import Port
from ..protocol.records import LateRow
from ..schema.kernels import pc
from .quarantine import Provenance, row_numbers

EXAMPLES = 3
"""How many late rows a commit names."""


def kept_late(port: Port, rows: pa.RecordBatch, watermark_ms: int | None) -> pa.RecordBatch | None:
    """Return the late rows among those that an input with `late="keep"` is given, or None if there are none.

    A row is late at or before the watermark. Only operators with timeouts or timers in event time have late rows.
    """
    time = port.input.event_time
    if port.input.late != "keep" or port.operator.clock != "event" or time is None or watermark_ms is None:
        return None
    late = rows.filter(_at_or_before(rows.column(time), watermark_ms))
    return late if late.num_rows else None


def _at_or_before(column: pa.Array, limit_ms: int) -> pa.BooleanArray:
    """Return which times are at or before a time in ms. A null is not."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "us":
        found = pc.less_equal(column.cast(pa.int64()), limit_ms * 1000)
    else:
        found = pc.and_(pc.is_valid(column), pc.invert(_native.after_ms(column, limit_ms)))
    return pc.fill_null(found, False)


def examples(port: Port, late: pa.RecordBatch, watermark_ms: int, provenance: Provenance) -> list[LateRow]:
    """Return late rows with their places; an emitted one has that of the row for which it was emitted."""
    time, found = port.input.event_time, []
    for place, number in enumerate(row_numbers(late, provenance)):
        bounds = None if time is None else _native.time_bounds_ms(late.column(time).slice(place, 1))
        found.append(
            LateRow(
                operator=port.label,
                watermark_ms=watermark_ms,
                time_ms=None if bounds is None else bounds[0],
                file=None if provenance.split is None else provenance.split.path,
                row=None if number is None else number + 1,
            )
        )
    return found


def first_late(rows: Sequence[LateRow]) -> list[LateRow]:
    """Return a few of the rows, those of files first, in the order of files and rows."""
    ordered = sorted(rows, key=lambda one: (one.file is None, one.file or "", one.row or 0, one.operator))
    return ordered[:EXAMPLES]
