"""`transformWithState`: a processor whose rows are commands, over seeded random streams.

After each command, and whenever a timer fires, it emits all that it sees: its variables, its timers, both clocks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, what string, n int"
OUTPUT = "k string, what string, seen string, processing_ms bigint, watermark_ms bigint"
DELAY = "5 seconds"
ORIGIN_MS = int(ORIGIN.timestamp() * 1000)
STATES = [
    *("update", "update", "clear", "put", "append", "append", "appendList", "clearList"),
    *("set", "set", "set", "remove", "clearMap", "contains", "look"),
]
TIMERS = ["register", "register", "register", "delete", "deleteAll"]


class Commanded(StatefulProcessor):
    """A processor whose rows are commands. A timer that fires acts too, depending on its expiry."""

    def __init__(self, ttl_ms: int | None = None, timers: bool = False) -> None:
        self.ttl_ms, self.timers = ttl_ms, timers

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.gone = handle.getValueState("gone", "n int")
        self.value = handle.getValueState(
            "value", "n int, items array<int>, part struct<a: int, b: string>, x double", self.ttl_ms
        )
        self.plain = handle.getValueState("plain", StructType([StructField("k", IntegerType())]))
        self.list = handle.getListState("list", "n int, k string", self.ttl_ms)
        key = StructType([StructField("k", StringType()), StructField("i", IntegerType())])
        self.map = handle.getMapState("map", key, "n int", self.ttl_ms)
        handle.deleteIfExists("gone")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            found = self.obey(row.what, row.n, row, timerValues)
            yield self.seen(key, f"{row.what} {row.n} {found}", timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        expiry_ms = expiredTimerInfo.getExpiryTimeInMs()
        yield self.seen(key, f"fired {expiry_ms}", timerValues)
        step = expiry_ms // 1000 % 5
        if step == 0:
            self.handle.registerTimer(expiry_ms + 1000)
        elif step == 1:
            self.handle.registerTimer(expiry_ms)
        elif step == 2:
            self.handle.deleteTimer(expiry_ms)
            self.list.appendValue((step, "fired"))
        elif step == 3:
            self.value.clear()
            self.map.updateValue(("fired", None), (expiry_ms % 7,))
        yield self.seen(key, f"after {expiry_ms}", timerValues)

    def obey(self, what: str, n: int, row: Any, timerValues: Any) -> Any:
        match what:
            case "update":
                old = self.value.get() if self.value.exists() else (0,)
                self.value.update((old[0] + n, [n, None, n], (n, "b"), n / 4))
                self.plain.update((n,))
            case "clear":
                self.value.clear()
            case "put":
                self.list.put([(n, "put"), (None, None)])
            case "append":
                self.list.appendValue((n, "append"))
            case "appendList":
                self.list.appendList([(n, "many"), (n + 1, "many")])
            case "clearList":
                self.list.clear()
            case "set":
                self.map.updateValue((row.k, n % 4), (n,))
            case "remove":
                self.map.removeKey((row.k, n % 4))
            case "clearMap":
                self.map.clear()
            case "contains":
                return self.map.containsKey((row.k, n % 4)), self.map.getValue((row.k, n % 4))
            case "register":
                self.handle.registerTimer(self.base(row, timerValues) + n * 1000)
            case "delete":
                self.handle.deleteTimer(self.base(row, timerValues) + n * 1000)
            case "deleteAll":
                for timer in list(self.handle.listTimers()):
                    self.handle.deleteTimer(timer)
        return None

    def base(self, row: Any, timerValues: Any) -> int:
        return int(timerValues.getCurrentProcessingTimeInMs()) if pd.isna(row.ts) else ORIGIN_MS

    def seen(self, key: Any, what: str, timerValues: Any) -> Any:
        state = (
            (self.value.exists(), self.value.get(), self.plain.get()),
            (self.list.exists(), list(self.list.get())),
            (self.map.exists(), sorted(self.map.iterator(), key=repr), sorted(self.map.keys(), key=repr)),
            sorted(map(repr, self.map.values())),
            sorted(self.handle.listTimers()) if self.timers else [],
        )
        clocks = timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()
        return Row(k=key[0], what=what, seen=repr(state), processing_ms=clocks[0], watermark_ms=clocks[1])


class InFrames(Commanded):
    """The same with pandas frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            text = f"{len(frame)} of {', '.join(f'{name} {kind}' for name, kind in frame.dtypes.items())}"
            seen = [self.seen(key, text, timerValues)]
            for row in frame.itertuples(index=False):
                found = self.obey(row.what, int(row.n), row, timerValues)
                seen.append(self.seen(key, f"{row.what} {row.n} {found}", timerValues))
            yield self.frame(seen)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from map(self.frame, ([row] for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo)))

    def frame(self, rows: list[Any]) -> Any:
        return pd.DataFrame(
            [tuple(row) for row in rows], columns=["k", "what", "seen", "processing_ms", "watermark_ms"]
        )


class Passing(StatefulProcessor):
    """Emit the latest time of a key as an event time, for every batch of the key."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.latest = handle.getValueState("latest", "at timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        times = [row.ts for row in rows if row.ts is not None]
        if times:
            self.latest.update((max(times),))
            yield Row(k=key[0], at=max(times))


class Seeded(Commanded):
    """Begins with an initial state, and timers that it registers."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.value.update((initialState.n, None, None, None))
        self.list.appendValue((initialState.n, str(tuple(initialState))))
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        self.handle.registerTimer(now_ms + (initialState.n - 1) * 1000)


INITIAL = [("a", 1), ("z", 2), ("a", 3), (None, 4), ("y", 0)]


def seeded(name: str, batches: list[Any]) -> Case:
    """An initial state with keys that have rows, keys that have none, and a key that comes twice."""

    def spark(frame: Any) -> Any:
        initial = frame.sparkSession.createDataFrame(INITIAL, "k string, n int").groupBy("k")
        return frame.groupBy("k").transformWithState(Seeded(timers=True), OUTPUT, "Update", "ProcessingTime", initial)

    def tidemill(stream: Any) -> Any:
        columns = [pa.array(list(column)) for column in zip(*INITIAL, strict=True)]
        initial = pa.table([columns[0], columns[1].cast("int32")], names=["k", "n"])
        return stream.groupBy("k").transformWithState(
            Seeded(timers=True), OUTPUT, "Update", "ProcessingTime", initialState=initial
        )

    return Case(f"processor-{name}", SCHEMA, batches, spark, tidemill, mode="update", triggers="one")


def commands(seed: int, kinds: list[str], time: Callable[[random.Random, int], Any]) -> list[Any]:
    """Twelve micro-batches of a few keys; in some only time passes."""
    chance = random.Random(seed)
    batches: list[Any] = []
    for number in range(12):
        rows = [
            (chance.choice(["a", "b", "c", None]), time(chance, number), chance.choice(kinds), chance.randrange(12))
            for _ in range(chance.randrange(9))
        ]
        batches.append(rows)
    return batches


def event_time(chance: random.Random, number: int) -> Any:
    """A time around the batch's, sometimes late."""
    return ORIGIN + timedelta(seconds=number * 2 + chance.choice([-9, -3, 0, 1, 2, 2.5]))


def registered(rows: list[Any]) -> list[Any]:
    """Timers by seconds since the origin, near what the watermark will be."""
    return [
        [(k, ts, what, n + 2 * number if what in ("register", "delete") else n) for k, ts, what, n in batch]
        for number, batch in enumerate(rows)
    ]


def case(
    name: str, batches: list[Any], processor: Callable[[], Any], mode: str, watermark: bool = False, **more: Any
) -> Case:
    """The same processor on both. `watermark`: also where the mode needs none."""

    def spark(frame: Any) -> Any:
        frame = frame.withWatermark("ts", DELAY) if watermark or mode == "EventTime" else frame
        return frame.groupBy("k").transformWithState(processor(), OUTPUT, "Update", mode)

    def tidemill(stream: Any) -> Any:
        stream = stream.withWatermark("ts", DELAY) if watermark or mode == "EventTime" else stream
        return stream.groupBy("k").transformWithState(processor(), OUTPUT, "Update", mode)

    return Case(f"processor-{name}", SCHEMA, batches, spark, tidemill, mode="update", **more)


LOOKS = [[(k, None, "look", 0) for k in keys] for keys in ("ab", "", "ayz", "z", "b")]


def in_frames(name: str, batches: list[Any], processor: Callable[[], Any], mode: str, **more: Any) -> Case:
    """The same processor over frames on both."""

    def query(stream: Any) -> Any:
        stream = stream.withWatermark("ts", DELAY) if mode == "EventTime" else stream
        return stream.groupBy("k").transformWithStateInPandas(processor(), OUTPUT, "Update", mode)

    return Case(f"processor-frames-{name}", SCHEMA, batches, query, query, mode="update", **more)


def chained(batches: list[Any]) -> Case:
    """Windows over the event time that a processor emits."""

    def spark(frame: Any) -> Any:
        from pyspark.sql import functions

        passed = frame.withWatermark("ts", DELAY).groupBy("k")
        passed = passed.transformWithState(
            Passing(), "k string, at timestamp", "Append", "EventTime", eventTimeColumnName="at"
        )
        return passed.groupBy(functions.window("at", "4 seconds"), "k").agg(functions.count("*").alias("n"))

    def tidemill(stream: Any) -> Any:
        passed = stream.withWatermark("ts", DELAY).groupBy("k")
        passed = passed.transformWithState(
            Passing(), "k string, at timestamp", "Append", "EventTime", eventTimeColumnName="at"
        )
        return passed.groupBy(tm.window("at", "4 seconds"), "k").agg(n=tm.count(), outputMode="append")

    return Case("processor-chained-window", SCHEMA, batches, spark, tidemill)


CASES = [
    in_frames(
        "event-time",
        registered(commands(3, [*STATES, *TIMERS, *TIMERS], event_time)),
        lambda: InFrames(timers=True),
        "EventTime",
    ),
    in_frames(
        "processing-time",
        commands(4, [*STATES, *TIMERS], lambda *_: None),
        lambda: InFrames(ttl_ms=3000, timers=True),
        "ProcessingTime",
        triggers="one",
    ),
    chained(commands(5, ["look"], event_time)),
    seeded("initial-state", LOOKS),
    seeded("initial-state-before-any-row", [[], *LOOKS[:3]]),
    case("states-late", commands(6, STATES, event_time), Commanded, "None", watermark=True),
    case(
        "processing-time-late",
        commands(7, [*STATES, *TIMERS], event_time),
        lambda: Commanded(ttl_ms=3000, timers=True),
        "ProcessingTime",
        watermark=True,
        triggers="one",
    ),
    *(case(f"states-{seed}", commands(seed, STATES, lambda *_: None), Commanded, "None") for seed in (1, 2)),
    *(
        case(
            f"event-time-{seed}",
            registered(commands(seed, [*STATES, *TIMERS, *TIMERS], event_time)),
            lambda: Commanded(timers=True),
            "EventTime",
        )
        for seed in (1, 2)
    ),
    *(
        case(
            f"processing-time-{seed}",
            commands(seed, [*STATES, *TIMERS], lambda *_: None),
            lambda: Commanded(ttl_ms=3000, timers=True),
            "ProcessingTime",
            triggers="one",
        )
        for seed in (1, 2)
    ),
]
