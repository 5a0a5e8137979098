"""The names of returned rows and frames must be the declared names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row as SparkRow

import tidemill as tm
from tests.unit.operators.processors import Processor
from tidemill.testing import Tester


@dataclasses.dataclass
class Point:
    """A struct with other names than the struct of the output."""

    x: int
    z: str


OUTPUT = "a string, n int, part struct<x: int, y: string>"
PART = tm.Row(x=1, y="s")
WHOLE = "found a `Row` with the names ({}), expected (a string, n int, part struct<x:int,y:string>)"
WITHIN = "field `part` is a `Row` with the names ({}), expected (x int, y string)"
OTHERS = [
    (SparkRow(k="a", m=1, p=None), WHOLE.format("k, m, p")),
    (tm.Row(a="a", m=1, part=None), WHOLE.format("a, m, part")),
    (tm.Row(n=1, b="a"), WHOLE.format("n, b")),
    (tm.Row(A="a", N=1, Part=None), WHOLE.format("A, N, Part")),
    (tm.Row(a="a", n=1, part=SparkRow(u=1, v="s")), WITHIN.format("u, v")),
    (("a", 1, Point(1, "s")), "field `part` is a `Point` with the names (x, z), expected (x int, y string)"),
]


def emitted(attach: Callable[[Any, Any], Any], row: Any) -> list[Any]:
    """Return what Tidemill emits if a function returns `row`."""
    p = tm.Pipeline("p")
    attach(p.read(tm.Rows("k string")).groupBy("k"), row)
    return Tester(p).batch(["a"]).rows


def by_processor(grouped: Any, row: Any) -> None:
    grouped.transformWithState(Processor(rows=lambda *_: [row]), OUTPUT, "update", "None")


EMITS: dict[str, Callable[[Any, Any], Any]] = {
    "mapWithState": lambda g, row: g.mapWithState(tm.StateSpec.function(lambda value, state: row), "int", OUTPUT),
    "mapGroupsWithState": lambda g, row: g.mapGroupsWithState(lambda key, rows, state: row, OUTPUT, "int"),
    "flatMapGroupsWithState": lambda g, row: g.flatMapGroupsWithState(lambda key, rows, state: [row], OUTPUT, "int"),
    "transformWithState": by_processor,
}


@pytest.mark.parametrize("method", EMITS)
@pytest.mark.parametrize(("row", "why"), OTHERS, ids=[repr(row) for row, _ in OTHERS])
def test_a_row_of_other_names_is_refused_with_both(method: str, row: Any, why: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        emitted(EMITS[method], row)
    assert why in str(caught.value)


@pytest.mark.parametrize("method", EMITS)
def test_names_may_come_in_any_order_and_may_be_missing(method: str) -> None:
    expected = {"a": "a", "n": 1, "part": {"x": 1, "y": "s"}}
    assert emitted(EMITS[method], SparkRow(part=tm.Row(y="s", x=1), n=1, a="a")) == [expected]
    assert emitted(EMITS[method], ("a", 1, PART)) == [expected]
    assert emitted(EMITS[method], tm.Row(n=1, a="a")) == [expected | {"part": None}]


@pytest.mark.parametrize("method", EMITS)
def test_a_further_name_is_ignored_where_spark_ignores_it(method: str) -> None:
    rows = [
        tm.Row(z=0, a="a", n=1, part=PART),
        {"a": "a", "n": 1, "part": PART, "z": 0},
        tm.Row(a="a", n=1, part={"z": 0, "x": 1, "y": "s"}),
    ]
    for row in rows:
        if method == "transformWithState":
            assert emitted(EMITS[method], row) == [{"a": "a", "n": 1, "part": {"x": 1, "y": "s"}}]
        else:
            with pytest.raises(tm.InvalidInput, match="z"):
                emitted(EMITS[method], row)


def in_frames(frame: Any) -> dict[str, Callable[[Any], Any]]:
    return {
        "apply": lambda g: g.applyInPandasWithState(
            lambda key, pdfs, state: [frame], "a string, n int", "n int", "update", "NoTimeout"
        ),
        "processor": lambda g: g.transformWithStateInPandas(
            Processor(rows=lambda *_: [frame]), "a string, n int", "update", "None"
        ),
    }


@pytest.mark.parametrize("method", ["apply", "processor"])
@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"b": ["a"], "m": [1]}),
        pd.DataFrame({"a": ["a"], "m": [1]}),
        pd.DataFrame({"a": ["a"]}),
        pd.DataFrame([["a", 1, 2]]),
        pd.DataFrame([["a", "b", 1]], columns=["a", "a", "n"]),
    ],
    ids=lambda frame: str(list(frame.columns)),
)
def test_a_frame_of_other_columns_is_refused_with_both(method: str, frame: Any) -> None:
    with pytest.raises(tm.InvalidInput, match=r"found a frame with the columns \(.*\), expected \(a string, n int\)"):
        emitted(lambda grouped, _: in_frames(frame)[method](grouped), None)


def test_a_further_column_is_ignored_only_in_frames_of_a_processor() -> None:
    frame = pd.DataFrame({"z": [0], "n": [1], "a": ["a"]})
    assert emitted(lambda grouped, _: in_frames(frame)["processor"](grouped), None) == [{"a": "a", "n": 1}]
    with pytest.raises(tm.InvalidInput, match=r"found a frame with the columns \(z int64, n int64, a "):
        emitted(lambda grouped, _: in_frames(frame)["apply"](grouped), None)


@pytest.mark.parametrize("given", [tm.Row(s="x", n=1), SparkRow(s="x", n=1), tm.Row(n=1, s="x"), (1, "x")], ids=repr)
def test_a_row_that_is_an_initial_state_goes_by_its_names(given: Any) -> None:
    def describe(key: Any, rows: Any, state: Any) -> Any:
        return tuple(state.get)

    def attach(grouped: Any, initial: Any) -> None:
        grouped.mapGroupsWithState(describe, "n int, s string", "n int, s string", initialState=[("a", initial)])

    assert emitted(attach, given) == [{"n": 1, "s": "x"}]
    with pytest.raises(
        tm.InvalidInput, match=r"the key 'a' has the state Row\(m=1, s='x'\), expected 2 values \(n, s\)"
    ):
        emitted(attach, tm.Row(m=1, s="x"))


@pytest.mark.parametrize("row", [tm.Row, SparkRow])
def test_variables_read_rows_by_position_even_nested_ones(row: Any) -> None:
    """So does Spark 4.3."""

    class Kept(tm.StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.value = handle.getValueState("value", "x struct<a: int, b: int>, y int")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            for made in (row(y=row(b=1, a=2), x=3), (row(b=1, q=2), 3), (row(p=1, q=2), 3)):
                self.value.update(made)
                (x, y) = self.value.get()
                yield x["a"], x["b"], y

        def close(self) -> None:
            pass

    p = tm.Pipeline("p")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    grouped.transformWithState(Kept(), "a int, b int, y int", "update", "None")
    assert Tester(p).batch(["a"]).outputs == [(1, 2, 3)] * 3
