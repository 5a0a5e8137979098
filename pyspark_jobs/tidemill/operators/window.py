"""`tm.window`: time windows as a part of the key. Spark: `pyspark.sql.functions.window`.

This module has the declaration and its checks. The Rust engine decides into which windows a row falls.
"""

from __future__ import annotations

from datetime import timedelta

from ..errors import InvalidInput
from ..units import duration_ms
from ..values import dataclass

START, END = "window_start", "window_end"
"""The key columns of state with a window's start and, if the stream's column holds windows, its end."""

WINDOW = "window"
"""The output column with the start and end of a window."""

MOST_WINDOWS = 10_000
"""The number of windows that a row may fall into."""


@dataclass(frozen=True)
class Window:
    """Windows over a timestamp column, as `tm.window` returns them. Times are in milliseconds."""

    column: str
    size_ms: int
    slide_ms: int
    start_ms: int

    def __str__(self) -> str:
        return f"{self.size_ms} ms by {self.slide_ms} ms from {self.start_ms} ms over {self.column}"


@dataclass(frozen=True)
class GivenWindow:
    """Windows that a column holds, because an upstream operator emitted them: `.groupBy("window")`."""

    column: str

    def __str__(self) -> str:
        return f"those of {self.column}"


def window(
    timeColumn: str,
    windowDuration: str | timedelta,
    slideDuration: str | timedelta | None = None,
    startTime: str | timedelta | None = None,
) -> Window:
    """Group rows into time windows, as an argument of `.groupBy`. Spark: `window`.

    Each window is `windowDuration` long, and one starts every `slideDuration` (default: `windowDuration`, so that
    windows do not overlap). A window has the times from its start up to, but not including, its end. Starts are at
    multiples of the slide since the epoch, plus `startTime` (default: zero), which may be negative. The output has a
    column `window struct<start, end>`.

    Durations are text such as `"10 minutes"` or a `timedelta`. `InvalidInput` if the slide is not above zero or is
    longer than a window, if `startTime` is not less than the slide, or if a row would fall into more than 10,000
    windows.

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
            "above zero that is no longer than the duration"
        )
    if -(-size // slide) > MOST_WINDOWS:
        raise InvalidInput(
            f"tm.window: {windowDuration!r} by {slideDuration!r}: each row falls into {-(-size // slide)} windows, "
            f"expected at most {MOST_WINDOWS}",
            hint="use a longer slide: each window gets a copy of the row",
        )
    if abs(start) >= slide:
        raise InvalidInput(f"tm.window: startTime {startTime!r}, expected less than the slide {slide} ms")
    return Window(timeColumn, size, slide, start)


def _signed_ms(value: str | timedelta) -> int:
    """Return a duration in ms that may be negative, such as `"-5 minutes"`."""
    if isinstance(value, timedelta):
        return -duration_ms(-value) if value < timedelta(0) else duration_ms(value)
    text = str(value).strip()
    return -duration_ms(text[1:]) if text.startswith("-") else duration_ms(value)
