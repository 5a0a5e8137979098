"""The one place that reads the machine's clock. Code that measures a duration uses `time.perf_counter` directly.

INVARIANT: a batch computes with the time in its plan. The clock is read before planning, and to date records; ruff bans
clocks everywhere else.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000
