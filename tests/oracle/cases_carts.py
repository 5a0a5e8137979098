"""Programs as users write them: shopping carts with reminders, and a state used in odd order within a generator.

A cart has its items in a list and notes in a map, both with a time to live if the case has one. Its total is a value.
Every row moves its two timers to later times, and a reminder is sent three times. Rows are commands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, what string, n int"
OUTPUT = "k string, what string, seen string, n int"
COLUMNS = ["k", "what", "seen", "n"]


class Carts(StatefulProcessor):
    """The processor over rows. `by_clock`: timers and TTL by batch time; otherwise timers by event time."""

    def __init__(self, by_clock: bool) -> None:
        self.by_clock = by_clock

    def init(self, handle: Any) -> None:
        self.handle = handle
        ttl_ms = 2500 if self.by_clock else None
        self.items = handle.getListState("items", "n int, at bigint", ttl_ms)
        self.total = handle.getValueState("total", "total bigint, rows int")
        self.notes = handle.getMapState("notes", "name string", "n int, at bigint", ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        count = 0
        for row in rows:
            count += 1
            if row.what == "pay":
                items = sorted(map(tuple, self.items.get()))
                self.items.clear()
                self.total.clear()
                self.put_off(None)
                yield Row(k=key[0], what="paid", seen=repr(items), n=len(items))
            else:
                self.obey(row, self.now(timerValues))
        yield Row(k=key[0], what=f"rows {count}", seen=self.seen(), n=None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        expiry_ms = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(k=key[0], what=f"fired {expiry_ms}", seen=self.seen(), n=None)
        found = self.notes.getValue(("reminders",))
        reminders = (found[0] if found else 0) + 1
        self.notes.updateValue(("reminders",), (reminders, expiry_ms))
        if reminders < 3:
            self.handle.registerTimer(expiry_ms + 700)
        else:
            self.items.clear()
            self.notes.clear()

    def obey(self, row: Any, now_ms: int) -> None:
        match row.what:
            case "add":
                self.items.appendValue((row.n, now_ms))
                total, rows = self.total.get() or (0, 0)
                self.total.update((total + row.n, rows + 1))
                is_by_row = not self.by_clock and row.ts is not None
                self.put_off(round(row.ts.timestamp() * 1000) if is_by_row else now_ms)
            case "replace":
                self.items.put([(number, now_ms) for number in range(row.n + 1)])
            case "note":
                self.notes.updateValue((f"note {row.n}",), (row.n, now_ms))
            case "forget":
                self.notes.removeKey((f"note {row.n}",))

    def put_off(self, from_ms: int | None) -> None:
        for timer_ms in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer_ms)
        if from_ms is not None:
            self.handle.registerTimer(from_ms + 1500)
            self.handle.registerTimer(from_ms + 4000)

    def now(self, timerValues: Any) -> int:
        clock = timerValues.getCurrentProcessingTimeInMs if self.by_clock else timerValues.getCurrentWatermarkInMs
        return int(clock())

    def seen(self) -> str:
        items = sorted(map(tuple, self.items.get()))
        notes = sorted((tuple(name), tuple(note)) for name, note in self.notes.iterator())
        exist = (self.items.exists(), self.total.exists(), self.notes.exists())
        total = self.total.get()
        return repr((items, total and tuple(total), notes, sorted(self.handle.listTimers()), exist))


class CartsInFrames(Carts):
    """The processor over frames: the same rows, and an empty frame after every timer."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            yield self.frame(super().handleInputRows(key, map(as_row, frame.itertuples(index=False)), timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield self.frame(super().handleExpiredTimer(key, timerValues, expiredTimerInfo))
        yield pd.DataFrame(columns=COLUMNS)

    def frame(self, rows: Iterator[Any]) -> Any:
        return pd.DataFrame(list(map(tuple, rows)), columns=COLUMNS).astype({"n": "Int64"})


def as_row(cells: Any) -> Any:
    """A row of a frame as `transformWithState` has it."""
    ts = None if pd.isna(cells.ts) else cells.ts.to_pydatetime().replace(tzinfo=UTC)
    return Row(k=cells.k, ts=ts, what=cells.what, n=int(cells.n))


def odd(key: Any, pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Show what the members of a state return and raise, between frames with zero, one and several rows."""
    said = [f"{state.exists} {state.hasTimedOut} {state.getOption}"]

    def note_outcome(name: str, call: Callable[[], Any]) -> None:
        try:
            said.append(f"{name}={call()}")
        except (ValueError, TypeError, RuntimeError) as error:
            kinds = [kind.__name__ for kind in (ValueError, TypeError, RuntimeError) if isinstance(error, kind)]
            said.append(f"{name} refused {kinds[0]}")

    def frame(*texts: str) -> Any:
        return pd.DataFrame({"said": list(texts), "k": [key[0]] * len(texts)}, dtype=object)

    if state.hasTimedOut:
        note_outcome("get", lambda: state.get)
        note_outcome("duration", lambda: state.setTimeoutDuration(500))
        yield frame(" ".join(said))
        if key[0] == "b":
            state.remove()
        note_outcome("after", lambda: state.getOption)
        yield frame("then", said[-1])
        return
    yield frame()
    calls: dict[str, Callable[[int], Any]] = {
        "add": lambda n: state.update(((state.get[0] if state.exists else 0) + n,)),
        "pay": lambda n: state.remove(),
        "note": lambda n: state.setTimeoutDuration(n * 400),
        "quiet": lambda n: state.setTimeoutTimestamp(n * 400),
        "replace": lambda n: state.update((10 * n,)),
        "forget": lambda n: state.getCurrentWatermarkMs(),
    }
    for pdf in pdfs:
        for what, n in zip(pdf["what"], pdf["n"], strict=True):
            note_outcome(what, lambda what=what, n=n: calls[what](int(n)))  # type: ignore[misc]
        yield frame(f"{len(said)} so far")
    yield frame(f"{' '.join(said)} {state.exists} {state.getOption}")


def at_random(seed: int) -> list[Any]:
    """Eight batches, one of them without input."""
    chance = random.Random(seed)
    verbs = ["add", "add", "add", "pay", "note", "quiet", "replace", "forget"]

    def row(number: int) -> tuple[Any, ...]:
        seconds = number * 1.5 + chance.choice([-4, -1, 0, 0.5, 1])
        ts = None if chance.random() < 0.1 else ORIGIN + timedelta(seconds=seconds)
        return (chance.choice(["a", "b", None, "c"]), ts, chance.choice(verbs), chance.randrange(4))

    return [[row(number) for _ in range(chance.randrange(9))] for number in range(8)]


def by_clock(name: str, seed: int, query: Callable[[Any], Any]) -> Case:
    """A case under a clock that advances in unequal steps. The fourth batch has no rows."""
    chance = random.Random(seed)
    times_ms = [1000]
    for _ in range(7):
        times_ms.append(times_ms[-1] + chance.choice([300, 700, 1500, 2500]))
    rows = [None if number == 3 else batch for number, batch in enumerate(at_random(seed))]
    return Case(name, SCHEMA, rows, query, query, mode="update", times_ms=times_ms, triggers="one")


def carts(in_frames: bool, time_mode: str) -> Callable[[Any], Any]:
    """The query, the same words for both engines."""
    call = "transformWithStateInPandas" if in_frames else "transformWithState"
    processor = (CartsInFrames if in_frames else Carts)(time_mode == "ProcessingTime")

    def query(stream: Any) -> Any:
        grouped = stream.withWatermark("ts", "1 second").groupBy("k")
        return getattr(grouped, call)(processor, OUTPUT, "Update", time_mode)

    return query


def in_odd_order(stream: Any) -> Any:
    output = "k string, said string"
    return stream.groupBy("k").applyInPandasWithState(odd, output, "n bigint", "update", "ProcessingTimeTimeout")


def by_event_time(name: str, seed: int, in_frames: bool) -> Case:
    query = carts(in_frames, "EventTime")
    return Case(name, SCHEMA, at_random(seed), query, query, mode="update")


CASES = [
    by_clock("carts-by-clock", 11, carts(False, "ProcessingTime")),
    by_clock("carts-by-clock-in-frames", 12, carts(True, "ProcessingTime")),
    by_event_time("carts-by-event-time", 13, in_frames=False),
    by_event_time("carts-by-event-time-in-frames", 14, in_frames=True),
    by_clock("groups-pandas-odd-order", 15, in_odd_order),
]
