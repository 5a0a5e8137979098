"""Tumbling and sliding windows, in append and in update mode: boundaries by hand, then seeded random streams."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, n int, x double"
DELAY = "5 seconds"


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


BOUNDARIES = [
    [("a", at(0), 1, 0.5), ("a", at(9.999999), 2, 1.0), ("a", at(10), 3, None), ("b", at(-0.000001), 4, 2.0)],
    [("a", at(14.999), 5, 1.0), ("a", None, 6, 1.0), (None, at(3), 7, 1.0)],
    [("a", at(15), 8, 1.0), ("b", at(9.9), 9, 1.0)],
    [("a", at(9.999), 10, 1.0), ("b", at(10), 11, float("nan"))],
    [],
    [("c", at(40), 12, 1.0)],
    [("c", at(34.9), 13, 1.0), ("c", at(29.9), 14, 1.0), ("a", at(25), 15, 1.0), ("a", at(30), 16, 1.0)],
    [("c", at(200), 17, 1.0)],
]
TABLE = {
    "tumbling": ("10 seconds",),
    "sliding": ("10 seconds", "4 seconds"),
    "shifted": ("10 seconds", "5 seconds", "3 seconds"),
}


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Ten batches whose times drift forward and often come too late; some rows have no time."""
    chance = random.Random(seed)

    def row(number: int) -> tuple[Any, ...]:
        time = at(number * 5 + chance.choice([-40, -15, -10, -6, -5, 0, 1, 2.5, 4.999999, 7]))
        x = chance.choice([0.5, -1.25, 3.0, None])
        return (chance.choice(["a", "b", None]), None if chance.random() < 0.08 else time, chance.randrange(9), x)

    return [[row(number) for _ in range(chance.randrange(14))] for number in range(10)]


def case(name: str, windows: str, mode: str, batches: list[list[tuple[Any, ...]]], *, keyed: bool) -> Case:
    arguments = TABLE[windows]

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        window = functions.window("ts", *arguments)
        grouped = df.withWatermark("ts", DELAY).groupBy(*(["k", window] if keyed else [window]))
        return grouped.agg(
            functions.count("*").alias("rows"), functions.sum("n").alias("total"), functions.mean("x").alias("middle")
        )

    def tidemill(stream: tm.Stream) -> tm.Stream:
        window = tm.window("ts", *arguments)
        grouped = stream.withWatermark("ts", DELAY).groupBy(*(["k", window] if keyed else [window]))
        made = {"rows": tm.count(), "total": tm.sum("n"), "middle": tm.mean("x")}
        return grouped.agg(outputMode=mode, **made)

    return Case(f"window-{windows}-{mode}-{name}", SCHEMA, batches, spark, tidemill, mode=mode)


def update_without_watermark(name: str, batches: list[list[tuple[Any, ...]]]) -> Case:
    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        return df.groupBy(functions.window("ts", "10 seconds"), "k").agg(functions.max("n").alias("most"))

    def tidemill(stream: tm.Stream) -> tm.Stream:
        return stream.groupBy(tm.window("ts", "10 seconds"), "k").agg(most=tm.max("n"))

    return Case(f"window-no-watermark-{name}", SCHEMA, batches, spark, tidemill, mode="update")


MORE = f"{SCHEMA}, s string, d decimal(12,3), a array<int>, part struct<u: int, v: string>"
WITH_ONE = ["min", "max", "first", "last", "count"]
OF_NUMBERS = {"sum": "d", "mean": "d", "stddev": "n", "approx_count_distinct": "s"}


def wider(seed: int) -> list[list[tuple[Any, ...]]]:
    """The rows of `at_random`, with values of more types."""
    chance = random.Random(seed)

    def more() -> tuple[Any, ...]:
        decimal = chance.choice([Decimal("1.500"), Decimal("-2.001"), None])
        part = chance.choice([{"u": 1, "v": "q"}, {"u": None, "v": "r"}, None])
        return (chance.choice(["x", "y", "", None, "Ä"]), decimal, chance.choice([[1, 2], [], [None], None]), part)

    return [[(*row, *more()) for row in rows] for rows in at_random(seed)]


def functions_of_windows(mode: str, *arguments: str) -> Case:
    def aggregates(made: Any) -> dict[str, Any]:
        columns = {f"{name}_{column}": (name, column) for name in WITH_ONE for column in ("x", "s", "d", "a", "part")}
        columns |= {name: (name, column) for name, column in OF_NUMBERS.items()}
        return {name: getattr(made, function)(column) for name, (function, column) in columns.items()}

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        grouped = df.withWatermark("ts", DELAY).groupBy("k", functions.window("ts", *arguments))
        return grouped.agg(*(column.alias(name) for name, column in aggregates(functions).items()))

    def tidemill(stream: tm.Stream) -> tm.Stream:
        grouped = stream.withWatermark("ts", DELAY).groupBy("k", tm.window("ts", *arguments))
        return grouped.agg(outputMode=mode, **aggregates(tm))

    return Case(f"window-functions-{mode}", MORE, wider(5), spark, tidemill, mode=mode, digits=11)


CASES = [
    functions_of_windows("update", "10 seconds", "4 seconds"),
    functions_of_windows("append", "9 seconds", "3 seconds", "1 second"),
    *(case("boundaries", windows, mode, BOUNDARIES, keyed=True) for windows in TABLE for mode in ("append", "update")),
    *(case("random-1", windows, mode, at_random(1), keyed=True) for windows in TABLE for mode in ("append", "update")),
    *(case("no-key", windows, "append", at_random(2), keyed=False) for windows in ("tumbling", "sliding")),
    update_without_watermark("random", at_random(3)),
]
