"""Cells as Python objects and back: what a function is given, what it may return, and the messages of refusals."""

from __future__ import annotations

import dataclasses
import math
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row as SparkRow

from tests.exhaustive import examples
from tests.unit.native.native_operators import batch, data, function_operator, tuples
from tidemill._native import State
from tidemill.errors import InvalidInput
from tidemill.rows import Row, row_type

INSTANT = pa.timestamp("us", "UTC")
LONG = Decimal("-1234567890123456789012345678.0123456789")
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
DEEP = pa.struct([("name", pa.string()), ("points", pa.list_(POINT)), ("tags", pa.map_(pa.string(), pa.float64()))])


def through(data_type: pa.DataType, function: Callable[[Any], Any], *cells: Any, zone: str = "UTC") -> list[Any]:
    """Arrow cells of what `function` makes of Arrow cells, shown to it one by one."""
    schema = pa.schema([("v", data_type)])
    operator = function_operator(
        lambda value, state: (function(value),),
        arguments=2, key=[], input_schema=schema, value="v", time_zone=zone,
        output_schema=schema, output_unnamed=False,
    )  # fmt: skip
    prepared = operator.prepare(batch(schema, *((cell,) for cell in cells)), data()).rows
    return operator.apply([prepared], data()).column("v").to_pylist()


def stored(data_type: pa.DataType, new: Any, zone: str = "UTC") -> Any:
    """The Arrow cell of a state updated with `new`; checks that the next call and the next batch see one value."""
    seen: list[Any] = []

    def update(value: int, state: State) -> None:
        seen.append(state.getOption)
        if not state.exists:
            state.update(new)

    schema = pa.schema([("v", pa.int64())])
    operator = function_operator(
        update, arguments=2, key=[], input_schema=schema, value="v", time_zone=zone,
        state_schema=pa.schema([("state", data_type)]),
    )  # fmt: skip
    prepared = operator.prepare(batch(schema, (1,), (2,)), data()).rows
    for _ in range(2):
        operator.apply([prepared], data())
    assert repr(seen[1]) == repr(seen[2])
    assert type(seen[1]) is type(seen[2])
    (state,) = operator.finish()
    return state.scan().column("state")[0].as_py()


ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"]

# --- there and back --------------------------------------------------------------------------------------------------

SHOWN: list[tuple[pa.DataType, Any, Any]] = [
    (pa.bool_(), True, True),
    (pa.int8(), -128, -128),
    (pa.int16(), 32767, 32767),
    (pa.int32(), -(2**31), -(2**31)),
    (pa.int64(), 2**63 - 1, 2**63 - 1),
    (pa.float32(), 0.5, 0.5),
    (pa.float64(), 1e300, 1e300),
    (pa.string(), "日本 \x00", "日本 \x00"),
    (pa.binary(), b"\x00\xff", b"\x00\xff"),
    (pa.date32(), date(1, 1, 1), date(1, 1, 1)),
    (pa.date32(), date(9999, 12, 31), date(9999, 12, 31)),
    (INSTANT, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (pa.timestamp("us"), datetime(2000, 2, 29, 12, 34, 56, 789), datetime(2000, 2, 29, 12, 34, 56, 789)),
    (pa.decimal128(38, 10), LONG, LONG),
    (pa.decimal128(5, 3), Decimal("-0.001"), Decimal("-0.001")),
    (pa.decimal128(5, 0), Decimal("12345"), Decimal("12345")),
    (pa.list_(pa.int64()), [1, None], [1, None]),
    (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)], {"a": 1, "b": None}),
    (POINT, {"x": 1, "y": None}, Row(x=1, y=None)),
    (
        DEEP,
        {"name": "n", "points": [{"x": 1, "y": "a"}, None], "tags": [("t", 0.5)]},
        Row(name="n", points=[Row(x=1, y="a"), None], tags={"t": 0.5}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("data_type", "cell", "shown"), SHOWN, ids=lambda v: str(v)[:30])
def test_every_type_round_trips_through_python(data_type: pa.DataType, cell: Any, shown: Any) -> None:
    seen: list[Any] = []

    def identity(value: Any) -> Any:
        seen.append(value)
        return value

    assert through(data_type, identity, None, cell) == [None, cell]
    assert seen == [None, shown]
    assert type(seen[1]) is type(shown)
    assert stored(data_type, shown) == cell


def test_a_row_has_attributes_names_and_positions() -> None:
    schema = pa.schema([("key", pa.string()), ("n", pa.int64()), ("_row", pa.int64()), ("_metadata", POINT)])
    seen: list[Any] = []
    operator = function_operator(lambda row, state: seen.append(row), arguments=2, input_schema=schema, value=None)
    operator.apply([operator.prepare(batch(schema, ("a", 1, 0, None)), data()).rows], data())
    (row,) = seen
    assert (row.key, row["n"], row[1], tuple(row)) == ("a", 1, 1, ("a", 1))
    assert type(row) is row_type(("key", "n"))


@settings(max_examples=examples(80), deadline=None)
@given(
    st.datetimes(datetime(1850, 1, 1), datetime(2400, 1, 1)),
    st.sampled_from(ZONES),
)
def test_instants_are_shown_as_datetimes_in_the_pipelines_zone(moment: datetime, zone: str) -> None:
    seen: list[Any] = []
    near = [moment.replace(tzinfo=UTC) + timedelta(minutes=20 * step) for step in range(12)]
    back = through(pa.timestamp("us", "UTC"), lambda value: seen.append(value) or value, *near, zone=zone)
    expected = [instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for instant in near]
    assert [(value, value.fold) for value in seen] == [(value, value.fold) for value in expected]
    assert back == near


def test_the_repeated_hour_of_a_time_change_keeps_its_instants() -> None:
    near = [datetime(2025, 10, 25, 23, tzinfo=UTC) + timedelta(minutes=7 * step) for step in range(40)]
    folds: list[int] = []
    assert through(pa.timestamp("us", "UTC"), lambda v: folds.append(v.fold) or v, *near, zone="Europe/Berlin") == near
    assert {0, 1} == set(folds)


def test_aware_datetimes_are_instants() -> None:
    given = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert stored(INSTANT, given, "Europe/Berlin") == datetime(2026, 1, 1, 6, 30, tzinfo=UTC)
    assert stored(INSTANT, datetime(2026, 1, 1), "Europe/Berlin") == datetime(2025, 12, 31, 23, tzinfo=UTC)


def test_a_time_outside_pythons_years_is_a_clear_error() -> None:
    schema = pa.schema([("v", pa.timestamp("us"))])
    operator = function_operator(lambda v, s: None, arguments=2, key=[], input_schema=schema, value="v")
    far = pa.record_batch([pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))], schema=schema)
    with pytest.raises(
        InvalidInput, match="operator `spend` cannot convert a row to Python objects: .* years 1 to 9999"
    ):
        operator.apply([operator.prepare(far, data()).rows], data())


# --- what may be given back ------------------------------------------------------------------------------------------


class Name(str):
    """A str of another class."""


@pytest.mark.parametrize(
    ("data_type", "new", "cell"),
    [
        (pa.float64(), 3, 3.0),
        (pa.float32(), 0.1, float(np.float32(0.1))),
        (pa.float32(), math.inf, math.inf),
        (pa.string(), Name("x"), "x"),
        (pa.binary(), bytearray(b"x"), b"x"),
        (pa.decimal128(10, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.decimal128(10, 2), Decimal("1.500"), Decimal("1.50")),
        (pa.decimal128(10, 2), Decimal("1E+3"), Decimal("1000.00")),
        (pa.decimal128(10, 2), Decimal("-0E-9"), Decimal("0.00")),
        (pa.decimal128(10, 2), 7, Decimal("7.00")),
        (pa.list_(pa.int64()), (1, 2), [1, 2]),
        (pa.int64(), np.int32(5), 5),
        (pa.int64(), np.uint64(5), 5),
        (pa.float64(), np.float32(0.5), 0.5),
        (pa.float64(), np.int64(2), 2.0),
        (pa.bool_(), np.bool_(True), True),
        (pa.string(), np.str_("x"), "x"),
        (pa.list_(pa.float64()), np.array([1.0, 2.0]), [1.0, 2.0]),
        (pa.timestamp("us"), pd.Timestamp("2026-01-01 00:00:00.000001"), datetime(2026, 1, 1, 0, 0, 0, 1)),
        (pa.timestamp("us", "UTC"), np.datetime64("2026-01-01T00:00:00", "us"), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_lossless_values_are_accepted(data_type: pa.DataType, new: Any, cell: Any) -> None:
    assert stored(data_type, new) == cell


@dataclasses.dataclass
class Point:
    x: int
    y: str | None = None


Named = namedtuple("Named", ["y", "x"])


@pytest.mark.parametrize(
    "new",
    [
        (1, "a"),
        [1, "a"],
        {"y": "a", "x": 1},
        Row(1, "a"),
        Row(x=1, y="a"),
        Row(y="a", x=1),
        SparkRow(x=1, y="a"),
        SparkRow(y="a", x=1),
        SparkRow(1, "a"),
        Named(1, "a"),
        Point(1, "a"),
    ],
    ids=repr,
)
def test_rows_with_names_are_read_by_name_and_others_by_position(new: Any) -> None:
    assert stored(POINT, new) == {"x": 1, "y": "a"}


OTHER_NAMES = [Row(y="a", z=1), SparkRow(p=1, q="a"), SparkRow("x", "p")(1, "a"), Row(x=1, y="a", z=2), Row(X=1, Y="a")]


@pytest.mark.parametrize("new", OTHER_NAMES, ids=repr)
def test_a_row_with_an_unknown_name_is_refused(new: Any) -> None:
    names = ", ".join(new.__fields__)
    with pytest.raises(InvalidInput, match=rf"found a `Row` with the names \({names}\), expected \(x int, y string"):
        stored(POINT, new)


@pytest.mark.parametrize("new", [{"x": 1}, Row(x=1), Point(1)], ids=repr)
def test_a_missing_name_is_null(new: Any) -> None:
    assert stored(POINT, new) == {"x": 1, "y": None}


def test_numpy_rows_in_objects_are_accepted() -> None:
    assert stored(POINT, (np.int32(1), np.str_("a"))) == {"x": 1, "y": "a"}


REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.int64(), True, "found `bool` True, expected `bigint`"),
    (pa.int64(), 1.0, "found `float` 1.0, expected `bigint`"),
    (pa.int64(), np.float64(1.0), "found `float64` np.float64(1.0), expected `bigint`"),
    (pa.int64(), 2**63, "found `int` 9223372036854775808, expected `bigint`"),
    (pa.int8(), 128, "found `int` 128, expected `tinyint`"),
    (pa.int16(), -32769, "found `int` -32769, expected `smallint`"),
    (pa.int32(), "1", "found `str` '1', expected `int`"),
    (pa.float64(), True, "found `bool` True, expected `double`"),
    (pa.float64(), 10**400, "expected `double`"),
    (pa.float32(), 1e39, "found `float` 1e+39, expected `float`"),
    (pa.bool_(), 1, "found `int` 1, expected `boolean`"),
    (pa.string(), b"x", "found `bytes` b'x', expected `string`"),
    (pa.string(), "\ud800", "found `str` '\\ud800', expected `string`"),
    (pa.binary(), "x", "found `str` 'x', expected `binary`"),
    (pa.date32(), datetime(2026, 1, 1), "found `datetime` datetime.datetime(2026, 1, 1, 0, 0), expected `date`"),
    (pa.timestamp("us"), date(2026, 1, 1), "found `date` datetime.date(2026, 1, 1), expected `timestamp_ntz`"),
    (pa.timestamp("us"), datetime(2026, 1, 1, tzinfo=UTC), "expected `timestamp_ntz`"),
    (pa.timestamp("us", "UTC"), 5, "found `int` 5, expected `timestamp`"),
    (pa.timestamp("us", "UTC"), pd.Timestamp(1), "expected `timestamp`"),
    (pa.timestamp("us", "UTC"), pd.NaT, "found `NaTType` NaT, expected `timestamp`"),
    (pa.decimal128(5, 2), 1.5, "found `float` 1.5, expected `decimal(5,2)`"),
    (pa.decimal128(5, 2), Decimal("0.001"), "found `Decimal` Decimal('0.001'), expected `decimal(5,2)`"),
    (pa.decimal128(5, 2), Decimal(1000), "found `Decimal` Decimal('1000'), expected `decimal(5,2)`"),
    (pa.decimal128(5, 2), Decimal("NaN"), "found `Decimal` Decimal('NaN'), expected `decimal(5,2)`"),
    (pa.decimal128(38, 0), 10**38, "expected `decimal(38,0)`"),
    (pa.list_(pa.int64()), {1}, "found `set` {1}, expected `array<bigint>`"),
    (pa.list_(pa.int64()), [1, "b"], "field `[1]` is `str` 'b', expected `bigint`"),
    (pa.map_(pa.string(), pa.int8()), {"a": 300}, "field `['a']` is `int` 300, expected `tinyint`"),
    (pa.map_(pa.string(), pa.int8()), {None: 3}, "field `[None]` is None, expected `string not null`"),
    (POINT, (1,), "found a `tuple` of length 1, expected (x int, y string)"),
    (POINT, {"x": 1, "z": 2}, "found a `dict` with the name 'z', expected (x int, y string)"),
    (POINT, 5, "found `int` 5, expected (x int, y string)"),
    (POINT, "ab", "found `str` 'ab', expected (x int, y string)"),
    (DEEP, ("n", [(1, "a"), (2, 3)], None), "field `points[1].y` is `int` 3, expected `string`"),
    (pa.string(), ["x" * 100], "found `list` ['" + "x" * 58 + "…, expected `string`"),
]


@pytest.mark.parametrize(("data_type", "new", "text"), REFUSED, ids=lambda v: str(v)[:40])
def test_an_error_names_the_field_that_does_not_fit(data_type: pa.DataType, new: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        stored(data_type, new)
    assert str(caught.value).startswith("cannot store the state of key `()` of operator `spend`: ")
    assert text in str(caught.value)


def test_null_is_refused_in_a_not_null_field() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    for given_back in ((None, 1), {"b": 1}):
        operator = function_operator(
            lambda v, s, answer=given_back: answer,
            arguments=2, key=[], output_schema=schema, output_unnamed=False,
        )  # fmt: skip
        rows = batch(pa.schema([("key", pa.string()), ("value", pa.int64())]), ("a", 1))
        with pytest.raises(InvalidInput, match=r"field `a` is (None|missing), expected `bigint not null`"):
            operator.apply([operator.prepare(rows, data()).rows], data())


def test_an_object_whose_repr_raises_does_not_hide_the_error() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(InvalidInput, match=r"found `Odd` \(its repr raised\), expected `bigint`"):
        stored(pa.int64(), Odd())


# --- dataclasses -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Track:
    name: str
    points: list[Point]
    home: Point | None = None


@dataclasses.dataclass(kw_only=True)
class Backwards:
    y: str | None
    x: int


def state_class(schema: pa.Schema, state_type: type, *steps: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Return the state that each step saw, and the state at the end."""
    seen: list[Any] = []

    def step(value: int, state: State) -> None:
        seen.append(state.getOption)
        state.update(steps[value](state.getOption))

    operator = function_operator(
        step, arguments=2, key=[], value="value",
        state_schema=schema, state_unnamed=False, state_type=state_type,
    )  # fmt: skip
    for place in range(len(steps)):
        rows = batch(pa.schema([("key", pa.string()), ("value", pa.int64())]), ("a", place))
        operator.apply([operator.prepare(rows, data()).rows], data())
    return seen, tuples(operator.finish()[0].scan())


def test_nested_dataclasses_of_a_state_keep_their_classes() -> None:
    schema = pa.schema([("name", pa.string()), ("points", pa.list_(POINT)), ("home", POINT)])
    first = Track("t", [Point(1, "a")], None)
    seen, state = state_class(
        schema, Track, lambda _: first, lambda track: Track("u", [*track.points, Point(2)], Point(0))
    )
    assert seen == [None, first]
    assert type(seen[1].points[0]) is Point
    assert state[0][:3] == ("u", [{"x": 1, "y": "a"}, {"x": 2, "y": None}], {"x": 0, "y": None})


def test_a_dataclass_may_have_its_fields_in_another_order() -> None:
    schema = pa.schema([("x", pa.int32()), ("y", pa.string())])
    seen, state = state_class(schema, Backwards, lambda _: Backwards(y="a", x=1), lambda old: old)
    assert seen[1] == Backwards(y="a", x=1)
    assert state[0][:2] == (1, "a")
