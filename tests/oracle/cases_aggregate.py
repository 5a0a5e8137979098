"""Running aggregates in update mode: every function over every kind of column, with nulls, NaN, −0.0 and extremes."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = (
    "k string, x double, i int, g bigint, small tinyint, f float, d decimal(10,2), wide decimal(30,4), s string, "
    "b boolean, day date, t timestamp"
)
NUMBERS = ("x", "i", "g", "small", "f", "d", "wide")
COLUMNS = (*NUMBERS, "s", "b", "day", "t")
DOUBLES = [0.0, -0.0, 1.5, -2.25, 1e300, -1e300, 1e-300, float("nan"), float("inf"), None]


def at_random(seed: int, keys: list[str | None], rows: int) -> list[list[tuple[Any, ...]]]:
    """Eight micro-batches; one row in eight cells is null."""
    chance = random.Random(seed)

    def some(values: Any) -> Any:
        return None if chance.random() < 0.12 else values

    def row() -> tuple[Any, ...]:
        return (
            chance.choice(keys),
            chance.choice(DOUBLES),
            some(chance.randrange(-(2**31), 2**31)),
            some(chance.randrange(-(2**50), 2**50)),
            some(chance.randrange(-128, 128)),
            some(chance.choice([0.1, -0.0, 0.0, 3.25, float("nan"), 1e30])),
            some(Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-2)),
            some(Decimal(chance.randrange(-(10**20), 10**20)).scaleb(-4)),
            some(chance.choice(["", "a", "ab", "ä", "z", "Z", "\U0001f30a", "a\x00b"])),
            some(chance.random() < 0.5),
            some(date(2020, 1, 1) + timedelta(days=chance.randrange(-40000, 40000))),
            some(ORIGIN + timedelta(microseconds=chance.randrange(-(10**15), 10**15))),
        )

    return [[row() for _ in range(chance.randrange(rows))] for _ in range(8)]


def case(name: str, function: str, columns: tuple[str, ...], batches: list[list[tuple[Any, ...]]]) -> Case:
    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        made = getattr(functions, function)
        return df.groupBy("k").agg(*(made(column).alias(f"r_{column}") for column in columns))

    def tidemill(stream: tm.Stream) -> tm.Stream:
        made = {f"r_{column}": getattr(tm, function)(column) for column in columns}
        return stream.groupBy("k").agg(**made)

    return Case(f"aggregate-{function}-{name}", SCHEMA, batches, spark, tidemill, mode="update")


FINITE = [0.0, -0.0, 1.5, -2.25, 1e6, -1e6, 1e-3, 0.1, None]
WITHOUT_ROWS = [0.5, 2.5, 1e300, float("nan"), float("inf"), None]


def spreads(name: str, batches: list[list[tuple[Any, ...]]], doubles: list[float | None]) -> Case:
    """`var` and `stddev`: to 11 digits, since their last ones depend on how often partials were merged."""
    chance = random.Random(name)
    changed = [[(row[0], chance.choice(doubles), *row[2:]) for row in rows] for rows in batches]

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        made = [functions.var_samp(column).alias(f"var_{column}") for column in NUMBERS]
        made += [functions.stddev_samp(column).alias(f"dev_{column}") for column in NUMBERS]
        return df.groupBy("k").agg(*made)

    def tidemill(stream: tm.Stream) -> tm.Stream:
        made = {f"var_{column}": tm.var(column) for column in NUMBERS}
        return stream.groupBy("k").agg(**made, **{f"dev_{column}": tm.stddev(column) for column in NUMBERS})

    return Case(f"aggregate-spread-{name}", SCHEMA, changed, spark, tidemill, mode="update", digits=11)


def chosen(name: str, batches: list[list[tuple[Any, ...]]]) -> Case:
    """`min_by` and `max_by`, by columns whose values come more than once, and by ones that are null."""

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        made = []
        for by in COLUMNS:
            made.append(functions.min_by("i", by).alias(f"min_{by}"))
            made.append(functions.max_by("s", by).alias(f"max_{by}"))
        return df.groupBy("k").agg(*made)

    def tidemill(stream: tm.Stream) -> tm.Stream:
        made = {}
        for by in COLUMNS:
            made |= {f"min_{by}": tm.min_by("i", by), f"max_{by}": tm.max_by("s", by)}
        return stream.groupBy("k").agg(**made)

    return Case(f"aggregate-chosen-{name}", SCHEMA, batches, spark, tidemill, mode="update")


def _cases(name: str, batches: list[list[tuple[Any, ...]]]) -> list[Case]:
    return [
        *(case(name, function, COLUMNS, batches) for function in ("count", "min", "max", "first", "last")),
        *(case(name, function, NUMBERS, batches) for function in ("sum", "mean")),
    ]


def fractions(seed: int, keys: list[str | None]) -> list[list[tuple[Any, ...]]]:
    """Floats whose sum depends on the order of adding."""
    chance = random.Random(seed)
    batches = at_random(seed, keys, 30)
    some = [0.1, 0.2, 0.3, 0.7, -0.1, 1e16, -1e16, 1e-17, 1 / 3]
    return [
        [(row[0], chance.choice(some), *row[2:5], chance.choice(some), *row[6:]) for row in rows] for rows in batches
    ]


CASES = [
    *(case("fractions", function, ("x", "f"), fractions(7, ["a", "b", None])) for function in ("sum", "mean")),
    *_cases("few-keys", at_random(1, ["a", "b", None], 14)),
    *(spreads(name, at_random(3, ["a", "b", None], 14), FINITE) for name in ("finite", "finite-again")),
    spreads("infinite", at_random(4, ["a", "b", "c"], 10), WITHOUT_ROWS),
    *(chosen(f"random-{seed}", at_random(seed, ["a", "b", None], 12)) for seed in (5, 6)),
    *_cases("many-keys", at_random(2, [None, "", *(f"key-{number}" for number in range(40))], 40)),
]
