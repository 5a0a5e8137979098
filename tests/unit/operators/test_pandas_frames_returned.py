"""What functions over frames give back, value by value: taken as PySpark takes it, or refused with both sides named."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tidemill as tm
from tidemill.testing import Tester

STRUCT = "struct<u: int, v: string>"
TWO = "struct<x: struct<a: int, b: string>, y: struct<a: int, b: string>>"
DEEP = "struct<part: struct<u: int, v: string>, n: int>"


def given(kind: str, column: Any) -> list[Any]:
    """The cells that come out of a column given back as `kind`."""

    def give(key: Any, frames: Any, state: Any) -> Any:
        yield pd.DataFrame({"made": column})

    p = tm.Pipeline("given")
    p.read(tm.Rows("k string")).groupBy("k").applyInPandasWithState(
        give, f"made {kind}", "n int", "update", "NoTimeout", name="op"
    )
    return [row["made"] for row in Tester(p).batch(["a"]).rows]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (STRUCT, [1, "a"], {"u": 1, "v": "a"}),
        (STRUCT, np.array([1, "a"], dtype=object), {"u": 1, "v": "a"}),
        (f"array<{STRUCT}>", [[1, "a"], (2, "b"), None], [{"u": 1, "v": "a"}, {"u": 2, "v": "b"}, None]),
        (f"map<string, {STRUCT}>", {"x": [1, "a"]}, [("x", {"u": 1, "v": "a"})]),
        (DEEP, [[1, "a"], 2], {"part": {"u": 1, "v": "a"}, "n": 2}),
        (DEEP, {"part": [1, "a"]}, {"part": {"u": 1, "v": "a"}, "n": None}),
        (f"array<map<string, {DEEP}>>", [{"x": ((1, "a"), 2)}], [[("x", {"part": {"u": 1, "v": "a"}, "n": 2})]]),
    ],
)
def test_a_list_for_a_struct_is_its_cells_by_position(kind: str, value: Any, expected: Any) -> None:
    assert given(kind, [value]) == [expected]


BOTH = {"x": {"a": 1, "b": "a"}, "y": {"a": 2, "b": "b"}}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (f"map<string, {TWO}>", {"k": [(1, "a"), (2, "b")]}, [("k", BOTH)]),
        (f"map<string, {TWO}>", [("k", [(1, "a"), (2, "b")])], [("k", BOTH)]),
        (f"map<string, {TWO}>", (["k", [[1, "a"], [2, "b"]]],), [("k", BOTH)]),
        (f"map<string, {TWO}>", [("k", None), ("l", ((1, "a"), (2, "b")))], [("k", None), ("l", BOTH)]),
        (f"map<string, {STRUCT}>", [("x", [1, "a"])], [("x", {"u": 1, "v": "a"})]),
        (f"map<string, {STRUCT}>", np.array([("x", [1, "a"])], dtype=object), [("x", {"u": 1, "v": "a"})]),
        (f"map<{STRUCT}, int>", {(1, "a"): 5}, [({"u": 1, "v": "a"}, 5)]),
        (f"map<{STRUCT}, int>", [([1, "a"], 5)], [({"u": 1, "v": "a"}, 5)]),
        (f"map<{TWO}, {STRUCT}>", [([(1, "a"), (2, "b")], [3, "c"])], [(BOTH, {"u": 3, "v": "c"})]),
        (f"map<{TWO}, {STRUCT}>", {((1, "a"), (2, "b")): [3, "c"]}, [(BOTH, {"u": 3, "v": "c"})]),
        (f"map<string, {STRUCT}>", {}, []),
        (f"map<string, {STRUCT}>", [], []),
    ],
)
def test_lists_for_structs_in_maps_go_by_position_even_in_pairs(kind: str, value: Any, expected: Any) -> None:
    assert given(kind, [value]) == [expected]
    assert given(f"array<{kind}>", [[value, None]]) == [[expected, None]]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_column_of_only_nan_is_null_for_texts_and_bytes(kind: str) -> None:
    assert given(kind, [float("nan"), float("nan")]) == [None, None]
    assert given(kind, pd.Series([pd.NaT])) == [None]


@pytest.mark.parametrize(
    ("kind", "column", "found"),
    [
        (STRUCT, [[("u", 1), ("v", 2)]], "object"),
        (STRUCT, [[(1, "a")]], "object"),
        (STRUCT, [[1]], "object"),
        (f"array<{STRUCT}>", [[[1, "a", 3]]], "object"),
        (f"map<string, {STRUCT}>", [[("x", [1, "a"], 2)]], "object"),
        (f"map<string, {STRUCT}>", [["x"]], "object"),
        (f"map<string, {STRUCT}>", [[("x", [1, "a"]), None]], "object"),
        ("map<string, int>", [[("x", 1), None]], "object"),
        ("array<map<string, int>>", [[[("x", 1), None]]], "object"),
        (f"map<string, {STRUCT}>", [[("x", [1])]], "object"),
        ("string", [1, 2], "int64"),
        ("string", [1.5, float("nan")], "float64"),
        ("string", [True], "bool"),
        ("string", [Decimal("1.5")], "object"),
        ("string", [pd.Timestamp("2026-01-01")], "datetime64[ns]"),
        ("binary", [1], "int64"),
        ("decimal(10,2)", ["1.5"], "object"),
        ("decimal(10,2)", [Decimal("1.555")], "object"),
        ("decimal(10,2)", [10**9], "int64"),
        ("date", ["2026-01-01"], "object"),
        ("int", [2.5], "float64"),
        ("int", [2**40], "int64"),
        ("bigint", [True, None], "object"),
    ],
)
def test_values_of_another_type_are_refused(kind: str, column: Any, found: str) -> None:
    with pytest.raises(tm.InvalidInput) as caught:
        given(kind, column)
    assert "operator `op`" in caught.value.first_line
    assert f"column `made` is `{found}`, expected `{kind}`: " in caught.value.first_line


def test_a_date_column_drops_the_time_of_day_of_its_values() -> None:
    assert given("date", [pd.Timestamp("2026-01-02 03:04:05")]) == [date(2026, 1, 2)]


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (lambda k: [pd.DataFrame({"k": [k], "n": ["1"]})], [("a", "1"), ("b", "1")]),
        (lambda k: [pd.DataFrame({"k": [k, "foo"], "n": ["1", "2"]})], [("a", "1"), ("b", "1"), *[("foo", "2")] * 2]),
        (lambda k: [pd.DataFrame({"k": [k], "n": ["1"]})] * 2, [*[("a", "1")] * 2, *[("b", "1")] * 2]),
        (lambda k: [pd.DataFrame({"k": [None], "n": ["1"]})], [(None, "1"), (None, "1")]),
        (lambda k: [pd.DataFrame({"k": [], "n": []})], []),
        (lambda k: [pd.DataFrame(columns=["k", "n"])], []),
        (lambda k: [pd.DataFrame()], []),
        (lambda k: [], []),
    ],
)
def test_a_function_gives_as_many_rows_as_it_likes_with_and_without_a_state(
    frames: Any, expected: Any, keeps_state: bool
) -> None:
    def give(key: Any, pdfs: Any, state: Any) -> Any:
        if keeps_state:
            state.update((sum(map(len, pdfs)),))
            assert state.get == (1,)
        yield from frames(key[0])

    p = tm.Pipeline("given")
    p.read(tm.Rows("k string")).groupBy("k").applyInPandasWithState(
        give, "k string, n string", "c bigint", "Update", "NoTimeout"
    )
    result = Tester(p).batch(["a", "b"])
    assert sorted(result.outputs, key=repr) == sorted(expected, key=repr)
    assert result.state == ({"a": tm.Row(c=1), "b": tm.Row(c=1)} if keeps_state else {})


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        ("decimal(20,2)", np.array([0, 7], dtype=np.int64), [Decimal("0.00"), Decimal("7.00")]),
        ("decimal(10,2)", np.array([3], dtype=np.int32), [Decimal("3.00")]),
        ("decimal(10,2)", [pd.Series([None, None], dtype=object).sum()], [Decimal("0.00")]),
        ("date", np.array([18000], dtype=np.int64), [date(2019, 4, 14)]),
        ("date", np.array([-719162, 2932896], dtype=np.int32), [date.min, date.max]),
        ("date", pd.array([1, None], dtype="Int64"), [date(1970, 1, 2), None]),
        ("date", pd.Series([2932896, date.min], dtype=object), [date.max, date.min]),
        ("array<date>", [[np.int64(1), 2]], [[date(1970, 1, 2), date(1970, 1, 3)]]),
    ],
)
def test_ints_are_accepted_by_value_for_decimals_and_dates(kind: str, column: Any, expected: Any) -> None:
    assert given(kind, column) == expected


@pytest.mark.parametrize("dtype", ["int64", "int32", "Int64", "object"])
@pytest.mark.parametrize("days", [-719163, 2932897, -(2**31), 2**31 - 1])
def test_an_int_outside_the_range_of_dates_is_refused(days: int, dtype: str) -> None:
    with pytest.raises(tm.InvalidInput, match=f"is `{dtype}`, expected `date`: {days} days from 1970-01-01 is outside"):
        given("date", pd.Series([0, days], dtype=dtype))


@pytest.mark.parametrize(("days", "dtype"), [(2**31, "int64"), (-(2**63), "int64"), (2**64 - 1, "uint64")])
def test_an_int_far_outside_the_range_of_dates_is_refused(days: int, dtype: str) -> None:
    with pytest.raises(tm.InvalidInput, match=f"{days} days from 1970-01-01 is outside the years 1 to 9999"):
        given("date", np.array([days], dtype=dtype))


def test_numpy_ints_in_lists_are_not_decimals_as_in_pyspark() -> None:
    assert given("array<decimal(10,2)>", [[1, 2]]) == [[Decimal("1.00"), Decimal("2.00")]]
    with pytest.raises(tm.InvalidInput, match="int or Decimal object expected, got numpy.int64"):
        given("array<decimal(10,2)>", [[np.int64(1)]])
