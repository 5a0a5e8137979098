"""Count people at two gates as one stream (`unionByName`), while one gate is silent (`idle=`).

The back gate sends nothing after nine. Its watermark would keep every window open for ever. With `idle=` its watermark
follows batch time once nothing has arrived for half an hour.

Prints:

    09:05 []
    09:40 []
    10:20 [('09:00', 3)]
"""

from __future__ import annotations

from datetime import UTC, datetime

import tidemill as tm
from tidemill.testing import Tester

p = tm.Pipeline("gates")
front = p.read(tm.Rows("at timestamp, people int"), name="front").withWatermark("at", "5 minutes")
back = p.read(tm.Rows("people int, at timestamp"), name="back").withWatermark("at", "5 minutes", idle="30 minutes")
front.unionByName(back).groupBy(tm.window("at", "1 hour")).agg(people=tm.sum("people"), outputMode="append")


def at(hour: int, minute: int) -> datetime:
    """Return a time on the day of the counts."""
    return datetime(2024, 5, 1, hour, minute, tzinfo=UTC)


if __name__ == "__main__":
    tester = Tester(p)
    for time, rows in (
        (at(9, 5), {"front": [(at(9, 1), 1)], "back": [(1, at(9, 2))]}),
        (at(9, 40), {"front": [(at(9, 39), 1)], "back": []}),
        (at(10, 20), {"front": [(at(10, 18), 1)], "back": []}),
    ):
        done = tester.batch(rows, batch_time_ms=int(time.timestamp() * 1000))
        print(f"{time:%H:%M}", [(f"{window['start']:%H:%M}", people) for window, people in done.outputs])
