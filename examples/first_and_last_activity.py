"""First and last activity by user, in two ways: with aggregates, and with a function that keeps its own state.

The aggregates are computed in Rust and never call Python: take them where they suffice. A function can do what no
aggregate does: here it says once, and never again, that a user has come back after more than a day.

Prints:

    batch 0: ann 2024-05-01 .. 2024-05-02, bob 2024-05-01 .. 2024-05-01
    batch 1: ann 2024-05-01 .. 2024-05-04, eve 2024-05-04 .. 2024-05-04
    came back: [('ann', 48)]
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import tidemill as tm
from tidemill.testing import Tester

A_DAY = timedelta(days=1)


def watch(batchTime: int, user: str, at: datetime | None, state: Any) -> tuple[str, int] | None:
    """Hours of silence, where they were more than a day."""
    last = state.getOption
    if at is None or (last is not None and at <= last):
        return None  # nothing new: events may come in any order
    state.update(at)
    if last is None or at - last <= A_DAY:
        return None
    return user, int((at - last).total_seconds() // 3600)


p = tm.Pipeline("activity")
by_user = p.read(tm.Rows("user string, at timestamp")).groupBy("user")
by_user.agg(first=tm.min("at"), last=tm.max("at"), name="span")
by_user.mapWithState(
    tm.StateSpec.function(watch), "timestamp", "user string, hours bigint", value="at", name="came-back"
)

BATCHES = (
    [("ann", datetime(2024, 5, 1, 9)), ("bob", datetime(2024, 5, 1, 10)), ("ann", datetime(2024, 5, 2, 9))],
    [("ann", datetime(2024, 5, 4, 9)), ("eve", datetime(2024, 5, 4, 11)), ("ann", datetime(2024, 5, 3, 23))],
)

if __name__ == "__main__":
    tester = Tester(p)
    for number, rows in enumerate(BATCHES):
        done = tester.batch(rows)
        spans = sorted(done.outputs["span"])
        print(f"batch {number}: " + ", ".join(f"{user} {a:%Y-%m-%d} .. {b:%Y-%m-%d}" for user, a, b in spans))
    print(f"came back: {done.outputs['came-back']}")
