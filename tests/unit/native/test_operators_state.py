"""`mapWithState` in Rust: the `State` that a function is given, timeouts, keys, and late rows.

A model beside the engine (`native/core/tests/keyed_function.rs`) covers the rules of passes and deadlines.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tests.unit.native.native_operators import INPUT, batch, call, data, due, function_operator, tuples
from tidemill._native import Operator, State
from tidemill.errors import StateNotSet


def states(operator: Operator) -> dict[Any, Any]:
    """key → state of what the operator keeps."""
    (state,) = operator.finish()
    return {row["key"]: row["state"] for row in state.scan().to_pylist()}


# --- beside a model -------------------------------------------------------------------------------------------------


def add(batch_time: int, key: str | None, value: int | None, state: State) -> str | None:
    """A sum that forgets itself at 7; emits what it saw."""
    if state.isTimingOut:
        return f"{key} closed with {state.get}"
    seen = state.getOption
    if value == 7 and state.exists:
        state.remove()
    elif value is not None:
        state.update((seen or 0) + value)
    return None if value == 3 else f"{key} {value} {seen} at {batch_time}"


def model(
    rows: list[tuple[str | None, int | None]], at: int, sums: dict[Any, int], touched: dict[Any, int]
) -> list[str]:
    """The same, by a dict; a key is silent for more than 5 ms, then closed."""
    said = []
    for key, value in rows:
        seen = sums.get(key)
        if value == 7 and key in sums:
            del sums[key]
        elif value is not None:
            sums[key] = (seen or 0) + value
        touched[key] = at
        if value != 3:
            said.append(f"{key} {value} {seen} at {at}")
    silent = [key for key in sums if touched[key] + 5 < at]
    return said + [f"{key} closed with {sums.pop(key)}" for key in silent]


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.sampled_from([1, 3, 7, 10])), max_size=9
)


@settings(max_examples=examples(150), deadline=None)
@given(batches=st.lists(st.tuples(ROWS, st.integers(0, 4)), max_size=8), cut=st.integers(1, 4))
def test_states_and_outputs_are_those_of_a_dict(batches: list[tuple[list[Any], int]], cut: int) -> None:
    operator = function_operator(add, timeout_ms=5, clock="batch")
    sums: dict[Any, int] = {}
    touched: dict[Any, int] = {}
    now = 0
    for rows, later in batches:
        now += later
        block = operator.prepare(batch(INPUT, *((key, value, None) for key, value in rows)), data(now)).rows
        chunks = [block.slice(at, cut) for at in range(0, len(rows), cut)]
        said = [text for (text,) in tuples(operator.apply(chunks, data(now)))]
        expected = model(rows, now, sums, touched)
        by_key = lambda text: text.split(" ")[0]  # noqa: E731
        assert sorted(said, key=by_key) == sorted(expected, key=by_key)
        assert said == sorted(said, key=lambda text: [by_key(t) for t in said].index(by_key(text)))
        assert operator.apply([], due(now, now)).num_rows == 0
    assert states(operator) == sums


# --- what a State is -------------------------------------------------------------------------------------------------


def test_a_state_is_spark_state() -> None:
    seen: list[Any] = []

    def look(value: int, state: State) -> None:
        seen.append((state.exists, state.getOption, state.isTimingOut, str(state), repr(state)))
        state.update(value)
        seen.append((state.exists, state.get, str(state), repr(state)))
        state.remove()
        seen.append((state.exists, state.getOption, str(state)))

    call(function_operator(look, arguments=2), ("a", 5, None))
    assert seen == [
        (False, None, False, "<state not set>", "State(<state not set>)"),
        (True, 5, "5", "State(5)"),
        (False, None, "<state not set>"),
    ]


def test_get_without_a_state_raises_a_lookup_error() -> None:
    caught: list[BaseException] = []

    def get(value: int, state: State) -> None:
        try:
            _ = state.get
        except LookupError as error:
            caught.append(error)

    call(function_operator(get, arguments=2), ("a", 1, None))
    assert isinstance(caught[0], StateNotSet)
    assert "the state is not set" in str(caught[0])


def test_a_call_that_is_not_allowed_raises_a_value_error() -> None:
    errors: list[str] = []

    def attempt(do: Any, *given: Any) -> None:
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            do(*given)
        errors.append(str(caught.value))

    def misuse(value: int | None, state: State) -> None:
        if state.isTimingOut:
            attempt(state.update, 1)
            attempt(state.remove)
            return
        attempt(state.update, None)
        state.update(1)
        if value == 2:
            state.remove()
            attempt(state.update, 1)
            attempt(state.remove)

    operator = function_operator(misuse, arguments=2, timeout_ms=1)
    call(operator, ("a", 1, None))
    call(operator, ("b", 2, None), at=data(9))
    assert errors == [
        "cannot update the state with None: call `remove()` instead",
        "cannot update the state with None: call `remove()` instead",
        "cannot update the state after it has been removed",
        "cannot remove the state after it has been removed",
        "cannot update the state: its key is timing out",
        "cannot remove the state: its key is timing out",
    ]


def test_the_next_call_may_update_a_state_that_the_last_call_removed() -> None:
    def turn(value: int, state: State) -> str:
        seen = str(state)
        state.remove() if state.exists else state.update(value)
        return seen

    operator = function_operator(turn, arguments=2)
    found = call(operator, *(("a", value, None) for value in (1, 2, 3)))
    assert found == [("<state not set>",), ("1",), ("<state not set>",)]
    assert states(operator) == {"a": 3}


def test_a_state_that_user_code_kept_raises_and_shows_no_other_key() -> None:
    kept: list[State] = []

    def keep(value: int, state: State) -> str:
        kept.append(state)
        state.update(value)
        return str(state.get)

    operator = function_operator(keep, arguments=2)
    assert sorted(call(operator, ("a", 1, None), ("a", 2, None), ("b", 3, None))) == [("1",), ("2",), ("3",)]
    assert len({id(state) for state in kept}) == 3
    for state in kept:
        for use in (
            lambda s: s.exists,
            lambda s: s.get,
            lambda s: s.getOption,
            lambda s: s.isTimingOut,
            lambda s: s.update(9),
            lambda s: s.remove(),
            str,
        ):
            with pytest.raises(ValueError, match="belongs to a call that has returned"):
                use(state)
        assert repr(state) == "<State of a call that has returned>"
    assert states(operator) == {"a": 2, "b": 3}


@pytest.mark.parametrize("arguments", [2, 4])
def test_arguments_that_the_function_kept_stay_as_they_were(arguments: int) -> None:
    """`lru_cache` is written in C and keeps the very tuple that it is called with, as a key of its dict."""

    def spend(*given: Any) -> str:
        value, state = given[-2:]
        state.update(value + (state.getOption or 0))
        return str(state.get)

    cached = lru_cache(maxsize=None)(spend)
    operator = function_operator(cached, arguments=arguments)
    rows = [("a", 1, None), ("a", 1, None), ("b", 1, None), ("a", 1, None)]
    assert sorted(call(operator, *rows)) == [("1",), ("1",), ("2",), ("3",)]
    assert (cached.cache_info().hits, cached.cache_info().misses, cached.cache_info().currsize) == (0, 4, 4)
    assert states(operator) == {"a": 3, "b": 1}
    caches = [each for each in gc.get_referents(cached) if isinstance(each, dict)]
    (kept,) = [[key for key in cache if isinstance(key, tuple)] for cache in caches if len(cache) == 4]
    assert len({id(each[-1]) for each in kept}) == len(kept) == 4
    for each in kept:
        assert each[-2] == 1 and len(each) == arguments
        with pytest.raises(ValueError, match="belongs to a call that has returned"):
            each[-1].update(9)


def test_changing_an_object_does_not_change_the_state() -> None:
    schema = pa.schema([("state", pa.list_(pa.int64()))])

    def mutate(value: int, state: State) -> str:
        items = state.getOption or []
        if value < 3:
            items.append(value)
            state.update(items)
        items.append(99)
        return str(state.get)

    operator = function_operator(mutate, arguments=2, state_schema=schema)
    expected = [("[1]",), ("[1, 2]",), ("[1, 2, 99]",), ("[1, 2, 99]",)]
    assert call(operator, *(("a", value, None) for value in (1, 2, 3, 3))) == expected
    assert call(operator, ("a", 3, None)) == [("[1, 2, 99]",)]
    assert states(operator) == {"a": [1, 2]}


def test_a_state_passed_on_within_a_batch_equals_the_state_a_later_batch_reads() -> None:
    def widen(value: int, state: State) -> str:
        seen = repr(state.getOption)
        state.update(value)
        return seen

    changes: dict[str, Any] = {"arguments": 2, "state_schema": pa.schema([("state", pa.float64())])}
    one, two = function_operator(widen, **changes), function_operator(widen, **changes)
    assert call(one, ("a", 1, None), ("a", 2, None))[1] == ("1.0",)
    call(two, ("a", 1, None))
    assert call(two, ("a", 2, None)) == [("1.0",)]


def test_reading_a_new_state_may_run_code_that_uses_the_state() -> None:
    @dataclass
    class Asking:
        state: State

        @property
        def n(self) -> int:
            return self.state.getOption[0] + 1 if self.state.exists else 0

    def update(value: int, state: State) -> None:
        state.update(Asking(state))

    operator = function_operator(update, arguments=2, state_schema=pa.schema([("n", pa.int64())]), state_unnamed=False)
    call(operator, ("a", 4, None), ("a", 4, None))
    (state,) = operator.finish()
    assert state.scan().column("n").to_pylist() == [1]


# --- calls -----------------------------------------------------------------------------------------------------------


def test_functions_are_given_batch_time_key_value_and_state() -> None:
    seen: list[Any] = []

    def four(*arguments: Any) -> None:
        seen.append((*arguments[:3], type(arguments[3])))

    call(function_operator(four), ("a", 5, None), at=data(1234))
    assert seen == [(1234, "a", 5, State)]


@pytest.mark.parametrize(("key", "expected"), [(["key"], "a"), (["key", "value"], ("a", 5)), ([], ())])
def test_one_key_column_is_a_scalar_and_several_a_tuple(key: list[str], expected: Any) -> None:
    seen: list[Any] = []
    call(function_operator(lambda t, key, value, state: seen.append(key), key=key), ("a", 5, None))
    assert seen == [expected]
    assert type(seen[0]) is type(expected)


def test_none_emits_nothing_and_anything_else_a_row() -> None:
    operator = function_operator(lambda value, state: None if value == 1 else "", arguments=2)
    assert call(operator, ("a", 1, None), ("a", 2, None), ("b", 1, None)) == [("",)]


def test_event_time_timeouts_fire_when_the_watermark_passes() -> None:
    def close(value: int | None, state: State) -> str | None:
        if state.isTimingOut:
            return f"closed {state.get}"
        state.update(value)
        return None

    changes: dict[str, Any] = {
        "arguments": 2,
        "timeout_ms": 1000,
        "clock": "event",
        "event_time": "time",
        "late": "keep",
    }
    operator = function_operator(close, **changes)
    at = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    call(operator, ("a", 1, at), ("b", 2, None), at=data(0, 0))
    assert tuples(operator.apply([], due(0, 6000))) == []
    assert tuples(operator.apply([], due(0, 6001))) == [("closed 1",)]
    counted = {"rows": 4, "rows_updated": 2, "rows_removed": 1, "timed_out": 1, "failed": 0}
    assert operator.metrics() == {**counted, "failure": ""}
    assert states(operator) == {"b": 2}


def test_late_rows_are_removed_and_masked() -> None:
    operator = function_operator(add, timeout_ms=1000, clock="event", event_time="time")
    times = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (999, 1000, 1001)]
    rows = batch(INPUT, *(("a", place, time) for place, time in enumerate([*times, None])))
    prepared = operator.prepare(rows, data(0, 1000))
    assert prepared.late is not None
    assert prepared.late.to_pylist() == [True, True, False, False]
    assert prepared.rows.column("value").to_pylist() == [2, 3]
    assert operator.prepare(rows, data(0, None)).late is None
    kept = function_operator(add, timeout_ms=1000, clock="event", event_time="time", late="keep")
    assert kept.prepare(rows, data(0, 1000)).late is None
    by_batch = function_operator(add, timeout_ms=1000, clock="batch", event_time="time")
    assert by_batch.prepare(rows, data(0, 1000)).late is None
