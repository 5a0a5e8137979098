"""Edge cases of operators in which a row, a state or an error could get lost, as a user would meet them."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.errors import InvalidInput
from tidemill.pipeline.job import compile_job
from tidemill.testing import Tester

D = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000


def at(**since: float) -> datetime:
    return D + timedelta(**since)


class Ticking(tm.StatefulProcessor):
    """Emits once an hour of event time, by a timer that it registers again each time."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        list(rows)
        if not list(self.handle.listTimers()):
            self.handle.registerTimer(int(D.timestamp() * 1000) + HOUR_MS)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + HOUR_MS)
        yield key[0], D


@pytest.mark.parametrize("idle", [None, "10 minutes"])
def test_rows_of_the_due_pass_reach_the_next_operator_with_any_watermark(idle: str | None) -> None:
    p = tm.Pipeline("ticks")
    source = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "0 s")
    ticks = source.groupBy("k").transformWithState(
        Ticking(), "k string, at timestamp", "append", "EventTime", name="ticks"
    )
    ticks.withWatermark("at", "1 day", idle=idle).groupBy("k").agg(n=tm.count(), name="count")
    tester, start = Tester(p), int(D.timestamp() * 1000)
    tester.batch([("a", D)], batch_time_ms=start)
    tester.batch([("a", at(minutes=90))], batch_time_ms=start + 1000)
    tester.batch([("a", at(hours=8, minutes=30))], batch_time_ms=start + 2000)
    for number in range(1, 7):
        tester.batch([("b", at(minutes=1))], batch_time_ms=start + number * 30 * HOUR_MS)
    assert tester.sweep(start + 600 * HOUR_MS).state["count"] == {"a": tm.Row(n=8)}


def reusing_in_pandas(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    frame = pd.DataFrame({"k": [key[0]], "n": [0]})
    for number in range(sum(map(len, frames))):
        frame.loc[0, "n"] = number
        yield frame


class Reusing(tm.StatefulProcessor):
    """Gives one and the same frame for all keys."""

    def init(self, handle: Any) -> None:
        self.frame = pd.DataFrame({"k": ["?"], "n": [0]})

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        self.frame.loc[0, "k"], self.frame.loc[0, "n"] = key[0], sum(map(len, rows))
        yield self.frame


def test_a_frame_returned_twice_counts_with_its_content_at_each_return() -> None:
    rows = [("a",), ("b",), ("b",)]
    p = tm.Pipeline("frames")
    by_key = p.read(tm.Rows("k string")).groupBy("k")
    by_key.applyInPandasWithState(reusing_in_pandas, "k string, n bigint", "n bigint", "update", "NoTimeout", name="f")
    by_key.transformWithStateInPandas(Reusing(), "k string, n bigint", "update", "None", name="p")
    outputs = Tester(p).batch(rows).outputs
    assert sorted(outputs["f"]) == [("a", 0), ("b", 0), ("b", 1)]
    assert sorted(outputs["p"]) == [("a", 1), ("b", 2)]


def test_an_initial_state_whose_key_gets_a_row_without_time_does_not_time_out_at_once() -> None:
    def watch(batchTime: int, key: str, value: Any, state: Any) -> str:
        if not state.isTimingOut:
            state.update((state.getOption or 0) + 1)
        return f"{key} {'silent' if state.isTimingOut else 'row'} {state.getOption}"

    spec = tm.StateSpec.function(watch).initialState([("a", 100), ("b", 100)]).timeout("1 hour", clock="event")
    p = tm.Pipeline("seeded")
    source = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "0 seconds")
    source.groupBy("k").mapWithState(spec, "bigint", "string")
    tester = Tester(p)
    assert sorted(tester.batch([("a", None), ("z", D)]).outputs) == [("a row 101",), ("z row 1",)]
    assert tester.batch([("z", at(minutes=30))]).outputs == [("z row 2",)]
    assert sorted(tester.batch([("z", at(minutes=70))]).outputs) == [
        ("a silent 101",),
        ("b silent 100",),
        ("z row 3",),
    ]


def test_a_cell_without_a_python_object_can_be_quarantined() -> None:
    p = tm.Pipeline("far")
    far = p.read(tm.Rows("k string, ts timestamp"))
    spec = tm.StateSpec.function(lambda value, state: state.update(1))
    far.groupBy("k").mapWithState(spec, "bigint", "string", on_error="quarantine")
    beyond = pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    done = Tester(p).batch(pa.table({"k": ["a", "b"], "ts": beyond}))  # type: ignore[arg-type]
    assert done.state == {"a": 1}


def test_late_rows_before_the_year_1_are_quarantined() -> None:
    p = tm.Pipeline("early")
    source = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "0 s", late="quarantine")
    source.groupBy("k", tm.window("ts", "1 hour")).agg(n=tm.count())
    tester = Tester(p)
    tester.batch([("a", D)])
    before = pa.array([-62_135_596_800_000_001 - 86_400_000_000], pa.timestamp("us", "UTC"))
    assert tester.batch(pa.table({"k": ["b"], "ts": before})).outputs == []  # type: ignore[arg-type]


@pytest.mark.parametrize("shift", range(0, 40, 5))
def test_sets_of_joined_sessions_have_the_earlier_part_first(shift: int) -> None:
    def minute(number: float) -> datetime:
        return at(seconds=shift * 37, minutes=number)

    p = tm.Pipeline("sessions")
    source = p.read(tm.Rows("k string, ts timestamp, v string")).withWatermark("ts", "1 day")
    source.groupBy("k", tm.session_window("ts", "5 minutes")).agg(c=tm.collect_set("v", 2))  # append, of itself
    tester = Tester(p)
    for number, value in ((0, "x"), (8, "y"), (4, "z")):
        tester.batch([("a", minute(number), value)])
    ((_, _, found),) = tester.batch([("b", minute(3000), "q")]).outputs
    assert found == ["x", "y"]


def double(value: Any, state: Any) -> int:
    state.update((state.getOption or 0) + 1)
    return int(state.get)


def test_an_operator_that_was_dropped_does_not_come_back_with_its_old_state(tmp_path: Path) -> None:
    world = World(tmp_path, schema="k string", maxFilesPerTrigger=None)

    def opened(*names: str) -> tm.Repository:
        def build(p: tm.Pipeline, world: World) -> None:
            source = world.read(p)
            for name in names:
                source.groupBy("k").mapWithState(tm.StateSpec.function(double), "bigint", "bigint", name=name)

        return world.but(build).open(init=False)

    def batch(*names: str) -> None:
        world.arrive("x\n")
        run(opened(*names))

    opened("a", "b").init()
    batch("a", "b")
    opened("b").init(drop=["a"])
    with pytest.raises(InvalidInput, match="`a` was dropped, but no batch has run since"):
        opened("a", "b").init()
    batch("b")
    opened("a", "b").init()
    batch("a", "b")
    states = {name: opened("a", "b").state(name).column("state").to_pylist() for name in "ab"}
    assert states == {"a": [1], "b": [3]}


def grouped(key: Any, rows: Any, state: Any) -> Iterator[Any]:
    if state.hasTimedOut:
        raise RuntimeError("no")
    list(rows)
    state.update(1)
    state.setTimeoutDuration(1000.9)  # the fraction of a float is dropped
    return iter([])


def test_a_timeout_whose_call_fails_is_counted_and_floats_are_accepted_as_times() -> None:
    p = tm.Pipeline("failing")
    source = p.read(tm.Rows("k string"))
    source.groupBy("k").flatMapGroupsWithState(
        grouped, "k string", "bigint", "update", "ProcessingTimeTimeout", on_error="quarantine", name="g"
    )
    tester = Tester(p)
    tester.batch([("a",)], batch_time_ms=0)
    assert tester.sweep(1000).metrics is None  # 1000 ms are not over yet: nothing was due
    assert tester.sweep(1001).metrics.stateOperators[0]["customMetrics"]["failed"] == 1


def test_the_initial_state_of_groups_is_not_sent_to_workers() -> None:
    p = tm.Pipeline("large")
    source = p.read(tm.Rows("k bigint"))
    data = pa.table({"k": range(100_000), "state": range(100_000)})
    source.groupBy("k").mapGroupsWithState(lambda key, rows, state: key, "bigint", "bigint", initialState=data)
    operator = p.operators["map-groups-with-state"].operator
    assert operator.initial is not None
    assert len(pickle.dumps(operator.__getstate__()["initial_state"])) < 100


class Closing(tm.StatefulProcessor):
    """Raises, and notes its `close`."""

    closed: ClassVar[list[str]] = []

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        raise ValueError("no")

    def close(self) -> None:
        self.closed.append("closed")


def test_a_processor_that_raises_is_closed() -> None:
    p = tm.Pipeline("closing")
    p.read(tm.Rows("k string")).groupBy("k").transformWithState(Closing(), "k string", "update", "None")
    Closing.closed.clear()
    with pytest.raises(InvalidInput, match="raised `ValueError: no`"):
        Tester(p).batch([("a",)])
    assert Closing.closed == ["closed"]


class Refusing(Closing):
    """Its `init` ends in a refusal: it declares another variable than when the pipeline was built."""

    calls: ClassVar[list[int]] = []

    def init(self, handle: Any) -> None:
        self.calls.append(1)
        handle.getValueState(f"state{len(self.calls) > 1}", "n bigint")


def test_a_processor_is_closed_if_something_else_fails() -> None:
    p = tm.Pipeline("closing")
    p.read(tm.Rows("k string")).groupBy("k").transformWithState(Refusing(), "k string", "update", "None")
    Closing.closed.clear()
    with pytest.raises(InvalidInput, match="init declared"):
        Tester(p).batch([("a",)])
    assert Closing.closed == ["closed"]


class Passing(Closing):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield (key[0],)


def test_a_processor_is_closed_once_if_a_downstream_step_fails(tmp_path: Path) -> None:
    p = tm.Pipeline("closing")
    passed = p.read(tm.Rows("k string")).groupBy("k").transformWithState(Passing(), "k string", "update", "None")
    passed.sql("SELECT CAST(k AS INTEGER) AS n FROM rows").write(tm.Json(str(tmp_path / "out")))
    Closing.closed.clear()
    with pytest.raises(InvalidInput, match="Could not convert"):
        Tester(p).batch([("a",)])
    assert Closing.closed == ["closed"]


@pytest.mark.parametrize("method", ["init", "close"])
def test_a_processor_that_ends_the_process_has_failed(method: str) -> None:
    class Ending(Passing):
        pass

    p = tm.Pipeline("exit")
    p.read(tm.Rows("k string")).groupBy("k").transformWithState(Ending(), "k string", "update", "None", name="op")
    setattr(Ending, method, lambda self, *_: sys.exit(0))
    with pytest.raises(InvalidInput, match=f"method `{method}` of operator `op` raised `SystemExit: 0`"):
        Tester(p).batch([("a",)])


@pytest.mark.parametrize(
    ("time_mode", "initial", "method"),
    [("ProcessingTime", False, "handleExpiredTimer"), ("None", True, "handleInitialState")],
)
def test_a_processor_has_the_methods_that_may_be_called(time_mode: str, initial: bool, method: str) -> None:
    class Bare:
        def init(self, handle: Any) -> None: ...

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            return iter(())

    p = tm.Pipeline("bare")
    rows = p.read(tm.Rows("k string, n bigint"))
    state = pa.table({"k": ["a"], "n": [1]}) if initial else None
    with pytest.raises(InvalidInput, match=f"has no method `{method}`"):
        rows.groupBy("k").transformWithState(Bare(), "k string", "update", time_mode, initialState=state)


def test_a_function_that_ends_the_process_has_failed() -> None:
    p = tm.Pipeline("exit")
    spec = tm.StateSpec.function(lambda value, state: sys.exit(0))
    p.read(tm.Rows("k string")).groupBy("k").mapWithState(spec, "bigint", "bigint")
    with pytest.raises(InvalidInput, match="raised `SystemExit: 0` for key `'a'`"):
        Tester(p).batch([("a",)])


def test_a_watermark_cannot_be_defined_twice() -> None:
    p = tm.Pipeline("twice")
    once = p.read(tm.Rows("ts timestamp, t2 timestamp")).withWatermark("ts", "10 seconds")
    with pytest.raises(InvalidInput, match="the stream already has a watermark on `ts`"):
        once.withWatermark("t2", "5 seconds")


def test_the_code_reference_has_every_method_of_a_processor_that_decides_on_states() -> None:
    p = tm.Pipeline("reference")
    p.read(tm.Rows("k string")).groupBy("k").transformWithState(Passing(), "k string", "update", "None", name="op")
    names = {function.__name__ for function in compile_job(p).functions["op"]}
    assert names == {"init", "handleInputRows", "handleExpiredTimer", "handleInitialState"}


@pytest.mark.parametrize("count", [1, 5])
def test_a_function_of_another_number_of_arguments_is_refused_with_the_three_forms(count):
    function = {1: lambda state: None, 5: lambda a, b, c, d, e: None}[count]
    with pytest.raises(tm.InvalidInput) as caught:
        tm.StateSpec.function(function)
    assert str(caught.value) == (
        f"StateSpec.function: `<lambda>{inspect.signature(function)}` cannot be called with 4, 3 or 2 arguments, "
        "expected `f(batchTime, key, value, state)`, `f(key, value, state)` or `f(value, state)`"
    )
