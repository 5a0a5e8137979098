"""Chain three operators in one commit: drop duplicates, count clicks by user and hour, count users by hour.

Prints:

    batch 0: no window is over
    batch 1: 09:00 had 2 users with 3 clicks
"""

from __future__ import annotations

from datetime import datetime

import tidemill as tm
from tidemill.testing import Tester

p = tm.Pipeline("clicks")
clicks = p.read(tm.Rows("id string, at timestamp, user string")).withWatermark("at", "10 minutes")
once = clicks.dropDuplicatesWithinWatermark(["id"])
by_user = once.groupBy(tm.window("at", "1 hour"), "user").agg(n=tm.count(), outputMode="append", name="by-user")
by_user.groupBy("window").agg(users=tm.count(), clicks=tm.sum("n"), outputMode="append", name="by-hour")


def at(hour: int, minute: int) -> datetime:
    """Return a time on the day of the clicks."""
    return datetime(2024, 5, 1, hour, minute)


BATCHES = (
    [("1", at(9, 5), "ann"), ("2", at(9, 20), "bob"), ("1", at(9, 5), "ann"), ("3", at(9, 25), "ann")],
    [("2", at(9, 20), "bob"), ("4", at(10, 30), "eve")],
)

if __name__ == "__main__":
    tester = Tester(p)
    for number, rows in enumerate(BATCHES):
        over = [f"{w['start']:%H:%M} had {users} users with {n} clicks" for w, users, n in tester.batch(rows).outputs]
        print(f"batch {number}: " + (", ".join(over) or "no window is over"))
