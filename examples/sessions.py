"""Group clicks into sessions with gaps of at most half an hour. A click that arrives later joins two sessions.

Prints:

    open: ann 09:00 to 09:30, ann 09:50 to 10:20
    open: ann 09:00 to 10:20
    over: ann 09:00 to 10:20, 3 clicks on ['/home', '/cart', '/search']
"""

from __future__ import annotations

from datetime import datetime

import tidemill as tm
from tidemill.testing import Tester

p = tm.Pipeline("visits")
clicks = p.read(tm.Rows("user string, at timestamp, page string")).withWatermark("at", "1 hour")
clicks.groupBy("user", tm.session_window("at", "30 minutes")).agg(
    clicks=tm.count(), pages=tm.collect_set("page", limit=100), outputMode="append"
)


def at(hour: int, minute: int) -> datetime:
    """Return a time on the day of the clicks."""
    return datetime(2024, 5, 1, hour, minute)


if __name__ == "__main__":
    tester = Tester(p)
    for rows in (
        [("ann", at(9, 0), "/home"), ("ann", at(9, 50), "/cart")],
        [("ann", at(9, 25), "/search")],
        [("bob", at(11, 30), "/home")],
    ):
        done = tester.batch(rows)
        for user, session, count, pages in done.outputs:
            print(f"over: {user} {session['start']:%H:%M} to {session['end']:%H:%M}, {count} clicks on {pages}")
        ann = [(start, kept.session_end) for start, kept in done.state.get("ann", {}).items()]
        if ann:
            print("open: " + ", ".join(f"ann {start:%H:%M} to {end:%H:%M}" for start, end in sorted(ann)))
