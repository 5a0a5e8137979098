"""`map-` and `flatMapGroupsWithState` by the cases of Spark's FlatMapGroupsWithStateSuite.

| its test | here |
| --- | --- |
| GroupState - get, exists, update, remove; primitive type | `test_get_exists_update_remove`, `groups-…-states` |
| setTimeout - with NoTimeout, ProcessingTime-, EventTimeTimeout | oracle: `groups-…-states`, `-idle`, `-late` |
| illegal params to setTimeout | `test_illegal_params_to_set_timeout`, `test_illegal_timestamps_to_set_timeout` |
| hasTimedOut, getCurrentWatermarkMs, getCurrentProcessingTimeMs | oracle: `groups-…-idle`, `-late` |
| InputProcessor - process new data (all) | `test_process_new_data` |
| InputProcessor - process timed out state (all) | `test_process_timed_out_state` |
| streaming; iterator that updates state lazily | `test_streaming`, with a list and with a generator |
| streaming + aggregation | `test_streaming_and_aggregation` |
| streaming with processing time timeout | `test_streaming_with_processing_time_timeout` |
| streaming w/ event time timeout + watermark | `test_streaming_with_event_time_timeout` |
| mapGroupsWithState - streaming | `test_map_groups_streaming` |
| StateStore.abort on task failure handling | `test_a_failed_task_changes_nothing` |
| disallow complete mode | `tests/unit/operators/test_groups_with_state.py` |
| SPARK-20714: watermark does not fail query | oracle: `groups-…-late-without-timeout`; `-idle` has a watermark too |
| recovery from checkpoint uses state format version 1 | no counterpart: checkpoints are not taken over |
| state format version 2 by default | no counterpart: Spark's own format |
| batch (both) | no counterpart: tables that are not streams |
| TestGroupState (both of SPARK-35800) | no counterpart: a class for users' tests; here it is the `Tester` |
| SPARK-29438: UNION and shifted partition IDs | no counterpart: partitions have no numbers |
| output partitioning is unknown; SPARK-49070: valid initial state plan | no counterpart: Spark's planner |
| partition key extraction (both) | no counterpart: how Spark's readers of state find partitions |
| SPARK-35896: metrics of operators | `test_streaming_with_event_time_timeout` |
| SPARK-38320: a state with data should not time out | `test_rows_prevent_a_timeout_that_is_due` |
| SPARK-49474: user errors are classified | `tests/unit/operators/test_errors_of_user_code.py`; None means no rows |

PySpark's tests of applyInPandasWithState (`test_apply_in_pandas_with_state_` in front is left out):

| its test | here |
| --- | --- |
| basic | oracle: `groups-pandas-states` |
| basic_no_state, _no_state_no_data | `test_a_function_gives_as_many_rows_as_it_likes_with_and_without_a_state` (unit) |
| basic_more_data, _fewer_data, _with_null | the same |
| python_worker_random_failure | `test_function_fails_once.py`, for every operator that calls functions |
| int_to_decimal_coercion | `test_values_of_another_type_are_refused` (unit): Spark's default, it has a setting |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

import tidemill as tm
from tidemill.testing import Tester

NONE, PROCESSING, EVENT = "NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"
PAIR = "key string, said string"


def fed(func: Any, timeout: str = NONE, *, tasks: int = 1, watermark: str | None = None) -> Tester:
    """`func` over rows of a key and seconds."""
    p = tm.Pipeline("groups")
    rows = p.read(tm.Rows("key string, ts timestamp, n int"))
    marked = rows if watermark is None else rows.withWatermark("ts", watermark)
    marked.groupBy("key").flatMapGroupsWithState(func, PAIR, "bigint", "update", timeout, name="groups")
    return Tester(p, tasks=tasks)


def keyed(*keys: str, seconds: float = 1.0) -> list[tuple[Any, ...]]:
    return [(key, datetime.fromtimestamp(seconds, UTC), 1) for key in keys]


def kept(t: Tester) -> tuple[int | None, int | None]:
    """The state of the only key, and when it times out: strictly after."""
    rows = t.repository.state("groups").to_pylist()
    if not rows:
        return None, None
    deadline = rows[0]["deadline"]
    armed_ms = None if deadline is None else round(deadline.timestamp() * 1000) - 1
    return rows[0]["state"] if rows[0].get("_exists", True) else None, armed_ms


def test_get_exists_update_remove() -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        said = [state.exists, state.getOption]
        for act in (lambda: state.update(3), state.remove, state.remove, lambda: state.update(4)):
            act()
            said += [state.exists, state.getOption]
        with pytest.raises(TypeError):
            state.update(None)
        state.remove()
        with pytest.raises(LookupError):
            _ = state.get
        state.update(2)
        return [(key, str(said))]

    t = fed(func)
    first, then = [False, None], [True, 2]
    for before in (first, then):
        assert t.batch(keyed("a")).outputs == [("a", str([*before, True, 3, False, None, False, None, True, 4]))]


@pytest.mark.parametrize("duration", [-1000, 0, "-2 second", "-1 month", "1 month -31 day"])
def test_illegal_params_to_set_timeout(duration: Any) -> None:
    def arm(key: str, rows: Any, state: Any) -> Any:
        with pytest.raises((ValueError, tm.InvalidInput)):
            state.setTimeoutDuration(duration)
        return [(key, "refused")]

    t = fed(arm, PROCESSING)
    assert t.batch(keyed("a")).outputs == [("a", "refused")]
    assert kept(t) == (None, None)


@pytest.mark.parametrize(
    ("timestamp", "additional"),
    [
        *((-10000, None), (10000, "-3 second"), (10000, "-1 month"), (10000, "1 month -32 day"), (-10000, "-3 second")),
        *((date(1969, 12, 31), None), (date(1969, 12, 31), "-3 second"), (date(1970, 1, 2), "-1 month")),
        *((date(1970, 1, 2), "1 month -32 day"), (date(1969, 12, 31), "1 day"), (datetime(1969, 12, 31), None)),
    ],
)
def test_illegal_timestamps_to_set_timeout(timestamp: Any, additional: str | None) -> None:
    def arm(key: str, rows: Any, state: Any) -> Any:
        with pytest.raises((ValueError, tm.InvalidInput)):
            state.setTimeoutTimestamp(timestamp, *([] if additional is None else [additional]))
        return [(key, "refused")]

    t = fed(arm, EVENT, watermark="1 second")
    assert t.batch(keyed("a")).outputs == [("a", "refused")]
    assert kept(t) == (None, None)


def test_a_duration_of_several_parts() -> None:
    t = fed(lambda key, rows, state: state.setTimeoutDuration("-1 month 31 days 1 second"), PROCESSING)
    t.batch(keyed("a"), batch_time_ms=1000)
    assert kept(t) == (None, 2000)


Act = Callable[[Any], Any]
UPDATE: Act = lambda state: state.update(5)  # noqa: E731
REMOVE: Act = lambda state: state.remove()  # noqa: E731
NOTHING: Act = lambda state: None  # noqa: E731


def both(first: Act, second: Act) -> Act:
    def act(state: Any) -> None:
        first(state)
        second(state)

    return act


def lasts(state: Any) -> None:
    state.setTimeoutDuration(5000)


def until(state: Any) -> None:
    state.setTimeoutTimestamp(15000)


def too_early(state: Any) -> None:
    with pytest.raises(ValueError, match="before the watermark"):
        state.setTimeoutTimestamp(999)


CALLS: list[tuple[str, Act, Any, int | None]] = [
    *((timeout, NOTHING, "prior", None) for timeout in (NONE, PROCESSING, EVENT)),
    *((timeout, UPDATE, 5, None) for timeout in (NONE, PROCESSING, EVENT)),
    *((timeout, REMOVE, None, None) for timeout in (NONE, PROCESSING, EVENT)),
    (PROCESSING, lasts, "prior", 6000),
    (PROCESSING, both(UPDATE, lasts), 5, 6000),
    (PROCESSING, both(REMOVE, lasts), None, 6000),
    (EVENT, until, "prior", 15000),
    (EVENT, both(UPDATE, until), 5, 15000),
    (EVENT, both(UPDATE, too_early), 5, None),
    (EVENT, both(REMOVE, until), None, 15000),
]
"""The timeout, what is done, the state after it, when it times out after it; at 1000 ms by both clocks."""


def prepared(act: Act, timeout: str, prior: int | None, armed_ms: int | None) -> Tester:
    """A key with a state and a timeout as said, and both clocks at 1000 ms; its next call does `act`."""
    calls: list[bool] = []

    def func(key: str, rows: Any, state: Any) -> Any:
        if key == "clock":
            return None
        if not calls:
            calls.append(True)
            if prior is not None:
                state.update(prior)
            if armed_ms is not None:
                state.setTimeoutDuration(armed_ms) if timeout == PROCESSING else state.setTimeoutTimestamp(armed_ms)
            return None
        act(state)
        return None

    t = fed(func, timeout, watermark="9 seconds")
    t.batch(keyed("a"), batch_time_ms=0)
    t.batch(keyed("clock", seconds=10), batch_time_ms=500)
    return t


@pytest.mark.parametrize(("timeout", "act", "state", "armed_ms"), CALLS)
@pytest.mark.parametrize("prior", [(None, None), (0, None), (0, 20000)])
def test_process_new_data(
    prior: tuple[int | None, int | None], timeout: str, act: Act, state: Any, armed_ms: int | None
) -> None:
    if timeout == NONE and prior[1] is not None:
        prior = (prior[0], None)
    t = prepared(act, timeout, *prior)
    t.batch(keyed("a", seconds=10), batch_time_ms=1000)
    assert kept(t) == (prior[0] if state == "prior" else state, armed_ms)


@pytest.mark.parametrize(("timeout", "act", "state", "armed_ms"), [call for call in CALLS if call[0] != NONE])
def test_process_timed_out_state(timeout: str, act: Act, state: Any, armed_ms: int | None) -> None:
    seen: list[bool] = []

    def act_once_timed_out(group: Any) -> None:
        seen.append(group.hasTimedOut)
        act(group)

    t = prepared(act_once_timed_out, timeout, 0, 700)
    t.sweep(1000)
    assert seen == [True]
    assert kept(t) == (0 if state == "prior" else state, armed_ms)


@pytest.mark.parametrize("timeout", [PROCESSING, EVENT])
def test_a_timeout_that_is_not_due_does_not_fire(timeout: str) -> None:
    def fail(state: Any) -> None:
        raise AssertionError("called without timeout")

    t = prepared(fail, timeout, 0, 1000)  # strictly: at its time it stays
    t.sweep(1000)
    assert kept(t) == (0, 1000)


def count_up(key: str, rows: Any, state: Any, gone: Any) -> Any:
    """Counts up to two; the third row removes the state."""
    count = (state.getOption or 0) + sum(1 for _ in rows)
    if count == 3:
        state.remove()
        return gone
    state.update(count)
    return (key, str(count))


def lazily(key: str, rows: Iterator[Any], state: Any) -> Iterator[Any]:
    for row in rows:
        made = count_up(key, [row], state, None)
        if made is not None:
            yield made


def at_once(key: str, rows: Iterator[Any], state: Any) -> list[Any]:
    made = count_up(key, rows, state, None)
    return [] if made is None else [made]


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("func", [at_once, lazily])
def test_streaming(func: Any, tasks: int) -> None:
    t = fed(func, tasks=tasks)
    found = []
    for keys in (["a"], ["a", "b"], ["a", "b"], ["a", "c"]):
        found.append(sorted(t.batch(keyed(*keys)).outputs))
        t.restart()
    assert found == [[("a", "1")], [("a", "2"), ("b", "1")], [("b", "2")], [("a", "1"), ("c", "1")]]
    assert sorted(t.batch(keyed("d", "d", "e")).outputs) == (
        [("d", "1"), ("d", "2"), ("e", "1")] if func is lazily else [("d", "2"), ("e", "1")]
    )
    assert t.repository.state("groups").num_rows == 5


def test_map_groups_streaming() -> None:
    p = tm.Pipeline("groups")
    rows = p.read(tm.Rows("key string, ts timestamp, n int"))
    rows.groupBy("key").mapGroupsWithState(
        lambda key, rows, state: count_up(key, rows, state, (key, "-1")), PAIR, "bigint", name="groups"
    )
    t = Tester(p)
    found = [sorted(t.batch(keyed(*keys)).outputs) for keys in (["a"], ["a", "b"], ["a", "b"], ["a", "c"])]
    assert found == [
        [("a", "1")],
        [("a", "2"), ("b", "1")],
        [("a", "-1"), ("b", "2")],
        [("a", "1"), ("c", "1")],
    ]


def test_streaming_and_aggregation() -> None:
    p = tm.Pipeline("groups")
    rows = p.read(tm.Rows("key string, ts timestamp, n int"))
    counted = rows.groupBy("key").flatMapGroupsWithState(
        lambda key, rows, state: [count_up(key, rows, state, (key, "-1"))], PAIR, "bigint", "append", NONE
    )
    counted.groupBy("key").agg(n=tm.count(), name="calls")
    t = Tester(p)
    states = []
    for keys in (["a"], ["a", "b"], ["a", "b"], ["a", "c"]):
        t.batch(keyed(*keys))
        t.restart()
        states.append({row["key"]: row["n"] for row in t.repository.state("calls").to_pylist()})
    assert states == [{"a": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 2}, {"a": 4, "b": 2, "c": 1}]


def test_streaming_with_processing_time_timeout() -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        if state.hasTimedOut:
            state.remove()
            return [(key, "-1")]
        state.update((state.getOption or 0) + sum(1 for _ in rows))
        state.setTimeoutDuration("10 seconds")
        return [(key, str(state.get))]

    t = fed(func, PROCESSING)
    assert t.batch(keyed("a"), batch_time_ms=1000).outputs == [("a", "1")]
    assert t.batch(keyed("b"), batch_time_ms=2000).outputs == [("b", "1")]
    assert sorted(t.batch(keyed("b"), batch_time_ms=12000).outputs) == [("a", "-1"), ("b", "2")]
    t.restart()
    assert sorted(t.batch(keyed("c"), batch_time_ms=23000).outputs) == [("b", "-1"), ("c", "1")]
    assert t.sweep(35000).outputs == [("c", "-1")]
    assert t.repository.state("groups").num_rows == 0


def test_streaming_with_event_time_timeout() -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        if state.hasTimedOut:
            state.remove()
            return [(key, "-1")]
        latest = max(state.getOption or 0, *(round(row.ts.timestamp()) for row in rows))
        state.update(latest)
        state.setTimeoutTimestamp((latest + 5) * 1000)
        return [(key, str(latest))]

    def rows_of_state(result: Any) -> list[int]:
        (found,) = result.metrics.stateOperators
        names = ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")
        return [found[name] for name in names]

    t = fed(func, EVENT, watermark="10 seconds")
    three = [row for seconds in (11, 13, 15) for row in keyed("a", seconds=seconds)]
    first = t.batch([(key, ts.replace(tzinfo=UTC), n) for key, ts, n in three])
    assert (first.outputs, rows_of_state(first)) == ([("a", "15")], [1, 1, 0, 0])
    late = t.batch(keyed("a", seconds=4))
    assert (late.outputs, rows_of_state(late)) == ([], [1, 0, 0, 1])
    again = t.batch(keyed("a", seconds=10))
    assert (again.outputs, rows_of_state(again)) == ([("a", "15")], [1, 1, 0, 0])
    last = t.batch(keyed("b", seconds=31))
    assert (sorted(last.outputs), rows_of_state(last)) == ([("a", "-1"), ("b", "31")], [1, 1, 1, 0])


@pytest.mark.parametrize("timeout", [PROCESSING, EVENT])
def test_rows_prevent_a_timeout_that_is_due(timeout: str) -> None:
    def func(key: str, rows: Any, state: Any) -> Any:
        assert not state.hasTimedOut
        if not state.exists:
            state.update(0)
            state.setTimeoutDuration(1500) if timeout == PROCESSING else state.setTimeoutTimestamp(1500)
        return [(key, "seen")]

    t = fed(func, timeout, watermark="1 second")
    for seconds in (1, 2, 9, 9):  # due with the third, by either clock, had the second not cleared it
        assert t.batch(keyed("a", seconds=seconds), batch_time_ms=1000 * seconds).outputs == [("a", "seen")]
    assert kept(t) == (0, None)


def test_a_failed_task_changes_nothing() -> None:
    failing: list[bool] = []

    def func(key: str, rows: Any, state: Any) -> Any:
        if failing:
            raise RuntimeError("expected failure")
        state.update((state.getOption or 0) + sum(1 for _ in rows))
        return [(key, str(state.get))]

    t = fed(func)
    assert t.batch(keyed("a")).outputs == [("a", "1")]
    assert t.batch(keyed("a")).outputs == [("a", "2")]
    failing.append(True)
    with pytest.raises(tm.InvalidInput, match="expected failure"):
        t.batch(keyed("a"))
    failing.clear()
    assert t.repository.run(engine="local")[0].numInputRows == 1
    assert t.repository.outputs(version=2).to_pylist()[0]["said"] == "3"
