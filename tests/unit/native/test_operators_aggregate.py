"""Running aggregates in Rust beside a plain loop in Python; Spark's types, nulls, NaN and overflow."""

from __future__ import annotations

import math
import struct
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tests.unit.native.native_operators import END, batch, data, due, opened, tuples, whole_split
from tidemill._native import Operator, StateMap, aggregate, partition
from tidemill.errors import InternalError, InvalidInput

DECIMAL = pa.decimal128(12, 2)
INPUT = pa.schema([("key", pa.string()), ("i", pa.int32()), ("x", pa.float64()), ("d", DECIMAL), ("s", pa.string())])
KEY = ("key",)
FUNCTIONS = [
    ("rows", "count", None),
    ("n", "count", "x"),
    ("isum", "sum", "i"),
    ("xsum", "sum", "x"),
    ("dsum", "sum", "d"),
    ("imean", "mean", "i"),
    ("dmean", "mean", "d"),
    ("least", "min", "x"),
    ("most", "max", "s"),
    ("opening", "first", "s"),
    ("closing", "last", "i"),
]


def over(
    *functions: tuple[str, str, str | None], schema: pa.Schema = INPUT, key: tuple[str, ...] = ("key",)
) -> Operator:
    return opened(aggregate("totals", list(key), schema, functions))


def one(value: Any, data_type: pa.DataType, function: str, *more: Any) -> Any:
    """Return the result of `function` over a column in which each value is a block."""
    schema = pa.schema([("key", pa.int8()), ("v", data_type)])
    operator = over(("out", function, "v"), schema=schema)
    chunks = [whole_split(operator, batch(schema, (1, v)), data()) for v in (value, *more)]
    return tuples(operator.apply(chunks, data()))[0][1]


# --- beside a model -------------------------------------------------------------------------------------------------


class Model:
    """Rows of each key by block; every answer is computed from the beginning."""

    def __init__(self) -> None:
        self.blocks: dict[Any, list[list[tuple[Any, ...]]]] = {}

    def add(self, rows: list[tuple[Any, ...]]) -> set[Any]:
        keys = {row[0] for row in rows}
        for key in keys:
            self.blocks.setdefault(key, []).append([row for row in rows if row[0] == key])
        return keys

    def answer(self, key: Any) -> tuple[Any, ...]:
        rows = [row for block in self.blocks[key] for row in block]
        i, x, d, s = ([row[place] for row in rows] for place in (1, 2, 3, 4))
        ints, decimals = ([v for v in column if v is not None] for column in (i, d))
        texts, floats = ([v for v in column if v is not None] for column in (s, x))
        return (
            key,
            len(rows),
            len(floats),
            sum(ints) if ints else None,
            self.float_sum(key),
            sum(decimals) if decimals else None,
            sum(float(v) for v in ints) / len(ints) if ints else None,
            half_up(sum(decimals), len(decimals)) if decimals else None,
            min((v for v in floats if not math.isnan(v)), default=math.nan) if floats else None,
            max(texts, default=None),
            s[0],
            i[-1],
        )

    def float_sum(self, key: Any) -> float | None:
        """Row by row within a block, then block by block: the order decides about the last bits."""
        partials = [[row[2] for row in block if row[2] is not None] for block in self.blocks[key]]
        if not any(partials):
            return None
        total = 0.0
        for partial in partials:
            if partial:
                within = 0.0
                for value in partial:
                    within += value
                total += within
        return total


def half_up(total: Decimal, count: int) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return (total / count).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def same(a: Any, b: Any) -> bool:
    """Equal, floats to the last bit."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


ROW = st.tuples(
    st.sampled_from(["a", "b", "", None]),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.floats(-1e12, 1e12) | st.just(math.nan),
    st.none() | st.decimals(-(10**9), 10**9, places=2),
    st.none() | st.text(max_size=3),
)
BLOCKS = st.lists(st.lists(ROW, max_size=8), max_size=5)


@settings(max_examples=examples(150), deadline=None)
@given(batches=st.lists(BLOCKS, max_size=3), block_rows=st.integers(1, 5))
def test_aggregates_are_those_of_a_plain_loop(batches: list[list[list[tuple[Any, ...]]]], block_rows: int) -> None:
    operator, model = over(*FUNCTIONS), Model()
    for number, blocks in enumerate(batches):
        chunks = [whole_split(operator, batch(INPUT, *rows), data(), block_rows) for rows in blocks]
        touched = set().union(*[model.add(rows) for rows in blocks])
        found = {row[0]: row for row in tuples(operator.apply(chunks, data(number)))}
        assert found.keys() == touched
        for key in touched:
            expected = model.answer(key)
            assert all(same(a, b) for a, b in zip(found[key], expected, strict=True)), (found[key], expected)
    (state,) = operator.finish()
    assert len(state) == len(model.blocks)


@settings(max_examples=examples(60), deadline=None)
@given(blocks=BLOCKS, tasks=st.integers(2, 7))
def test_results_do_not_depend_on_how_keys_are_cut_over_tasks(blocks: list[list[tuple[Any, ...]]], tasks: int) -> None:
    bounds = [*(END // tasks * (task + 1) for task in range(tasks - 1)), END]
    scatter = over(*FUNCTIONS)
    prepared = [whole_split(scatter, batch(INPUT, *rows), data()) for rows in blocks]
    whole = tuples(over(*FUNCTIONS).apply(prepared, data()))
    parts: list[tuple[Any, ...]] = []
    for task in range(tasks):
        chunks = [partition(rows, ["key"], bounds)[task] for rows in prepared]
        operator = aggregate("totals", ["key"], INPUT, FUNCTIONS)
        lo = bounds[task - 1] + 1 if task else 0
        operator.open([StateMap.open(schema, [], lo, bounds[task]) for schema in operator.map_schemas()])
        parts += tuples(operator.apply(chunks, data()))
    assert len(parts) == len(whole)
    assert all(same(a, b) for left, right in zip(parts, whole, strict=True) for a, b in zip(left, right, strict=True))


def test_rows_that_are_not_combined_are_folded_one_by_one() -> None:
    values = [0.1, 0.2, 0.3, 1e16, -1e16, 0.7]
    rows = batch(INPUT, *(("a", None, v, None, None) for v in values))
    operator = over(("total", "sum", "x"), ("n", "count", None))
    prepared = operator.prepare(rows, data(), combine=False).rows
    assert prepared.num_rows == len(values)
    first = operator.apply([prepared.slice(0, 2)], data())
    assert tuples(first) == [("a", 0.1 + 0.2, 2)]
    total = 0.0
    for value in values:
        total += value
    assert tuples(operator.apply([prepared.slice(2)], data())) == [("a", total, 6)]


# --- Spark's rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        ("sum", pa.int8(), pa.int64()),
        ("sum", pa.float32(), pa.float64()),
        ("sum", pa.decimal128(10, 2), pa.decimal128(20, 2)),
        ("sum", pa.decimal128(35, 2), pa.decimal128(38, 2)),
        ("mean", pa.int64(), pa.float64()),
        ("mean", pa.decimal128(10, 2), pa.decimal128(14, 6)),
        ("mean", pa.decimal128(38, 37), pa.decimal128(38, 38)),
        ("min", pa.date32(), pa.date32()),
        ("first", pa.list_(pa.string()), pa.list_(pa.string())),
        ("count", pa.map_(pa.string(), pa.int8()), pa.int64()),
    ],
)
def test_result_types_are_sparks(function: str, given: pa.DataType, expected: pa.DataType) -> None:
    schema = pa.schema([("key", pa.int8()), ("v", given)])
    assert over(("out", function, "v"), schema=schema).output_schema().field("out").type == expected


@pytest.mark.parametrize(
    ("function", "given", "text"),
    [
        ("sum", pa.string(), "`out`, the sum of column `v`, needs a column of a number, found string"),
        ("mean", pa.date32(), "needs a column of a number, found date"),
        (
            "max",
            pa.map_(pa.string(), pa.int8()),
            "column of a type that has an order, found map<string,tinyint>",
        ),
    ],
)
def test_a_type_that_a_function_does_not_accept_is_named(function: str, given: pa.DataType, text: str) -> None:
    schema = pa.schema([("key", pa.int8()), ("v", given)])
    with pytest.raises(InvalidInput, match="operator `totals`: ") as caught:
        over(("out", function, "v"), schema=schema)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        ([("n", "median", "x")], "there is no aggregate function `median`"),
        ([("n", "sum", None)], "needs a column; only `count` can count rows"),
        ([("n", "sum", "y")], "names the column `y`"),
        ([("key", "count", None)], "two columns named `key`"),
        ([("n", "count", None), ("n", "sum", "x")], "two columns named `n`"),
    ],
)
def test_an_invalid_declaration_is_refused(functions: list[tuple[str, str, str | None]], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        over(*functions)


def test_a_column_that_cannot_be_a_key_is_named() -> None:
    schema = pa.schema([("key", pa.list_(pa.large_string()))])
    with pytest.raises(InvalidInput, match="operator `totals`: state map `partials` cannot be keyed by `key`"):
        over(("n", "count", None), schema=schema)


def test_integers_overflow_as_in_ansi_sql() -> None:
    assert one(2**62, pa.int64(), "sum", 2**62 - 1) == 2**63 - 1
    with pytest.raises(InvalidInput, match=r"operator `totals`: `out`, the sum of column `v`, overflows bigint"):
        one(2**62, pa.int64(), "sum", 2**62)


def test_decimals_overflow_their_digits() -> None:
    most = Decimal(10**38 - 1)
    assert one(most, pa.decimal128(38, 0), "sum", Decimal(0)) == most
    with pytest.raises(InvalidInput, match=r"overflows decimal\(38,0\)"):
        one(most, pa.decimal128(38, 0), "sum", Decimal(1))
    with pytest.raises(InvalidInput, match=r"the mean of column `v`, overflows decimal\(38,4\)"):
        one(most, pa.decimal128(38, 0), "mean")


def test_means_of_decimals_round_half_up() -> None:
    assert one(Decimal("0.01"), DECIMAL, "mean", Decimal("0.00"), Decimal("0.01")) == Decimal("0.006667")
    assert one(Decimal("-0.01"), DECIMAL, "mean", Decimal("0.00"), Decimal("-0.01")) == Decimal("-0.006667")
    wide = pa.decimal128(38, 38)
    assert one(Decimal("5e-38"), wide, "mean", Decimal("0e-38")) == Decimal("3e-38")
    assert one(Decimal("-5e-38"), wide, "mean", Decimal("0e-38")) == Decimal("-3e-38")


def test_nan_is_the_greatest_number_and_zeros_are_equal() -> None:
    nan = math.nan
    assert math.isnan(one(1.0, pa.float64(), "max", nan, math.inf))
    assert one(nan, pa.float64(), "min", math.inf) == math.inf
    assert math.isnan(one(nan, pa.float32(), "min", nan))
    assert math.copysign(1, one(0.0, pa.float64(), "min", -0.0)) == 1
    assert math.copysign(1, one(-0.0, pa.float64(), "max", 0.0)) == -1
    assert math.isnan(one([1.0], pa.list_(pa.float64()), "max", [nan], [math.inf])[0])


def test_only_nulls_give_null_but_for_counts() -> None:
    for function in ("sum", "mean", "min", "max", "first", "last"):
        assert one(None, pa.float64(), function, None) is None
    assert one(None, pa.float64(), "count", None) == 0


def test_first_and_last_take_nulls_as_they_come() -> None:
    assert one(None, pa.string(), "first", "b") is None
    assert one("a", pa.string(), "last", None) is None
    assert one("a", pa.string(), "first", "b", None) == "a"


@pytest.mark.parametrize(
    ("data_type", "least", "greatest"),
    [
        (pa.bool_(), False, True),
        (pa.binary(), b"\x7f", b"\x80"),
        (pa.string(), "Z", "é"),
        (pa.decimal128(5, 1), Decimal("-0.1"), Decimal("0.0")),
        (pa.timestamp("us"), datetime(1969, 1, 1), datetime(1970, 1, 1)),
        (pa.list_(pa.int8()), [1], [1, 0]),
        (pa.list_(pa.int8()), [None, 9], [1]),
        (pa.struct([("a", pa.float64()), ("b", pa.string())]), {"a": 1.0, "b": None}, {"a": 1.0, "b": ""}),
        (pa.struct([("a", pa.float64())]), {"a": math.inf}, {"a": math.nan}),
    ],
)
def test_min_and_max_work_on_every_type_with_an_order(data_type: pa.DataType, least: Any, greatest: Any) -> None:
    assert str(one(greatest, data_type, "min", None, least)) == str(least)
    assert str(one(least, data_type, "max", None, greatest)) == str(greatest)


# --- keys, passes, chunks --------------------------------------------------------------------------------------------


def test_without_a_key_there_is_one_row() -> None:
    operator = over(("n", "count", None), key=())
    for expected in (2, 4):
        rows = batch(INPUT, ("a", 1, None, None, None), ("b", 2, None, None, None))
        assert tuples(operator.apply([whole_split(operator, rows, data())], data())) == [(expected,)]


def test_keys_are_spark_keys() -> None:
    schema = pa.schema([("key", pa.float64())])
    operator = over(("n", "count", None), schema=schema)
    rows = batch(schema, (0.0,), (-0.0,), (math.nan,), (-math.nan,), (None,), (None,))
    found = tuples(operator.apply([whole_split(operator, rows, data())], data()))
    assert sorted(map(str, found)) == ["(0.0, 2)", "(None, 2)", "(nan, 2)"]


def test_a_pass_without_rows_emits_nothing_and_changes_nothing() -> None:
    operator = over(("n", "count", None))
    empty = whole_split(operator, batch(INPUT), data())
    assert operator.apply([], due(watermark_ms=99)).num_rows == 0
    assert operator.apply([empty], data()).num_rows == 0
    assert operator.finish()[0].delta() is None


def test_columns_are_found_by_name_and_others_ignored() -> None:
    operator = over(("total", "sum", "i"))
    rows = batch(INPUT, ("a", 1, None, None, None)).append_column("_row", pa.array([0]))
    prepared = whole_split(operator, rows.select(["_row", "i", "key"]), data())
    assert prepared.schema.names == ["key", "total"]
    with pytest.raises(InvalidInput, match="operator `totals` received rows without its column `i`"):
        operator.prepare(rows.select(["key"]), data())
    wrong = pa.record_batch({"key": ["a"], "i": ["1"]})
    with pytest.raises(InvalidInput, match="received column `i` as string, expected int"):
        operator.prepare(wrong, data())


def test_an_operator_is_opened_once_and_spent_after_finish() -> None:
    operator = aggregate("totals", ["key"], INPUT, [("n", "count", None)])
    with pytest.raises(InternalError, match="operator `totals` was used before it was opened"):
        operator.apply([], data())
    opened(operator)
    with pytest.raises(InternalError, match="was opened twice"):
        opened(operator)
    operator.finish()
    with pytest.raises(InternalError, match="was used after it was finished or had failed"):
        operator.finish()


def test_maps_of_other_columns_are_refused() -> None:
    operator = aggregate("totals", ["key"], INPUT, [("n", "count", None)])
    other = aggregate("totals", ["key"], INPUT, [("n", "sum", "x")])
    with pytest.raises(InternalError, match="was opened with maps whose columns are not its own"):
        operator.open([StateMap.open(schema, [], 0, END) for schema in other.map_schemas()])


def test_a_failed_pass_leaves_the_callers_maps_as_they_were() -> None:
    schema = pa.schema([("key", pa.string()), ("v", pa.int64())])
    operator = aggregate("totals", ["key"], schema, [("total", "sum", "v")])
    maps = [StateMap.open(columns, [], 0, END) for columns in operator.map_schemas()]
    operator.open(maps)
    rows = whole_split(operator, batch(schema, ("a", 2**62)), data())
    operator.apply([rows], data())
    with pytest.raises(InvalidInput, match="overflows"):
        operator.apply([rows], data())
    assert len(maps[0]) == 0
    with pytest.raises(InternalError, match="had failed"):
        operator.finish()
