"""User functions after other stateful operators: lateness and timeouts follow the event time that reaches them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import tidemill as tm
from tests.oracle import groups
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, say string"
DELAY = "5 seconds"
ORIGIN_MS = int(ORIGIN.timestamp() * 1000)
Query = Callable[[Any], Any]


def at_random(seed: int, says: list[str]) -> list[list[tuple[Any, ...]]]:
    """Generate six batches whose times advance and are late, with repeated rows, then one that ends everything."""
    chance = random.Random(seed)
    batches: list[list[tuple[Any, ...]]] = []
    for number in range(6):
        rows: list[tuple[Any, ...]] = []
        for _ in range(chance.randrange(2, 10)):
            seconds = number * 6 + chance.choice([-12, -6, -5, -1, 0, 0.0005, 2, 4])
            ts = None if chance.random() < 0.06 else ORIGIN + timedelta(seconds=seconds)
            rows.append((chance.choice(["a:g,x", "b", None]), ts, chance.choice(says)))
            rows += [rows[-1]] * (chance.random() < 0.3)
        batches.append(rows)
    return [*batches, [("end", ORIGIN + timedelta(seconds=200), "")], [("end", ORIGIN + timedelta(seconds=201), "")]]


class Latest(StatefulProcessor):
    """Emits the latest time of a key in each batch, and a timer's own once it fires."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.rows = handle.getValueState("rows", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        times = [row.ts for row in rows if row.ts is not None]
        self.rows.update(((self.rows.get() or (0,))[0] + len(times),))
        if times:
            self.handle.registerTimer(int(max(times).timestamp() * 1000) + 7000)
            yield Row(k=key[0], at=max(times), n=self.rows.get()[0])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        later = pd.Timestamp(timerValues.getCurrentWatermarkInMs() + 1000, unit="ms", tz="UTC")
        yield Row(k=key[0], at=later.to_pydatetime(), n=-(self.rows.get() or (0,))[0])
        self.rows.clear()


class Watched(StatefulProcessor):
    """Show the frames that arrive and the watermark, and register a timer for each time."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen = handle.getListState("seen", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            self.seen.appendList([(int(n),) for n in frame["n"]])
            for time in frame["at"]:
                self.handle.registerTimer(int(time.timestamp() * 1000) + 2000)
            yield self.report(key, f"rows {sorted(zip(frame['at'].astype(str), frame['n'], strict=True))}", timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield self.report(key, f"fired {expiredTimerInfo.getExpiryTimeInMs() - ORIGIN_MS}", timerValues)

    def report(self, key: Any, what: str, timerValues: Any) -> Any:
        seen = sorted(n for (n,) in self.seen.get())
        timers = sorted(timer - ORIGIN_MS for timer in self.handle.listTimers())
        text = f"{what} {seen} {timers} {timerValues.getCurrentWatermarkInMs()}"
        return pd.DataFrame({"k": [key[0]], "told": [text]})  # prose: quoted


def late(stream: Any) -> Any:
    return stream.withWatermark("ts", DELAY)


def latest(stream: Any) -> Any:
    given = (Latest(), "k string, at timestamp, n bigint", "Append", "EventTime")
    return stream.groupBy("k").transformWithState(*given, eventTimeColumnName="at")


def watched(stream: Any) -> Any:
    output = "k string, told string"  # prose: quoted
    return stream.groupBy("k").transformWithStateInPandas(Watched(), output, "Append", "EventTime")


def programmed(stream: Any) -> Any:
    given = (groups.frames, "value string", "n long", "append", "EventTimeTimeout")
    return stream.groupBy("k").applyInPandasWithState(*given)


class Totals(StatefulProcessor):
    """Sum the output of windows by key, and emit the sum again ten seconds after the end of each window."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        ends = []
        for row in rows:
            ends.append(int(row.window["end"].timestamp() * 1000) - ORIGIN_MS)
            self.total.update(((self.total.get() or (0,))[0] + row.n,))
            self.handle.registerTimer(ORIGIN_MS + ends[-1] + 10_000)
        yield self.report(key, f"ends {sorted(ends)}", timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield self.report(key, f"fired {expiredTimerInfo.getExpiryTimeInMs() - ORIGIN_MS}", timerValues)

    def report(self, key: Any, what: str, timerValues: Any) -> Any:
        return Row(k=key[0], told=f"{what} {self.total.get()} {timerValues.getCurrentWatermarkInMs()}")  # prose: quoted


def summed(stream: Any) -> Any:
    output = "k string, told string"  # prose: quoted
    return stream.groupBy("k").transformWithState(Totals(), output, "Append", "EventTime")


def spark_windows(df: Any) -> Any:
    from pyspark.sql import functions

    return late(df).groupBy(functions.window("ts", "4 seconds"), "k").agg(functions.count("*").alias("n"))


def windows(stream: Any) -> Any:
    return late(stream).groupBy(tm.window("ts", "4 seconds"), "k").agg(n=tm.count(), outputMode="append")


def spark_flat_map(df: Any) -> Any:
    from pyspark.sql import DataFrame

    once = late(df).dropDuplicatesWithinWatermark(["k", "say"])
    made = groups.compiled(df.sparkSession).flatMap(once._jdf, "append", "EventTimeTimeout")
    return DataFrame(made, df.sparkSession)


def flat_map(stream: Any) -> Any:
    grouped = late(stream).dropDuplicatesWithinWatermark(["k", "say"]).groupBy("k")
    return grouped.flatMapGroupsWithState(groups.each, "string", "bigint", "append", "EventTimeTimeout")


def one_program(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the first row of each key for every row of the key, because Spark's deduplication has no order."""
    first: dict[Any, tuple[Any, ...]] = {}
    return [first.setdefault(row[0], row) for row in rows]


def case(name: str, batches: list[list[tuple[Any, ...]]], spark: Query, tidemill: Query) -> Case:
    return Case(f"chain-{name}", SCHEMA, batches, spark, tidemill)


def armed(name: str, seed: int, spark: Query, tidemill: Query) -> Case:
    return case(name, [one_program(rows) for rows in at_random(seed, ARMED)], spark, tidemill)


def processors(stream: Any) -> Any:
    return watched(latest(late(stream)))


def duplicates_processors(stream: Any) -> Any:
    return watched(latest(late(stream).dropDuplicates(["k", "ts"])))


def duplicates_pandas(stream: Any) -> Any:
    return programmed(late(stream).dropDuplicatesWithinWatermark(["k", "say"]))


ARMED = ["u1,w", "u2", "g,x", "r", f"u5,t{ORIGIN_MS + 12_000}", f"t{ORIGIN_MS + 20_000}", "u3,a10", "w,t1"]
CASES = [
    case("processor-processor", at_random(1, [""]), processors, processors),
    case("duplicates-processor", at_random(2, [""]), duplicates_processors, duplicates_processors),
    case(
        "window-processor", at_random(4, [""])[2:7], lambda df: summed(spark_windows(df)), lambda s: summed(windows(s))
    ),
    armed("duplicates-pandas", 3, duplicates_pandas, duplicates_pandas),
    armed("duplicates-flat-map", 5, spark_flat_map, flat_map),
]
