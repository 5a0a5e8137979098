"""Iteration over the rows of a state map as Python objects, which are made for one part of the map at a time.

INVARIANT: an iterator reads a private fork of the map, so changes to the map do not affect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from .. import _native

PART_ROWS = 2048
"""Rows that are made together. The GIL is held for a few ms, which is about as long as Python lets a thread run."""

_Rows = Iterator[tuple[Any, Any, int, int | None]]
"""An iterator over (key, state, updated_ms, deadline_ms or None)."""


def rows_in_parts(
    codec: _native.Codec, states: _native.StateMap, read: Callable[[_native.StateMap], pa.RecordBatch]
) -> _Rows:
    """Yield the rows that `read` returns for each part of the map as it is now.

    A part is read only when its first row is consumed.
    """
    fork = states.copy()
    count = fork.count_parts(PART_ROWS)
    return (row for number in range(count) for row in codec.rows(read(fork.part(number, count))))


def sliced(codec: _native.Codec, rows: pa.RecordBatch) -> _Rows:
    """Yield `rows` as Python objects, which are made for `PART_ROWS` rows at a time."""
    starts = range(0, rows.num_rows, PART_ROWS)
    return (row for start in starts for row in codec.rows(rows.slice(start, PART_ROWS)))
