"""The watermark: how far event time has come, as Spark computes it.

Pure, and no clock. INVARIANT: a watermark never falls.
"""

from __future__ import annotations

START_MS = 0
"""W(−1): a watermark before any event, as in Spark."""


def advance(watermark_ms: int, max_event_ms: int | None, delay_ms: int) -> int:
    """W(N) from W(N−1) and the greatest event time of batch N (None: it had none).

    >>> advance(START_MS, 10_000, 3_000), advance(9_000, 10_000, 3_000), advance(9_000, None, 3_000)
    (7000, 9000, 9000)
    """
    return watermark_ms if max_event_ms is None else max(watermark_ms, max_event_ms - delay_ms)
