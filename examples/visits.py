"""End a visit to a site after ten silent minutes, with list state and event-time timers (`transformWithState`).

When a visit ends, the processor emits the number of its pages and the first page.

Prints:

    at the row of 12:00: no visit is over
    at the row of 12:30: ('ada', 2, 'home'), ('bob', 1, 'help')
"""

import datetime

import tidemill as tm

SILENCE_MS = 600_000


class Visits(tm.StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.pages = handle.getListState("pages", "page string")

    def handleInputRows(self, key, rows, timerValues):
        for timer in self.handle.listTimers():  # the user is still active
            self.handle.deleteTimer(timer)
        clicks = list(rows)
        self.pages.appendList([(row.page,) for row in clicks])
        last = max(row.ts for row in clicks)
        self.handle.registerTimer(int(last.timestamp() * 1000) + SILENCE_MS)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        pages = [page for (page,) in self.pages.get()]
        self.pages.clear()
        yield (*key, len(pages), pages[0])


p = tm.Pipeline("site")
clicks = p.read(tm.Rows("user string, page string, ts timestamp")).withWatermark("ts", "1 minute")
clicks.groupBy("user").transformWithState(
    Visits(), "user string, pages bigint, first string", outputMode="append", timeMode="EventTime", name="visits"
)


def at(minute):
    return datetime.datetime(2026, 1, 1, 12, minute, tzinfo=datetime.UTC)


if __name__ == "__main__":
    tester = tm.testing.Tester(p)
    first = [("ada", "home", at(0)), ("bob", "help", at(1)), ("ada", "shop", at(4))]
    second = [("cyd", "home", at(30))]
    for rows in (first, second):
        over = tester.batch(rows).outputs
        shown = ", ".join(str(visit) for visit in sorted(over)) or "no visit is over"
        print(f"at the row of {rows[0][2]:%H:%M}: {shown}")
