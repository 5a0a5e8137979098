"""The pandas frames of a processor's calls (`transformWithStateInPandas`), as PySpark makes them.

This module imports pandas, so it is imported only when such a processor is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .pandas_frames import FrameFunction, Frames

_MOST_ROWS = 10_000
"""The most rows of a frame: the default of PySpark's `spark.sql.execution.arrow.maxRecordsPerBatch`."""


class ProcessorFrames(Frames):
    """The frames of one visit. The Rust operator uses it key by key."""

    def __init__(
        self, output: pa.Schema, time_zone: str, rows: pa.RecordBatch, keys: pa.RecordBatch, *, key_by_key: bool
    ) -> None:
        calls = FrameFunction(iter, output, time_zone, key_by_key, more="ignored")
        super().__init__(calls, _widened(rows), _widened(keys))

    def key(self, number: int) -> tuple[Any, ...]:
        """Return the key with the types that PySpark gives it here: Python's own numbers, and pandas' times."""
        return tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in super().key(number))

    def rows(self, start: int, end: int) -> Iterator[Any]:
        """Return the rows of a key in frames of at most `_MOST_ROWS` rows."""
        return (self._frame(first, min(first + _MOST_ROWS, end)) for first in range(start, end, _MOST_ROWS))

    def whole(self, start: int, end: int) -> Any:
        """Return the rows of a key in one frame."""
        return self._frame(start, end)


def _widened(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Widen numbers to 64 bits, because PySpark builds these frames from rows of Python's own numbers."""
    fields = [field.with_type(_WIDE.get(field.type, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


_WIDE = {pa.int8(): pa.int64(), pa.int16(): pa.int64(), pa.int32(): pa.int64(), pa.float32(): pa.float64()}
