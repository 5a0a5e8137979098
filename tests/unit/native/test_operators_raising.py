"""`mapWithState` functions that raise or return a value that does not fit, and their effect on memory and threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.native.native_operators import INPUT, batch, call, data, function_operator
from tidemill._native import State
from tidemill.errors import InternalError, InvalidInput

# --- functions that raise ---------------------------------------------------------------------------------------------


def track(batch_time: int, key: Any, value: int, state: State) -> None:
    state.update(1 // value)


def test_an_exception_of_a_function_is_raised_with_its_traceback() -> None:
    operator = function_operator(track)
    chunks = [
        operator.prepare(batch(INPUT, ("a", 1, None)), data()).rows,
        operator.prepare(batch(INPUT, ("N14228", 0, None)), data()).rows,
    ]
    with pytest.raises(InvalidInput) as caught:
        operator.apply(chunks, data())
    error: Any = caught.value
    assert error.first_line == (
        "function `track` of operator `spend` raised `ZeroDivisionError: integer division or modulo by zero` "
        "for key `'N14228'`"
    )
    assert "state.update(1 // value)" in str(error)
    assert str(error).splitlines()[-1] == "ZeroDivisionError: integer division or modulo by zero"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__ is not None
    assert (error.operator, error.key, error.chunk) == ("spend", "'N14228'", 1)
    with pytest.raises(InternalError, match="had failed"):
        operator.finish()


def test_a_function_that_raises_when_timing_out_has_no_chunk() -> None:
    def close(batch_time: int, key: Any, value: int | None, state: State) -> None:
        state.update(value)

    operator = function_operator(close, timeout_ms=1, key=["key", "value"])
    call(operator, ("a", 1, None))
    with pytest.raises(InvalidInput, match=r"raised `ValueError: cannot update the state") as caught:
        operator.apply([], data(9))
    error: Any = caught.value
    assert (error.key, error.chunk) == ("('a', 1)", None)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, GeneratorExit])
def test_interrupts_pass_through_unchanged(interrupt: type[BaseException]) -> None:
    raised = interrupt("stop")

    def stop(value: int, state: State) -> None:
        raise raised

    with pytest.raises(interrupt) as caught:
        call(function_operator(stop, arguments=2), ("a", 1, None))
    assert caught.value is raised


def test_a_state_that_does_not_fit_is_the_functions_own_error_to_handle() -> None:
    def careful(value: int, state: State) -> str:
        try:
            state.update("many")
        except ValueError as error:
            return str(error)
        return ""

    (found,) = call(function_operator(careful, arguments=2), ("a", 1, None))
    assert found == ("cannot store the state of key `'a'` of operator `spend`: found `str` 'many', expected `bigint`",)


def test_a_state_that_does_not_fit_fails_the_pass_with_its_key() -> None:
    operator = function_operator(lambda value, state: state.update(1.5), arguments=2)
    with pytest.raises(InvalidInput, match="cannot store the state of key `'a'` of operator `spend`") as caught:
        call(operator, ("a", 1, None))
    error: Any = caught.value
    assert (error.operator, error.key, error.chunk) == ("spend", "'a'", 0)


def test_an_output_that_does_not_fit_names_function_key_and_field() -> None:
    output = pa.schema([("customer", pa.string()), ("total", pa.float64())])

    def wrong(batch_time: int, key: str, value: int, state: State) -> Any:
        return (key, "much")

    with pytest.raises(InvalidInput) as caught:
        call(function_operator(wrong, output_schema=output, output_unnamed=False), ("a", 1, None))
    assert str(caught.value) == (
        "cannot emit the result of function `wrong` of operator `spend` for key `'a'`: "
        "field `total` is `str` 'much', expected `double`"
    )


# --- memory and threads ----------------------------------------------------------------------------------------------


def test_nothing_is_kept_alive() -> None:
    class Witness:
        alive = 0

        def __init__(self) -> None:
            Witness.alive += 1

        def __del__(self) -> None:
            Witness.alive -= 1

    last: list[Any] = [None]

    def witness(value: int, state: State) -> str:
        state.update(value)
        last[0] = Witness()
        return "x"

    operator = function_operator(witness, arguments=2)
    for _ in range(3):
        call(operator, *(("a", value, None) for value in range(50)))
    del operator, witness, last[0]
    gc.collect()
    assert Witness.alive == 0


def test_other_threads_run_while_rows_are_folded_and_get_an_error_from_the_busy_operator() -> None:
    entered, done = threading.Event(), threading.Event()
    answers: list[str] = []

    def wait(value: int, state: State) -> None:
        entered.set()
        assert done.wait(30)

    operator = function_operator(wait, arguments=2)

    def ask() -> None:
        assert entered.wait(30)
        try:
            operator.metrics()
        except InternalError as error:
            answers.append(str(error))
        done.set()

    other = threading.Thread(target=ask)
    other.start()
    call(operator, ("a", 1, None))
    other.join()
    assert answers == ["an operator is used by two threads"]
