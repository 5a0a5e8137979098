"""`tm.window`: time windows as a part of the key. Spark: `pyspark.sql.functions.window`.

Here: what a user declares, and its checks. Which windows a row falls into is decided by the Rust engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ..errors import InvalidInput
from ..units import duration_ms

START, END = "window_start", "window_end"
"""The key columns of state that hold a window's start and, where windows are given, its end."""

WINDOW = "window"
"""The column of the output that holds start and end."""

MOST_WINDOWS = 10_000
"""How many windows a row may fall into."""


@dataclass(frozen=True)
class Window:
    """Windows over a timestamp column, as `tm.window` makes them. Times are milliseconds."""

    column: str
    size_ms: int
    slide_ms: int
    start_ms: int

    def __str__(self) -> str:
        return f"{self.size_ms} ms by {self.slide_ms} ms from {self.start_ms} ms over {self.column}"


@dataclass(frozen=True)
class GivenWindow:
    """The windows that a column holds, as an operator before emitted them: `.groupBy("window")`."""

    column: str

    def __str__(self) -> str:
        return f"those of {self.column}"


def window(
    timeColumn: str,
    windowDuration: str | timedelta,
    slideDuration: str | timedelta | None = None,
    startTime: str | timedelta | None = None,
) -> Window:
    """Windows of `windowDuration`, one every `slideDuration` (default: as long as a window), in `.groupBy`.

    A window holds the times from its start up to its end, which it does not hold. Starts lie at multiples of the slide
    since the epoch, plus `startTime`. The output has a column `window struct<start, end>`.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("clicks")
    >>> clicks = p.read(tm.Rows("ts timestamp, page string")).withWatermark("ts", "10 minutes")
    >>> counts = clicks.groupBy(tm.window("ts", "1 hour"), "page").agg(n=tm.count(), outputMode="append")
    >>> counts.schema.names
    ['window', 'page', 'n']
    """
    if not isinstance(timeColumn, str):
        raise InvalidInput(f"tm.window: expected the name of a timestamp column, found {timeColumn!r}")
    size = duration_ms(windowDuration)
    slide = size if slideDuration is None else duration_ms(slideDuration)
    start = 0 if startTime is None else _signed_ms(startTime)
    if size <= 0 or not 0 < slide <= size:
        raise InvalidInput(
            f"tm.window: {windowDuration!r} by {slideDuration!r}: expected a duration above zero, and a slide "
            "above zero that is not longer"
        )
    if -(-size // slide) > MOST_WINDOWS:
        raise InvalidInput(
            f"tm.window: {windowDuration!r} by {slideDuration!r}: each row falls into {-(-size // slide)} windows, "
            f"expected at most {MOST_WINDOWS}",
            hint="each of them is a copy of the row: take a longer slide",
        )
    if abs(start) >= slide:
        raise InvalidInput(f"tm.window: startTime {startTime!r}, expected less than the slide")
    return Window(timeColumn, size, slide, start)


def _signed_ms(value: str | timedelta) -> int:
    """A duration that may be negative: `"-5 minutes"`."""
    if isinstance(value, timedelta):
        return -duration_ms(-value) if value < timedelta(0) else duration_ms(value)
    text = str(value).strip()
    return -duration_ms(text[1:]) if text.startswith("-") else duration_ms(value)
