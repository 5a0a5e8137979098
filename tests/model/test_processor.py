"""`transformWithState` equals a naive loop with dicts for variables and a sorted list for timers, key by key."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import EXHAUSTIVE
from tests.oracle.case import ORIGIN
from tests.oracle.cases_processor import DELAY, OUTPUT, SCHEMA, STATES, TIMERS, Commanded, commands, event_time
from tidemill.testing import Tester

pytestmark = pytest.mark.slow("long random runs")

DELAY_MS = 5000


class Variable:
    """The common part of all variables: entries of the current key with their expiry times."""

    def __init__(self, naive: Naive, ttl_ms: int | None) -> None:
        self.naive, self.ttl_ms, self.all = naive, ttl_ms, defaultdict(list)

    @property
    def entries(self) -> list[Any]:
        """(what, until) of the current key, without those that have lived their time."""
        alive = [one for one in self.all[self.naive.key] if one[1] is None or one[1] > self.naive.now_ms]
        self.all[self.naive.key] = alive
        return alive

    def add(self, what: Any) -> None:
        self.entries.append((what, None if self.ttl_ms is None else self.naive.now_ms + self.ttl_ms))

    def exists(self) -> bool:
        return bool(self.entries)

    def clear(self) -> None:
        self.entries.clear()


class Value(Variable):
    def get(self) -> Any:
        return self.entries[0][0] if self.entries else None

    def update(self, value: Any) -> None:
        self.clear()
        self.add((*value[:2], tm.Row(a=value[2][0], b=value[2][1]), value[3]) if len(value) == 4 else value)


class List(Variable):
    def get(self) -> Any:
        return iter([one for one, _ in self.entries])

    def put(self, values: list[Any]) -> None:
        self.clear()
        self.appendList(values)

    def appendValue(self, value: Any) -> None:
        self.add(value)

    def appendList(self, values: list[Any]) -> None:
        for value in values:
            self.add(value)


class Map(Variable):
    def getValue(self, key: Any) -> Any:
        return next((tm.Row(n=value[0]) for (k, value), _ in self.entries if k == key), None)

    def containsKey(self, key: Any) -> bool:
        return any(k == key for (k, _), _ in self.entries)

    def updateValue(self, key: Any, value: Any) -> None:
        self.removeKey(key)
        self.add((key, value))

    def removeKey(self, key: Any) -> None:
        self.all[self.naive.key] = [one for one in self.entries if one[0][0] != key]

    def iterator(self) -> Any:
        return iter([one for one, _ in self.entries])

    def keys(self) -> Any:
        return iter([key for (key, _), _ in self.entries])

    def values(self) -> Any:
        return iter([value for (_, value), _ in self.entries])


class Naive:
    """The handle, the clocks, and the loop."""

    def __init__(self, processor: Any, mode: str) -> None:
        self.processor, self.mode = processor, mode
        self.key: Any = None
        self.now_ms, self.watermark_ms, self.greatest_ms = 0, 0, 0
        self.timers: set[tuple[int, Any]] = set()
        processor.init(self)

    def getValueState(self, name: str, schema: Any, ttl_ms: int | None = None) -> Value:
        return Value(self, ttl_ms)

    def getListState(self, name: str, schema: Any, ttl_ms: int | None = None) -> List:
        return List(self, ttl_ms)

    def getMapState(self, name: str, key: Any, value: Any, ttl_ms: int | None = None) -> Map:
        return Map(self, ttl_ms)

    def deleteIfExists(self, name: str) -> None: ...

    def registerTimer(self, expiry_ms: int) -> None:
        self.timers.add((expiry_ms, self.key))

    def deleteTimer(self, expiry_ms: int) -> None:
        self.timers.discard((expiry_ms, self.key))

    def listTimers(self) -> Any:
        return iter(sorted(expiry_ms for expiry_ms, key in self.timers if key == self.key))

    def getCurrentProcessingTimeInMs(self) -> int:
        return -1 if self.mode == "None" else self.now_ms

    def getCurrentWatermarkInMs(self) -> int:
        return -1 if self.mode == "None" else self.watermark_ms

    def getExpiryTimeInMs(self) -> int:
        return self.expiry_ms

    def batch(self, rows: list[Any], now_ms: int) -> list[Any]:
        """The outputs of one batch, both passes."""
        self.now_ms = now_ms
        is_late = lambda ts: self.mode == "EventTime" and ts is not None and ms(ts) <= self.watermark_ms  # noqa: E731
        by_key = defaultdict(list)
        for row in rows:
            if not is_late(row[1]):
                by_key[row[0]].append(tm.Row(k=row[0], ts=row[1], what=row[2], n=row[3]))
        found = []
        for key, given_rows in by_key.items():
            self.key = key
            found += self.processor.handleInputRows((key,), iter(given_rows), self)
        found += self.fire()
        if self.mode == "EventTime":
            self.greatest_ms = max([self.greatest_ms, *(ms(row[1]) for row in rows if row[1] is not None)])
            if self.greatest_ms - DELAY_MS > self.watermark_ms:
                self.watermark_ms = int(self.greatest_ms - DELAY_MS)
                found += self.fire()
        return found

    def fire(self) -> list[Any]:
        clock_ms = {"None": None, "EventTime": self.watermark_ms, "ProcessingTime": self.now_ms}[self.mode]
        found = []
        due = [] if clock_ms is None else [timer for timer in self.timers if timer[0] <= clock_ms]
        for self.expiry_ms, self.key in sorted(due, key=lambda timer: timer[0]):
            found += self.processor.handleExpiredTimer(key=(self.key,), timerValues=self, expiredTimerInfo=self)
            self.timers.discard((self.expiry_ms, self.key))
        return found


def ms(ts: Any) -> float:
    return ts.timestamp() * 1000


def pipeline(mode: str, processor: Any) -> tm.Pipeline:
    p = tm.Pipeline("model")
    rows = p.read(tm.Rows(SCHEMA))
    rows = rows.withWatermark("ts", DELAY) if mode == "EventTime" else rows
    rows.groupBy("k").transformWithState(processor, OUTPUT, "append", mode)
    return p


@pytest.mark.parametrize("mode", ["None", "EventTime", "ProcessingTime"])
@settings(max_examples=60 if EXHAUSTIVE else 4)
@given(seed=st.integers(0, 10_000), tasks=st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_a_naive_loop_gives_the_same_for_any_number_of_tasks_and_across_restarts(mode, seed, tasks):
    has_timers, ttl_ms = mode != "None", 3000 if mode == "ProcessingTime" else None
    time = event_time if mode == "EventTime" else lambda *_: None
    batches = commands(seed, [*STATES, *TIMERS] if has_timers else STATES, time)
    naive = Naive(Commanded(ttl_ms, has_timers), mode)
    tester = Tester(pipeline(mode, Commanded(ttl_ms, has_timers)))
    for number, (rows, count) in enumerate(zip(batches, tasks, strict=True)):
        tester.tasks = count
        found = tester.batch(rows, batch_time_ms=number * 1000).outputs
        assert sorted(map(repr, found)) == sorted(map(repr, map(tuple, naive.batch(rows, number * 1000)))), ORIGIN
        tester.restart()
