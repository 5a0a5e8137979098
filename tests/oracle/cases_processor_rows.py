"""The objects that `transformWithState` passes to a processor, shown by `repr`: rows, keys, initial rows, all types.

Spark has two shapes: with rows all cells are as Arrow has them (aware times in the session's time zone, dicts for
structs, lists of pairs for maps); a timer's key and the variables hold `Row`s, dicts and naive times. The latter are in
the time zone of the Python process on Spark, which no setting names, so in another zone they are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from tests.oracle.case import Case
from tidemill.sources.rows import Rows

KEY = ["k", "seen", "day", "wall", "part"]
KEYED = "k string, seen timestamp, day date, wall timestamp_ntz, part struct<u: int, v: timestamp>"
NESTED = "struct<t: timestamp, i: int, deep: struct<q: array<map<string, int>>>>"
KEPT = (
    "n int, y tinyint, f float, d double, p decimal(10, 2), s string, raw binary, b boolean, on date, ts timestamp, "
    f"ntz timestamp_ntz, times array<timestamp>, counts map<string, int>, r {NESTED}, l array<struct<u: int>>, "
    "aa array<array<int>>"
)
BY_TIME = "map<timestamp, struct<t: timestamp, more: map<int, string>>>"
HANDED = ["ts", "ntz", "times", "counts", "r", "l", "aa", "byTime"]
OUTPUT = (
    "said string, ts timestamp, ntz timestamp_ntz, times array<timestamp>, counts map<string, int>, "
    f"r {NESTED}, l array<struct<u: int>>, aa array<array<int>>, byTime {BY_TIME}"
)
SCHEMA = f"{KEYED}, {KEPT}, byTime {BY_TIME}"

WINTER = datetime(2020, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
TWICE = datetime(2020, 11, 1, 5, 30, tzinfo=UTC)  # the first half past one of that night in New York
WALL = datetime(2020, 1, 2, 3, 4, 5)


class Telling(StatefulProcessor):
    """Show what it receives, emit the cells unchanged, and keep them."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.kept = handle.getValueState("kept", KEPT)
        self.given = handle.getListState("given", "told string")  # prose: quoted

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.given.appendValue((f"{key!r} {initialState!r}",))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        texts = sorted(text for (text,) in self.given.get())
        for row in sorted(rows, key=repr):
            if self.keeps:
                texts.append(repr(self.kept.get()))
                counts = None if row.counts is None else dict(row.counts)
                r = row.r and {**row.r, "deep": {"q": [dict(pairs) for pairs in row.r["deep"]["q"]]}}
                changed = {"counts": counts, "r": r}
                self.kept.update(tuple(changed.get(name, row[name]) for name in KEPT_NAMES))
                self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 500)
            said = f"{type(key).__name__} {key!r} {row!r} {texts}"
            yield Row("said", *HANDED)(said, *(row[name] for name in HANDED))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        said = f"{type(key).__name__} {key!r} {(*key,)!r} {self.kept.get()!r}"
        yield Row("said", *HANDED)(said, *(None for _ in HANDED))


KEPT_NAMES = ["n", "y", "f", "d", "p", "s", "raw", "b", "on", "ts", "ntz", "times", "counts", "r", "l", "aa"]


def row(name: str, at: datetime, n: int) -> tuple[Any, ...]:
    """Return a row without nulls."""
    return (
        *(name, at, date(2020, 1, 1), WALL, {"u": 1, "v": at}),
        *(n, n, 0.1, 0.1, Decimal(n) / 4, "s", b"x\x00", n % 2 == 0, date(1969, 12, 31), at + timedelta(hours=n)),
        *(WALL + timedelta(hours=n), [at, None], {"a": n, "b": None}),
        {"t": at + timedelta(hours=n), "i": None, "deep": {"q": [{"z": n}, {}]}},
        *([{"u": n}, None], [[n], [], None], {at: {"t": at, "more": {n: "x", 7: None}}}),
    )


NOTHING = ("b", *(None for _ in range(21)))
EMPTY = ("c", *(None for _ in range(15)), [], {}, None, [], [], {})


def rows_of_types(name: str, zone: str, at: datetime, keeps: bool) -> Case:
    """Keys of every type that can group, and cells of every type, in rows and in the initial state."""
    batches: list[Any] = [[row("a", at, 1), NOTHING, EMPTY], [row("a", at, 2), NOTHING], []]
    initial = [row("a", at, 3), NOTHING]

    def query(stream: Any, states: Any) -> Any:
        mode = "ProcessingTime" if keeps else "None"
        return stream.groupBy(*KEY).transformWithState(Telling(keeps), OUTPUT, "Update", mode, states)

    def spark(frame: Any) -> Any:
        return query(frame, frame.sparkSession.createDataFrame(initial, SCHEMA).groupBy(*KEY))

    def tidemill(stream: Any) -> Any:
        return query(stream, pa.table(Rows(SCHEMA).table(initial)))

    return Case(
        f"processor-rows-{name}",
        SCHEMA,
        batches,
        spark,
        tidemill,
        mode="update",
        conf={"spark.sql.session.timeZone": zone},
        triggers="one" if keeps else "all",
    )


CASES = [
    rows_of_types("of-every-type", "UTC", WINTER, keeps=True),
    rows_of_types("in-another-zone", "America/New_York", TWICE, keeps=False),
]
