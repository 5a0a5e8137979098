"""Columns whose names are those of the columns that every state has, of its key, or of its windows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "deleted string, deadline int, window_start string, session_start boolean, state int, updated_at timestamp"
STATE = "deadline bigint, deleted string, updated_at timestamp, state int, _exists boolean"
OUTPUT = "updated_at string, deadline int, deleted string"
KEY = ("deleted", "state")


def row(deleted: str | None, deadline: int, seconds: int, start: str = "s") -> tuple[Any, ...]:
    """A row of the input."""
    return (deleted, deadline, start, deadline % 3 == 0, len(deleted or ""), ORIGIN + timedelta(seconds=seconds))


BATCHES = [
    [row("a", 1, 1), row("a", 2, 2), row("bb", 3, 3, "t"), row(None, 4, 4)],
    [row("a", 5, 5, "t"), row("bb", 6, 14), row("ccc", 6, 15)],
    [row("a", 7, 30), row(None, 4, 31), row("ccc", 9, 33)],
    [row("ccc", 6, 60), row("bb", 1, 61)],
    [row("a", 3, 90)],
]


def in_pandas(key: Any, pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Emit the state that it finds, and keep the matching columns of the last row."""
    found = repr(state.get) if state.exists else "none"
    yield pd.DataFrame({"deadline": [len(found)], "updated_at": [f"{found} {state.hasTimedOut}"], "deleted": [key[0]]})
    if state.hasTimedOut:
        state.remove()
        return
    last = list(pdfs)[-1].iloc[-1]
    at = last["updated_at"].to_pydatetime()
    state.update((int(last["deadline"]), last["deleted"], at, int(last["state"]), bool(last["session_start"])))
    state.setTimeoutTimestamp(int((last["updated_at"] - pd.Timestamp(0)).total_seconds() * 1000) + 8000)


def by_function(stream: Any) -> Any:
    grouped = stream.withWatermark("updated_at", "1 second").groupBy(*KEY)
    return grouped.applyInPandasWithState(in_pandas, OUTPUT, STATE, "update", "EventTimeTimeout")


class Kept(StatefulProcessor):
    """Emits what its variables have, and keeps what the rows say."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.deadline = handle.getValueState("deadline", "deadline int, deleted string, state string")
        self.deleted = handle.getListState("deleted", "updated_at timestamp, deleted string, position int")
        self.state = handle.getMapState("state", "deleted string, deadline int", "state int, deadline int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for one in rows:
            yield self.seen(key, one.deadline)
            self.deadline.update((one.deadline, one.deleted, f"{one.state}"))
            self.deleted.appendValue((one.updated_at, one.deleted, one.state))
            self.state.updateValue((one.window_start, one.deadline), (one.state, -one.deadline))
            self.handle.registerTimer(int(one.updated_at.timestamp() * 1000) + 8000)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield self.seen(key, -expiredTimerInfo.getExpiryTimeInMs() % 100_000)

    def seen(self, key: Any, number: int) -> Any:
        listed = [(f"{at:%M:%S}", *rest) for at, *rest in self.deleted.get()]
        text = f"{key!r} {self.deadline.get()!r} {listed} {sorted(map(repr, self.state.iterator()))}"
        return Row(updated_at=text, deadline=number, deleted=key[0])


def by_processor(stream: Any) -> Any:
    grouped = stream.withWatermark("updated_at", "1 second").groupBy(*KEY)
    return grouped.transformWithState(Kept(), OUTPUT, "Update", "EventTime")


def duplicates(stream: Any) -> Any:
    return stream.withWatermark("updated_at", "1 second").dropDuplicates(["deleted", "deadline"])


def windows_on_spark(frame: Any) -> Any:
    from pyspark.sql import functions

    window = functions.window("updated_at", "10 seconds")
    grouped = frame.withWatermark("updated_at", "1 second").groupBy("window_start", window, "deleted")
    return grouped.agg(functions.sum("deadline").alias("deadline"), functions.avg("state").alias("updated_at"))


def windows(stream: tm.Stream) -> tm.Stream:
    window = tm.window("updated_at", "10 seconds")
    grouped = stream.withWatermark("updated_at", "1 second").groupBy("window_start", window, "deleted")
    return grouped.agg(deadline=tm.sum("deadline"), updated_at=tm.mean("state"))


def sessions_on_spark(frame: Any) -> Any:
    from pyspark.sql import functions

    session = functions.session_window("updated_at", "8 seconds")
    grouped = frame.withWatermark("updated_at", "1 second").groupBy("deleted", "session_start", session)
    return grouped.agg(functions.sum("deadline").alias("session_end"), functions.count("*").alias("deadline"))


def sessions(stream: tm.Stream) -> tm.Stream:
    session = tm.session_window("updated_at", "8 seconds")
    grouped = stream.withWatermark("updated_at", "1 second").groupBy("deleted", "session_start", session)
    return grouped.agg(session_end=tm.sum("deadline"), deadline=tm.count(), outputMode="append")


GIVEN = "a string, part struct<x: int, y: string>, n int"
TAKEN = "k string, n int"


class Giving(StatefulProcessor):
    """Emits rows that have other names than the output: a name too few, and more at the top and within a struct."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "part struct<x: int, y: string>")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            part = Row(z=True, y=row.k, x=row.n)
            yield [
                Row(n=row.n, part=part, a=row.k),
                Row(n=row.n, a=row.k),
                Row(more=1, part=Row(x=row.n, y=row.k), n=row.n, a=row.k, last=None),
                Row(a=row.k, part={"x": 1, "z": 2, "y": "s"}, n=None),
                Row(a=f"{self.seen.get()}", part=None, n=row.n),
            ][row.n]
            self.seen.update((Row(p=row.n, q=row.k),))


class GivingFrames(Giving):
    """Frames with their columns in another order, with one column more, and without names."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            for n in frame["n"]:
                yield [
                    pd.DataFrame({"n": [n], "a": [key[0]]}),
                    pd.DataFrame({"more": [1], "n": [n], "last": ["x"], "a": [key[0]]}),
                    pd.DataFrame([[key[0], n]]),
                ][n % 3]


ROWS = [[("a", 0), ("b", 1), ("c", 2)], [("a", 3), ("b", 4), ("c", 4)]]


def given(stream: Any) -> Any:
    return stream.groupBy("k").transformWithState(Giving(), GIVEN, "Update", "None")


def given_frames(stream: Any) -> Any:
    return stream.groupBy("k").transformWithStateInPandas(GivingFrames(), "a string, n int", "Update", "None")


CASES = [
    Case("names-of-rows", TAKEN, ROWS, given, given, mode="update"),
    Case("names-of-frames", TAKEN, ROWS, given_frames, given_frames, mode="update"),
    Case("names-pandas", SCHEMA, BATCHES, by_function, by_function, mode="update"),
    Case("names-processor", SCHEMA, BATCHES, by_processor, by_processor, mode="update"),
    Case("names-duplicates", SCHEMA, BATCHES, duplicates, duplicates),
    Case("names-windows", SCHEMA, BATCHES, windows_on_spark, windows, mode="update"),
    Case("names-sessions", SCHEMA, BATCHES, sessions_on_spark, sessions),
]
