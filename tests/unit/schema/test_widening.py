"""Which schemas can be read through others, and what reading through them gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidemill import _native
from tidemill.schema import field_changes, to_arrow, widened

ACCEPTED = [
    ("a tinyint", "a smallint"),
    ("a tinyint", "a bigint"),
    ("a int", "a bigint"),
    ("a float", "a double"),
    ("a decimal(5,2)", "a decimal(9,2)"),
    ("a struct<x: int>", "a struct<x: bigint>"),
    ("a array<int>", "a array<bigint>"),
    ("a map<int, float>", "a map<bigint, double>"),
    ("a map<float, int>", "a map<double, int>"),
    ("a struct<x: int not null>", "a struct<x: int>"),
]
GROWN = [
    ("a int", "a int, b string"),
    ("a int", "b string, a int"),
    ("a int, c int", "a int, b struct<x: int>, c bigint"),
    ("a struct<x: int>", "a struct<y: string, x: int>"),
    ("a array<struct<x: int>>", "a array<struct<x: int, y: double>>"),
    ("a map<string, struct<x: int>>", "a map<string, struct<x: int, y: int>>"),
]
REFUSED = [
    ("a bigint", "a int"),
    ("a int", "a double"),
    ("a double", "a float"),
    ("a int", "a string"),
    ("a decimal(9,2)", "a decimal(5,2)"),
    ("a decimal(5,2)", "a decimal(9,3)"),
    ("a date", "a timestamp"),
    ("a timestamp", "a timestamp_ntz"),
    ("a int", "b int"),
    ("a int, b int", "a int"),
    ("a int, b int", "b int, a int"),
    ("a int", "a int, b string not null"),
    ("a int", "a int not null"),
    ("a struct<x: int>", "a struct<x: int, y: int not null>"),
    ("a struct<x: int, y: int>", "a struct<x: int>"),
    ("a array<int>", "a array<string>"),
    ("a map<struct<x: int>, int>", "a map<struct<x: int, y: int>, int>"),
]


EXACT = [
    ("a float", "a double"),
    ("a array<float>", "a array<double>"),
    ("a struct<x: int>", "a struct<x: int, y: int>"),
    ("a array<struct<x: int>>", "a array<struct<x: int, y: int>>"),
    ("a map<int, float>", "a map<int, double>"),
]
"""Accepted, unless equal values must stay equal."""


def is_accepted(before: str, after: str, grows: bool) -> bool:
    changes = field_changes(to_arrow(before), to_arrow(after), grows=grows)
    assert changes
    return all(change.is_accepted for change in changes)


@pytest.mark.parametrize(("before", "after"), ACCEPTED)
def test_a_wider_type_is_accepted_in_keys_and_states(before: str, after: str) -> None:
    assert is_accepted(before, after, grows=True)
    assert is_accepted(before, after, grows=False)


@pytest.mark.parametrize(("before", "after"), GROWN)
def test_a_new_nullable_field_is_accepted_in_states_only(before: str, after: str) -> None:
    assert is_accepted(before, after, grows=True)
    assert not is_accepted(before, after, grows=False)


@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_everything_else_is_refused(before: str, after: str) -> None:
    assert not is_accepted(before, after, grows=True)


def test_a_difference_names_the_path_and_both_types() -> None:
    before, after = to_arrow("a struct<x: int, y: float>"), to_arrow("a struct<x: bigint, y: string>, b int")
    assert [str(change) for change in field_changes(before, after, grows=True)] == [
        "column `a.x` is int, now bigint",
        "column `a.y` is float, now string",
        "new column `b int`",
    ]


ROWS: list[tuple[str, str, Any, Any]] = [
    ("a int", "b string, a bigint", [{"a": 1}, {"a": None}], [{"b": None, "a": 1}, {"b": None, "a": None}]),
    ("a decimal(5,2)", "a decimal(9,2)", [{"a": Decimal("1.25")}], [{"a": Decimal("1.25")}]),
    (
        "a array<struct<x: int>>",
        "a array<struct<y: string, x: bigint>>",
        [{"a": [{"x": 1}, None]}, {"a": None}, {"a": []}],
        [{"a": [{"y": None, "x": 1}, None]}, {"a": None}, {"a": []}],
    ),
    (
        "a map<string, struct<x: int>>",
        "a map<string, struct<x: bigint, y: int>>",
        [{"a": [("k", {"x": 1})]}, {"a": None}],
        [{"a": [("k", {"x": 1, "y": None})]}, {"a": None}],
    ),
    ("a struct<x: float>", "a struct<x: double>", [{"a": None}, {"a": {"x": 0.5}}], [{"a": None}, {"a": {"x": 0.5}}]),
]


@pytest.mark.parametrize(("before", "after", "rows", "expected"), ROWS)
def test_rows_read_through_a_wider_schema_keep_their_values(before: str, after: str, rows: Any, expected: Any) -> None:
    batch = pa.RecordBatch.from_pylist([{"a": None}, *rows], to_arrow(before))
    for found in (widened(batch, to_arrow(after)).slice(1), widened(batch.slice(1), to_arrow(after))):
        assert found.schema == to_arrow(after)
        assert found.to_pylist() == expected


@pytest.mark.parametrize(("before", "after"), ACCEPTED)
def test_a_wider_key_has_the_same_hash(before: str, after: str) -> None:
    values: dict[str, list[Any]] = {
        "a tinyint": [0, -1, 127, None],
        "a int": [0, -(2**31), 7, None],
        "a float": [0.0, -0.0, 1.5, 0.1, float("nan"), None],
        "a decimal(5,2)": [Decimal("1.25"), Decimal("-999.99"), None],
        "a struct<x: int>": [{"x": 1}, {"x": None}, None],
        "a struct<x: int not null>": [{"x": 1}, None],
        "a array<int>": [[1, 2], [], None],
        "a map<float, int>": [[(0.1, 2), (0.5, 1)], [], None],
        "a map<int, float>": [[(2, 0.5), (1, 0.1)], [], None],
    }
    batch = pa.RecordBatch.from_pylist([{"a": value} for value in values[before]], to_arrow(before))
    wider = widened(batch, to_arrow(after))
    assert _native.key_hashes(batch) == _native.key_hashes(wider)
    assert _native.key_order(batch) == _native.key_order(wider)


@pytest.mark.parametrize(("before", "after"), EXACT)
def test_an_exact_comparison_keeps_equal_values_equal(before: str, after: str) -> None:
    (change,) = field_changes(to_arrow(before), to_arrow(after), grows=True, exact="everywhere")
    assert not change.is_accepted and is_accepted(before, after, grows=True)


@pytest.mark.parametrize(("before", "after"), [("a int", "a bigint"), ("a int", "a int, b float")])
def test_an_exact_comparison_accepts_wider_integers_and_new_columns(before: str, after: str) -> None:
    (change,) = field_changes(to_arrow(before), to_arrow(after), grows=True, exact="everywhere")
    assert change.is_accepted


KEYS = [
    ("a map<float, int>", "a map<double, int>", False),
    ("a array<map<struct<x: float>, int>>", "a array<map<struct<x: double>, int>>", False),
    ("a map<int, struct<x: float>>", "a map<int, struct<x: double, y: int>>", True),
    ("key float, s struct<key: float>", "key double, s struct<key: double>", True),
]


@pytest.mark.parametrize(("before", "after", "accepted"), KEYS)
def test_keys_of_maps_can_be_compared_exactly(before: str, after: str, accepted: bool) -> None:
    changes = field_changes(to_arrow(before), to_arrow(after), grows=True, exact="in keys of maps")
    assert all(change.is_accepted for change in changes) == accepted
