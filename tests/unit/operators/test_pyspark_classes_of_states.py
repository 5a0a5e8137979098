"""What functions written for PySpark ask of states by PySpark's own classes: `isinstance` and `except`."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor as spark
from pyspark.sql.streaming.state import GroupState

import tidemill as tm
from tests.unit.operators.processors import Processor, once, value
from tidemill.batch import wire
from tidemill.errors import CallRefused, InvalidInput, StateNotSet, TidemillError, raised_by_state
from tidemill.testing import Tester


def crossed(error: TidemillError) -> TidemillError:
    """The error as the driver raises it after a task raised it."""
    failure = wire.decode_message(wire.encode_failure(error))
    assert isinstance(failure, wire.Failure)
    return failure.error()


def grouped(func: Any) -> list[Any]:
    """Return the output of a function over one key."""
    p = tm.Pipeline("groups")
    p.read(tm.Rows("k string")).groupBy("k").flatMapGroupsWithState(func, "string", "bigint", "update", "NoTimeout")
    return [text for (text,) in Tester(p).batch([("a",)]).outputs]


def test_a_group_state_is_pysparks() -> None:
    assert grouped(lambda key, rows, state: [str(isinstance(state, GroupState))]) == ["True"]


def test_errors_of_a_group_state_are_pysparks_errors() -> None:
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
        "StateNotSet: the state is not set: check `exists` first, or use `getOption`",
        "TypeError: cannot update the state with None: call `remove()` instead",
        'RuntimeError: cannot set a timeout duration without timeoutConf="ProcessingTimeTimeout"',
    ]


def test_arguments_of_a_processor_are_pysparks() -> None:
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
    copy = type(error)("once more")
    assert (str(copy), isinstance(copy, kind)) == ("once more", True)
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
    for one in (error, again, crossed(again)):
        assert (one.message, one.hint, str(one)) == ("not now", "later", "not now\nhint: later")


def test_errors_of_a_state_reach_the_driver_as_invalid_input() -> None:
    error = raised_by_state(CallRefused, "PySparkRuntimeError", "not now")
    assert isinstance(error, TidemillError)
    assert type(crossed(error)) is InvalidInput


ROWS: dict[str, Callable[[Any], Any]] = {
    "a name": lambda row: row(k="a", n=1).n,
    "by name": lambda row: row(k="a", n=1)["n"],
    "by place": lambda row: row(k="a", n=1)[0],
    "a slice": lambda row: row(k="a", n=1)[:1],
    "a name that it has": lambda row: "n" in row(k="a", n=1),
    "a value is no name": lambda row: "a" in row(k="a", n=1),
    "a value of a row without names": lambda row: "a" in row("a", 1),
    "a missing name": lambda row: row(k="a")["missing"],
    "a missing attribute": lambda row: row(k="a").missing,
    "a private attribute": lambda row: row(k="a").__missing__,
    "asked for an attribute": lambda row: hasattr(row(k="a"), "missing"),
    "a place beyond": lambda row: row(k="a")[1],
    "of both kinds": lambda row: row("a", n=1),
    "set": lambda row: setattr(row(k="a"), "k", "b"),
    "set another": lambda row: setattr(row(k="a"), "n", "b"),
    "names": lambda row: row(k="a", n=1).__fields__,
    "a method's name": lambda row: row(count=1)["count"],
    "a dict": lambda row: row(k="a", inner=row(n=1)).asDict(),
    "a dict all through": lambda row: row(k="a", inner=row(n=1), many=[row(n=2)], of={"x": row(n=3)}).asDict(True),
    "a dict of a row without names": lambda row: row("a", 1).asDict(),
    "shown": lambda row: repr(row(k="a", inner=row(n=1))),
    "shown without names": lambda row: [repr(row("a")), repr(row("a", 1)), repr(row())],
    "a class of rows": lambda row: repr(row("k", "n")("a", 1)),
    "names of a class of rows": lambda row: ["k" in row("k", "n"), "n" in row("k", "n")("a", 1)],
    "too many for a class of rows": lambda row: row("k")("a", 1),
    "as a tuple": lambda row: [row(k="a", n=1) == ("a", 1), row(k="a") == row(x="a"), hash(row(k="a")) == hash(("a",))],
    "in order": lambda row: sorted([row(k="b"), row(k="a")])[0].k,
    "copied": lambda row: [repr(copy.copy(row(k="a"))), repr(copy.deepcopy(row(k=["a"])))],
    "pickled": lambda row: [repr(pickle.loads(pickle.dumps(one))) for one in (row(k="a", n=1), row("a", 1))],
    "added": lambda row: row(k="a").__add__((1,)),
    "unpacked": lambda row: [*row(k="a", n=1)],
    "a row of pyspark": lambda row: isinstance(row(k="a"), spark_types.Row),
    "a tuple": lambda row: isinstance(row(k="a"), tuple),
}


@pytest.mark.parametrize("asked", ROWS)
def test_a_row_answers_as_pysparks_does(asked: str) -> None:
    def answer(row: Any) -> Any:
        try:
            return ROWS[asked](row)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            return [one for one in type(error).__mro__ if one.__module__.startswith("pyspark.")] or type(error)

    ours, sparks = answer(tm.Row), answer(spark_types.Row)
    if isinstance(sparks, list) and sparks and isinstance(sparks[0], type):
        assert sparks[0] in ours
    else:
        assert ours == sparks


def test_rows_keys_and_states_that_functions_are_given_are_pysparks() -> None:
    def func(key: Any, rows: Any, state: Any) -> Any:
        state.update((1, 2))
        for row in rows:
            yield str([isinstance(one, spark_types.Row) for one in (row, state.get, row.inner)]), "n" in row

    p = tm.Pipeline("rows")
    p.read(tm.Rows("k string, n int, inner struct<a: int>")).groupBy("k").flatMapGroupsWithState(
        func, "text string, has boolean", "a int, b int", "update", "NoTimeout"
    )
    assert Tester(p).batch([("a", 1, {"a": 1})]).outputs == [("[True, True, True]", True)]


def test_without_pyspark_a_row_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark.sql.types", "pyspark.errors"):
        monkeypatch.delitem(sys.modules, name)
    row = tm.Row(k="a")
    assert isinstance(row, tm.Row)
    assert row.__class__ is type(row)
    with pytest.raises(ValueError, match=r"^the row has no field `n`; it has k$"):
        row["n"]
