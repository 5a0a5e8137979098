"""The one place that reads the machine's clock. Durations are measured with `time.perf_counter` where they arise.

INVARIANT: what a batch computes depends on the time in its plan; a clock is read before planning and for records
only (ruff bans the clocks everywhere else).
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000
