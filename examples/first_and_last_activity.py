"""Find the first and last activity of each user in three ways: `agg`, `mapGroupsWithState`, `mapWithState`.

Aggregates are computed in Rust and never call Python, so prefer them if they suffice. `mapGroupsWithState` keeps what
each user is doing, and from when to when. `mapWithState` does what no aggregate can: `watch` raises an alert when a
user comes back after more than a day.

Prints:

    batch 0: ann 2024-05-01 .. 2024-05-02, bob 2024-05-01 .. 2024-05-01
    doing: ann bike 2024-05-01 .. 2024-05-02, bob sit 2024-05-01 .. 2024-05-01
    batch 1: ann 2024-05-01 .. 2024-05-04, eve 2024-05-04 .. 2024-05-04
    doing: ann walk 2024-05-03 .. 2024-05-04, eve sit 2024-05-04 .. 2024-05-04
    came back: [('ann', 48)]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import tidemill as tm
from tidemill.testing import Tester

A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Doing:
    """An activity, with the times of its first and last event."""

    activity: str
    start: datetime
    end: datetime


def follow(user: str, events: Iterator[Any], state: tm.GroupState) -> tuple[str, str, datetime, datetime]:
    """Emit the user's current activity. An event of another kind after its end starts a new activity."""
    doing = state.getOption
    for event in events:
        if doing is None or (event.activity != doing.activity and event.at > doing.end):
            doing = Doing(event.activity, event.at, event.at)
        elif event.activity == doing.activity:
            doing = Doing(doing.activity, min(doing.start, event.at), max(doing.end, event.at))
    state.update(doing)
    return user, doing.activity, doing.start, doing.end


def watch(batchTime: int, user: str, at: datetime | None, state: Any) -> tuple[str, int] | None:
    """Emit the hours of silence, if they were more than a day."""
    last = state.getOption
    if at is None or (last is not None and at <= last):
        return None  # an older event: events may arrive in any order
    state.update(at)
    if last is None or at - last <= A_DAY:
        return None
    return user, int((at - last).total_seconds() // 3600)


p = tm.Pipeline("activity")
by_user = p.read(tm.Rows("user string, activity string, at timestamp")).groupBy("user")
by_user.agg(first=tm.min("at"), last=tm.max("at"), name="span")
by_user.mapGroupsWithState(
    follow, outputSchema="user string, activity string, start timestamp, end timestamp", stateSchema=Doing, name="doing"
)
by_user.mapWithState(
    tm.StateSpec.function(watch), "timestamp", "user string, hours bigint", value="at", name="came-back"
)

BATCHES = (
    [
        ("ann", "bike", datetime(2024, 5, 1, 9)),
        ("bob", "sit", datetime(2024, 5, 1, 10)),
        ("ann", "bike", datetime(2024, 5, 2, 9)),
    ],
    [
        ("ann", "walk", datetime(2024, 5, 4, 9)),
        ("eve", "sit", datetime(2024, 5, 4, 11)),
        ("ann", "walk", datetime(2024, 5, 3, 23)),
        ("ann", "bike", datetime(2024, 5, 1, 8)),
    ],
)


def listed(rows: list[Any]) -> str:
    return ", ".join(f"{' '.join(words)} {a:%Y-%m-%d} .. {b:%Y-%m-%d}" for *words, a, b in sorted(rows))


if __name__ == "__main__":
    tester = Tester(p)
    for number, rows in enumerate(BATCHES):
        done = tester.batch(rows)
        print(f"batch {number}: {listed(done.outputs['span'])}")
        print(f"doing: {listed(done.outputs['doing'])}")
    print(f"came back: {done.outputs['came-back']}")
