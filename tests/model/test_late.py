"""Late rows with several watermarks, and downstream of an operator: counted once, and quarantined if declared."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.testing import Tester

AT = "1970-01-01 00:{:02d}:00"


def remember(value, state):
    if not state.isTimingOut:
        state.update(1)


SPEC = tm.StateSpec.function(remember).timeout("1 hour", clock="event")


@pytest.mark.parametrize("first", ["drop", "quarantine"])
def test_a_row_late_for_two_operators_is_quarantined_once(first: str) -> None:
    p = tm.Pipeline("late")
    rows = p.read(tm.Rows("k string, t1 timestamp, t2 timestamp"))
    kinds = {"a": first, "b": "drop" if first == "quarantine" else "quarantine"}
    for (name, late), column in zip(kinds.items(), ("t1", "t2"), strict=True):
        marked = rows.withWatermark(column, "1 minute", late=late)
        marked.groupBy("k").mapWithState(SPEC, "int", "int", name=name)
    t = Tester(p)
    t.batch([("x", AT.format(30), AT.format(30))])
    result = t.batch([("x", AT.format(1), AT.format(1)), ("x", AT.format(40), AT.format(40))])
    assert (result.metrics.late_rows, result.metrics.applied_rows) == (1, 1)
    assert {one["operatorName"]: one["numRowsDroppedByWatermark"] for one in result.metrics.stateOperators} == {
        "a": 1,
        "b": 1,
    }
    assert t.repository.quarantine(1).num_rows == 1


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("late", ["drop", "quarantine"])
def test_a_row_late_for_a_downstream_operator_is_counted_and_quarantined_there(late: str, tasks: int) -> None:
    p = tm.Pipeline("late")
    rows = p.read(tm.Rows("k string, ts timestamp, n int")).withWatermark("ts", "1 minute", late=late)
    once = rows.dropDuplicates(["n"], name="once")
    moved = once.sql("SELECT k, n, ts + INTERVAL 1 DAY - to_hours(n) AS ts FROM rows")
    moved.withWatermark("ts", "1 minute", late=late).groupBy("k").mapWithState(SPEC, "int", "int", name="behind")
    t = Tester(p, tasks=tasks)
    t.batch([("x", AT.format(30), 1)])
    result = t.batch([("x", AT.format(40), 2), ("y", AT.format(41), 3)])
    found = {one["operatorName"]: one["numRowsDroppedByWatermark"] for one in result.metrics.stateOperators}
    assert found == {"once": 0, "behind": 2}
    assert (result.metrics.late_rows, result.metrics.applied_rows) == (0, 2)
    aside = t.repository.quarantine(1)
    assert aside.num_rows == (2 if late == "quarantine" else 0)
    assert all("late for operator `behind`" in reason for reason in aside.column("reason").to_pylist())


def unmoved(rows, state, context):
    return state, rows.select(["k", "ts"])


def gone(key, rows, state):
    if state.hasTimedOut:
        state.remove()
        return
    state.update(1)
    if all(row.ts is not None for row in rows):
        try:
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 1) + 3_600_000)
        except RuntimeError:  # without a timeout
            return
    yield (key,)


class Seen(tm.StatefulProcessor):
    """Remember that a row arrived."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n int")

    def handleInputRows(self, key, rows, timerValues):
        self.seen.update((sum(1 for _ in rows),))
        yield (key[0],)

    def close(self):
        pass


HOUR = ("ts", "1 hour")
SLIDES = ("ts", "1 hour", "30 minutes")
OPERATORS = {
    "window, append": lambda s: s.groupBy(tm.window(*HOUR)).agg(n=tm.count(), outputMode="append"),
    "window, update": lambda s: s.groupBy("k", tm.window(*HOUR)).agg(n=tm.count()),
    "sliding window": lambda s: s.groupBy(tm.window(*SLIDES)).agg(n=tm.count(), outputMode="append"),
    "duplicates": lambda s: s.dropDuplicates(["k"]),
    "duplicates by time": lambda s: s.dropDuplicates(["k", "ts"]),
    "duplicates within": lambda s: s.dropDuplicatesWithinWatermark(["k"]),
    "function by event time": lambda s: s.groupBy("k").mapWithState(SPEC, "int", "int"),
    "function by batch time": lambda s: s.groupBy("k").mapWithState(
        tm.StateSpec.function(remember).timeout("1 day"), "int", "int"
    ),
    "function": lambda s: s.groupBy("k").mapWithState(tm.StateSpec.function(remember), "int", "int"),
    "session": lambda s: s.groupBy(tm.session_window("ts", "1 hour"), "k").agg(n=tm.count()),
    "groups by event time": lambda s: s.groupBy("k").flatMapGroupsWithState(
        gone, "k string", "int", "append", "EventTimeTimeout"
    ),
    "processor by event time": lambda s: s.groupBy("k").transformWithState(Seen(), "k string", "append", "EventTime"),
    "groups": lambda s: s.groupBy("k").flatMapGroupsWithState(gone, "k string", "int"),
    "processor": lambda s: s.groupBy("k").transformWithState(Seen(), "k string", "append", "None"),
    "aggregate": lambda s: s.groupBy("k").agg(n=tm.count()),
    "whole tables": lambda s: s.groupBy("k").apply_batch(unmoved, "int", "k string, ts timestamp"),
}
CANNOT_KEEP = [name for name in OPERATORS if name.startswith(("window", "sliding", "session", "duplicates"))]
HEEDS = [*CANNOT_KEEP, *(name for name in OPERATORS if name.endswith("by event time"))]
"""The operators that look at lateness. The others do not use event time."""


def late_for(name: str, late: str, tasks: int) -> tuple[Tester, list[str]]:
    """Run a batch with one late row. Return the tester and the texts of the quarantined rows."""
    p = tm.Pipeline("late")
    OPERATORS[name](p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 minute", late=late))
    t = Tester(p, tasks=tasks)
    t.batch([("x", "1970-01-01 05:00:00")])
    t.batch([("late", "1970-01-01 00:30:00"), ("y", "1970-01-01 05:10:00"), ("timeless", None)])
    return t, t.repository.quarantine(1).column("text").to_pylist()


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("late", ["drop", "quarantine"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_late_row_is_quarantined_by_every_operator_that_uses_event_time(name: str, late: str, tasks: int) -> None:
    t, aside = late_for(name, late, tasks)
    counts = t.repository.head.counts
    windowed = "window" in name or name == "session"  # a row without a time is in no window, so it is quarantined too
    expected = (2 if windowed else 1) if name in HEEDS else 0
    assert (counts.late_rows, counts.applied_rows) == (expected, 3 - expected)
    assert len(aside) == (expected if late == "quarantine" else 0)
    assert all('"late"' in text or '"timeless"' in text for text in aside)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_late_rows_or_reject_the_setting(name: str) -> None:
    if name in CANNOT_KEEP:
        with pytest.raises(tm.InvalidInput, match='late="keep"'):
            late_for(name, "keep", 1)
        return
    t, aside = late_for(name, "keep", 1)
    counts = t.repository.head.counts
    assert (counts.late_rows, counts.applied_rows, aside) == (0, 3, [])
    if name == "function by event time":  # armed at no less than W(N−1): due in the same batch, because that moved it
        assert t.repository.head.operators["map-with-state"].timed_out == 1
    elif name.startswith("processor"):
        assert "late" in t.repository.state(variable="seen").column("k").to_pylist()
    elif name != "whole tables":
        assert "late" in t.repository.state().column("k").to_pylist()
