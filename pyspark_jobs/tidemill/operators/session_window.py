"""`tm.session_window`: sessions as a part of the key. Spark: `pyspark.sql.functions.session_window`.

This module has the declaration and its checks. The Rust engine decides which rows form a session.
"""

from __future__ import annotations

from datetime import timedelta

from ..errors import InvalidInput
from ..units import duration_ms
from ..values import dataclass

SESSION = "session_window"
"""The output column with the start and end of a session."""


@dataclass(frozen=True)
class SessionWindow:
    """Sessions over a timestamp column, as `tm.session_window` returns them. The gap is in milliseconds."""

    column: str
    gap_ms: int

    def __str__(self) -> str:
        return f"sessions with a gap of {self.gap_ms} ms over {self.column}"


def session_window(timeColumn: str, gapDuration: str | timedelta) -> SessionWindow:
    """Group rows of a key into sessions, as an argument of `.groupBy`. Spark: `session_window`.

    A row opens a session from its time in `timeColumn` to its time plus `gapDuration`. Sessions of a key that overlap
    or touch are merged, so an out-of-order row may join two sessions. A session is emitted once, when the watermark has
    reached its end. Hence it needs `outputMode="append"` and `.withWatermark(timeColumn, …)`. The output has a column
    `session_window struct<start, end>`.

    `gapDuration` is a duration such as `"10 minutes"` or a `timedelta`, above zero. A gap that depends on the row, for
    which Spark accepts a column, is not supported. `InvalidInput` for any other value.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("visits")
    >>> clicks = p.read(tm.Rows("ts timestamp, user string")).withWatermark("ts", "10 minutes")
    >>> visits = clicks.groupBy("user", tm.session_window("ts", "30 minutes")).agg(n=tm.count(), outputMode="append")
    >>> visits.schema.names
    ['user', 'session_window', 'n']
    """
    if not isinstance(timeColumn, str):
        raise InvalidInput(f"tm.session_window: expected the name of a timestamp column, found {timeColumn!r}")
    fixed = "expected a fixed duration above zero, such as '10 minutes'"
    if not isinstance(gapDuration, str | timedelta):
        raise InvalidInput(
            f"tm.session_window: gapDuration {gapDuration!r}, {fixed}",
            hint="a gap that depends on the row is not supported",
        )
    try:
        gap_ms = duration_ms(gapDuration)
    except InvalidInput as error:
        raise InvalidInput(
            f"tm.session_window: gapDuration {gapDuration!r}, {fixed}",
            hint="units: milliseconds, seconds, minutes, hours, days, weeks; a gap from a column is not supported",
        ) from error
    if gap_ms == 0:
        raise InvalidInput(f"tm.session_window: gapDuration {gapDuration!r}, {fixed}")
    return SessionWindow(timeColumn, gap_ms)
