"""What functions written for PySpark ask of states by PySpark's own classes: `isinstance` and `except`."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql.streaming import stateful_processor as spark
from pyspark.sql.streaming.state import GroupState

import tidemill as tm
from tests.unit.processors import Processor, once, value
from tidemill.batch import wire
from tidemill.errors import CallRefused, InvalidInput, StateNotSet, TidemillError, raised_by_state
from tidemill.testing import Tester


def grouped(func: Any) -> list[Any]:
    """What a function over one key emits."""
    p = tm.Pipeline("groups")
    p.read(tm.Rows("k string")).groupBy("k").flatMapGroupsWithState(func, "string", "bigint", "update", "NoTimeout")
    return [told for (told,) in Tester(p).batch([("a",)]).outputs]


def test_a_group_state_is_pysparks() -> None:
    assert grouped(lambda key, rows, state: [str(isinstance(state, GroupState))]) == ["True"]


def test_what_a_group_state_refuses_is_pysparks_error() -> None:
    calls = {
        PySparkValueError: lambda state: state.get,
        PySparkTypeError: lambda state: state.update(None),
        PySparkRuntimeError: lambda state: state.setTimeoutDuration(1),
    }

    def func(key: str, rows: Any, state: Any) -> Any:
        for expected, call in calls.items():
            try:
                call(state)
            except expected as error:
                yield f"{type(error).__name__}: {error}"

    assert grouped(func) == [
        "StateNotSet: the state is not set: ask `exists`, or use `getOption`",
        "TypeError: cannot update the state with None: `remove()` it instead",
        'RuntimeError: cannot set a timeout duration without timeoutConf="ProcessingTimeTimeout"',
    ]


def test_what_a_processor_is_given_is_pysparks() -> None:
    found = {}

    def init(self: Any, handle: Any) -> None:
        found["handle"] = isinstance(handle, spark.StatefulProcessorHandle)
        self.value = handle.getValueState("count", "n int")
        self.list = handle.getListState("items", "n int")
        self.map = handle.getMapState("named", "k string", "n int")

    class Asking(Processor):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            found["value"] = isinstance(self.value, spark.ValueState)
            found["list"] = isinstance(self.list, spark.ListState)
            found["map"] = isinstance(self.map, spark.MapState)
            found["times"] = isinstance(timerValues, spark.TimerValues)
            return []

    Asking.init = init  # type: ignore[method-assign]
    p = tm.Pipeline("processors")
    p.read(tm.Rows("k string")).groupBy("k").transformWithState(Asking(), "text string", "Update", "None")
    Tester(p).batch([("a",)])
    assert found == dict.fromkeys(["handle", "value", "list", "map", "times"], True)


def test_a_deleted_variable_is_pysparks_error_in_its_words() -> None:
    def init(self: Any, handle: Any) -> None:
        value(self, handle)
        handle.deleteIfExists("count")

    def rows(self: Any, key: Any, rows: Any) -> Any:
        with pytest.raises(PySparkRuntimeError, match="Error checking value state exists") as caught:
            self.value.exists()
        assert isinstance(caught.value, CallRefused)
        return [("refused",)]

    assert once(init, rows) == [("refused",)]


@pytest.mark.parametrize(
    ("kind", "spark_name", "given"),
    [
        (CallRefused, "PySparkRuntimeError", ("not now", "later")),
        (StateNotSet, "PySparkValueError", ("not set",)),
        (ValueError, "PySparkValueError", ("no",)),
    ],
)
def test_an_error_of_both_stays_itself(
    kind: type[Exception], spark_name: str, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = raised_by_state(kind, spark_name, *given)
    error.add_note("seen by a user")
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert isinstance(one, kind)
        assert one.__notes__ == ["seen by a user"]
        assert spark_name in [base.__name__ for base in type(one).__mro__]
        assert (type(one).__name__, str(one)) == (kind.__name__, str(kind(*given)))
    assert type(again) is type(error)
    told = type(error)("once more")
    assert (str(told), isinstance(told, kind)) == ("once more", True)
    monkeypatch.delitem(sys.modules, "pyspark.errors")
    assert type(raised_by_state(kind, spark_name, *given)) is kind


def test_the_message_is_ours_whatever_pysparks_class_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfSpark35(RuntimeError):
        def __init__(self, message: str | None = None) -> None:
            self.message = message

        def __str__(self) -> str:
            return f"[None] {self.message}"

    monkeypatch.setitem(sys.modules, "pyspark.errors", SimpleNamespace(PySparkRuntimeError=OfSpark35))
    error = raised_by_state(CallRefused, "PySparkRuntimeError", "not now", "later")
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again, wire.raised(wire.decode(wire.failure(again)))):
        assert (one.message, one.hint, str(one)) == ("not now", "later", "not now\nhint: later")


def test_what_a_state_refused_crosses_to_the_driver_as_invalid_input() -> None:
    error = raised_by_state(CallRefused, "PySparkRuntimeError", "not now")
    assert isinstance(error, TidemillError)
    assert type(wire.raised(wire.decode(wire.failure(error)))) is InvalidInput
