"""Drop duplicates by user and event time under a watermark, so that the state stays small.

An event that is sent twice passes once. The watermark is ten seconds less than the newest event time. When it reaches
the time of a key, the key is forgotten. A later copy of that event is late, and is dropped for that reason.

Prints:

    batch 0: 3 events, new: ['ann 08:00:00', 'bob 08:00:02', 'ann 08:00:05'], keys kept: 3
    batch 1: 3 events, new: ['bob 08:00:14'], keys kept: 2
    batch 2: 2 events, new: ['ann 08:00:40'], keys kept: 1
"""

from __future__ import annotations

from datetime import datetime

import tidemill as tm
from tidemill.testing import Tester

p = tm.Pipeline("events")
events = p.read(tm.Rows("user string, at timestamp")).withWatermark("at", "10 seconds")
events.dropDuplicates(["user", "at"], name="once")


def at(seconds: int) -> datetime:
    """Return the time this many seconds after eight o'clock."""
    return datetime(2024, 5, 1, 8, 0, seconds)


BATCHES = (
    [("ann", at(0)), ("bob", at(2)), ("ann", at(5))],
    [("ann", at(5)), ("bob", at(14)), ("bob", at(14))],  # duplicates: ann at :05, bob at :14
    [("ann", at(5)), ("ann", at(40))],  # another duplicate of ann at :05, still known; then :40 moves the watermark
)

if __name__ == "__main__":
    tester = Tester(p)
    for number, rows in enumerate(BATCHES):
        done = tester.batch(rows)
        new = [f"{row['user']} {row['at']:%H:%M:%S}" for row in sorted(done.rows, key=lambda row: row["at"])]
        print(f"batch {number}: {len(rows)} events, new: {new}, keys kept: {len(done.state)}")
