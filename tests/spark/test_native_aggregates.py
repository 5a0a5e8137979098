"""Aggregates in Rust and in Spark SQL over the same rows: all types, nulls, NaN, zeros, rounding, overflow."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.golden import segments
from tests.unit.native.native_operators import batch, data, opened, whole_split
from tidemill._native import aggregate
from tidemill.errors import InvalidInput
from tidemill.schema import to_arrow

pytestmark = pytest.mark.servers("start Spark")

DDL = (
    "k string, b boolean, i8 tinyint, i int, l bigint, f float, x double, d decimal(12,2), d38 decimal(38,10), "
    "s string, bin binary, dat date, ts timestamp, arr array<double>, st struct<a:double,b:string>"
)
SCHEMA = to_arrow(DDL)
NUMBERS = ("i8", "i", "l", "f", "x", "d", "d38")
FUNCTIONS: list[tuple[str, str, str | None]] = [
    ("n", "count", None),
    *((f"{f}_{c}", f, c) for c in SCHEMA.names[1:] for f in ("count", "min", "max", "first", "last")),
    *((f"{f}_{c}", f, c) for c in NUMBERS for f in ("sum", "mean")),
]
FLOATS = [0.0, -0.0, math.nan, math.inf, 1.5, -7.25]


def cells(chance: random.Random) -> dict[str, Callable[[], Any]]:
    """How a cell of each column is made up."""
    return {
        "k": lambda: chance.choice("abc"),
        "b": lambda: chance.random() < 0.5,
        "i8": lambda: chance.randint(-128, 127),
        "i": lambda: chance.randint(-(2**31), 2**31 - 1),
        "l": lambda: chance.randint(-(2**40), 2**40),
        "f": lambda: chance.choice(FLOATS),
        "x": lambda: chance.choice(FLOATS),
        "d": lambda: Decimal(chance.randint(-(10**11), 10**11)).scaleb(-2),
        "d38": lambda: Decimal(chance.randint(-(10**27), 10**27)).scaleb(-10),
        "s": lambda: chance.choice(["", "a", "é", "Z", "z"]),
        "bin": lambda: bytes([chance.randint(0, 255)]),
        "dat": lambda: date(2020, 1, 1) + timedelta(chance.randint(-9000, 9000)),
        "ts": lambda: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randint(-(10**12), 10**12)),
        "arr": lambda: [chance.choice([None, 1.0, math.nan, 0.0]) for _ in range(chance.randint(0, 3))],
        "st": lambda: {"a": chance.choice([None, 1.0, math.nan]), "b": chance.choice([None, "x", ""])},
    }


def rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Made-up rows with a fifth of nulls, and a key that has nothing else."""
    chance = random.Random(seed)
    make = cells(chance)
    drawn = [tuple(None if chance.random() < 0.2 else make[name]() for name in SCHEMA.names) for _ in range(count)]
    return [*drawn, *[("nulls", *[None] * (len(SCHEMA) - 1))] * 2]


def same(a: Any, b: Any) -> bool:
    """Equal, NaN with NaN; sums of floats but for the order of adding."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return bool(a == b)


def test_aggregates_of_every_type_are_sparks(spark_session: Any) -> None:
    from pyspark.sql import functions as spark

    given = rows(3, 120)
    table = pa.Table.from_batches([batch(SCHEMA, *given)])
    columns = [
        (spark.count(spark.lit(1)) if column is None else getattr(spark, function)(column)).alias(output)
        for output, function, column in FUNCTIONS
    ]
    theirs = spark_session.createDataFrame(table, DDL).coalesce(1).groupBy("k").agg(*columns)
    operator = opened(aggregate("a", ["k"], SCHEMA, FUNCTIONS))
    assert [f.type for f in operator.output_schema()] == [f.type for f in to_arrow(theirs.schema)]

    blocks = [whole_split(operator, batch(SCHEMA, *given[at : at + 50]), data()) for at in range(0, len(given), 50)]
    found = {row["k"]: row for row in operator.apply(blocks, data()).to_pylist()}
    expected = {row["k"]: row for row in theirs.toArrow().cast(operator.output_schema()).to_pylist()}
    assert found.keys() == expected.keys()
    differences = {
        (key, output): (found[key][output], expected[key][output])
        for key in expected
        for output, _, _ in FUNCTIONS
        if not same(found[key][output], expected[key][output])
    }
    assert differences == {}


@pytest.mark.parametrize(
    ("ddl", "function", "values"),
    [
        ("bigint", "sum", [2**63 - 1, 1]),
        ("decimal(38,0)", "sum", [Decimal(10**38 - 1), Decimal(1)]),
        ("decimal(38,0)", "mean", [Decimal(10**38 - 1)]),
    ],
)
def test_values_that_overflow_in_spark_overflow_here(
    spark_session: Any, ddl: str, function: str, values: list[Any]
) -> None:
    from pyspark.errors import ArithmeticException

    schema = to_arrow(f"v {ddl}")
    frame = spark_session.createDataFrame([(value,) for value in values], f"v {ddl}").coalesce(1)
    with pytest.raises(ArithmeticException):
        frame.selectExpr(f"{function}(v)").collect()
    operator = opened(aggregate("a", [], schema, [("out", function, "v")]))
    with pytest.raises(InvalidInput, match="overflows"):
        operator.apply([whole_split(operator, batch(schema, *((v,) for v in values)), data())], data())


@pytest.mark.parametrize("name", segments.GOOD)
def test_spark_reads_a_segment(spark_session: Any, name: str) -> None:
    expected = segments.GOOD[name]()[1].rows()
    spark_session.conf.set("spark.sql.session.timeZone", "UTC")
    found = spark_session.read.parquet(str(segments.SEALED / f"{name}.parquet")).toArrow()
    assert found.column_names == expected.schema.names
    for column in found.column_names:
        cells = found[column].to_pylist(), expected.column(column).to_pylist()
        assert [segments.comparable(cell) for cell in cells[0]] == [segments.comparable(cell) for cell in cells[1]], (
            column
        )
