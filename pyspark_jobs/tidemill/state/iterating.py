"""Rows of a state map as Python objects, made a part of the map at a time, when they are asked for.

INVARIANT: what is iterated is a fork that nobody else has, so the version stays true while others change the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from .._native import Codec, StateMap

PART_ROWS = 2048
"""Rows that are made together: some ms without the GIL's being given up, as long as Python lets a thread run anyway."""

Rows = Iterator[tuple[Any, Any, int, int | None]]
"""(key, state, updated_ms, deadline_ms or None), row by row."""


def rows_in_parts(codec: Codec, states: StateMap, read: Callable[[StateMap], pa.RecordBatch]) -> Rows:
    """What `read` gives of each part of the map as it is now, part after part, none before a row of it is asked for."""
    fork = states.copy()
    count = fork.count_parts(PART_ROWS)
    return (row for number in range(count) for row in codec.rows(read(fork.part(number, count))))


def sliced(codec: Codec, rows: pa.RecordBatch) -> Rows:
    """`rows`, as many at a time, none before it is asked for."""
    starts = range(0, rows.num_rows, PART_ROWS)
    return (row for start in starts for row in codec.rows(rows.slice(start, PART_ROWS)))
