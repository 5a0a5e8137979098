"""The pandas frames of a processor's calls (`transformWithStateInPandas`), as PySpark has them.

Imported only when such a processor is called, since it imports pandas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .pandas_frames import FrameFunction, Frames

MOST_ROWS = 10_000
"""Rows of a frame at most: PySpark's `spark.sql.execution.arrow.maxRecordsPerBatch`."""


class ProcessorFrames(Frames):
    """The frames of one visit; the Rust operator asks for them key by key."""

    def __init__(
        self, output: pa.Schema, time_zone: str, rows: pa.RecordBatch, keys: pa.RecordBatch, *, key_by_key: bool
    ) -> None:
        calls = FrameFunction(iter, output, time_zone, key_by_key, more="left out")
        super().__init__(calls, _widened(rows), _widened(keys))

    def key(self, number: int) -> tuple[Any, ...]:
        """The key as PySpark has it here: Python's own numbers, and pandas' times."""
        return tuple(one.item() if isinstance(one, np.generic) else one for one in super().key(number))

    def rows(self, start: int, end: int) -> Iterator[Any]:
        """The rows of a key, in frames of `MOST_ROWS`."""
        return (self._frame(first, min(first + MOST_ROWS, end)) for first in range(start, end, MOST_ROWS))

    def whole(self, start: int, end: int) -> Any:
        """The rows of a key in one frame."""
        return self._frame(start, end)


def _widened(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Numbers as Python has them: PySpark builds these frames row by row, so that an int column is one of 64 bits."""
    fields = [field.with_type(_WIDE.get(field.type, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


_WIDE = {pa.int8(): pa.int64(), pa.int16(): pa.int64(), pa.int32(): pa.int64(), pa.float32(): pa.float64()}
