"""End a session after silence, with a timeout for each user (`flatMapGroupsWithState`).

A user's session grows with every event. It is emitted when more than ten minutes of batch time pass without an event.

Prints:

    10:00 []
    10:05 []
    10:11 [('bob', 1)]
    10:16 [('ann', 3)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tidemill as tm
from tidemill.testing import Tester

MINUTE_MS = 60_000


def session(user: str, rows: Iterator[Any], state: tm.GroupState) -> Iterator[tuple[str, int]]:
    """Emit the user and the number of events when the session has ended."""
    if state.hasTimedOut:
        yield user, state.get
        state.remove()
        return
    state.update((state.getOption or 0) + sum(1 for _ in rows))
    state.setTimeoutDuration("10 minutes")


p = tm.Pipeline("sessions")
p.read(tm.Rows("user string, page string")).groupBy("user").flatMapGroupsWithState(
    session,
    outputSchema="user string, events bigint",
    stateSchema="bigint",
    outputMode="append",
    timeoutConf="ProcessingTimeTimeout",
)

if __name__ == "__main__":
    tester = Tester(p, start_ms=600 * MINUTE_MS)
    print("10:00", tester.batch([("ann", "home"), ("bob", "home"), ("ann", "cart")]).outputs)
    print("10:05", tester.batch([("ann", "pay")], batch_time_ms=605 * MINUTE_MS).outputs)
    print("10:11", tester.sweep(611 * MINUTE_MS).outputs)
    print("10:16", tester.sweep(616 * MINUTE_MS).outputs)
