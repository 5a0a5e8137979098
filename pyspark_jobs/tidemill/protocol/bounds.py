"""The ranges of integers in records, as types: `Count`, `Number`, `Ms` and others.

INVARIANT: `typed` checks each annotated integer when a record is read, and `codec` those of the record itself when it
is written, so code behind them never sees a number that is out of range.
"""

from __future__ import annotations

from typing import Annotated

from ..names import LAST_NUMBER
from ..values import dataclass

INT64_MAX = 2**63 - 1
LAST_MS = 253_402_300_799_999
"""The last ms of the year 9999. A greater time is probably in microseconds."""


FIRST_EVENT_MS = -62_135_596_800_000
"""The first ms of the year 1, the earliest time that Python's `datetime` has."""


@dataclass(frozen=True)
class Range:
    """The least and greatest value of an integer, both inclusive."""

    least: int
    greatest: int


@dataclass(frozen=True)
class Hexadecimal:
    """Marks a 64-bit unsigned hash. It is 16 hex digits in JSON, because readers lose integers above 2^53."""


Count = Annotated[int, Range(0, INT64_MAX)]
"""A number of rows, bytes, files or the like."""
SignedCount = Annotated[int, Range(-INT64_MAX, INT64_MAX)]
"""By how much a count changed."""
Positive = Annotated[int, Range(1, 2**31 - 1)]
"""A size that must not be 0, such as rows of a block."""
Number = Annotated[int, Range(0, LAST_NUMBER)]
"""The number of a record, as in its name."""
Version = Annotated[int, Range(-1, LAST_NUMBER)]
"""A version; -1 is the state that `init` made."""
Ms = Annotated[int, Range(0, LAST_MS)]
"""A time by a clock: ms since the epoch, up to the year 9999."""
EventMs = Annotated[int, Range(-(2**63), INT64_MAX)]
"""A time in the data: an event time, a watermark or a deadline, in ms since the epoch."""
Hash = Annotated[int, Hexadecimal()]
"""A key hash."""
