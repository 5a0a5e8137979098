"""Numbers of rows: `start`, `start + 1`, … as an Arrow array."""

from __future__ import annotations

import functools

import pyarrow as pa

from ..schema import int64_scalar
from ..schema.kernels import pc

_NUMBERED = 131_072
"""Up to so many rows are numbered by adding to cached numbers, which is twenty times as fast as counting."""


def consecutive(start: int, count: int) -> pa.Array:
    """`start`, `start + 1`, …"""
    if count > _NUMBERED:
        return _counted(start, count)
    return pc.add(_first_numbers().slice(0, count), int64_scalar(start))


@functools.cache
def _first_numbers() -> pa.Array:
    """0, 1, …"""
    return _counted(0, _NUMBERED)


def _counted(start: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(int64_scalar(1), count), start=int64_scalar(start - 1))
