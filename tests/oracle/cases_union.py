"""Unions whose sides have their own watermarks: all operators follow the least of them."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "side string, k string, ts timestamp, n int"
SIDES = ("left", "right")


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


ONE_WAITS = [
    [("left", "a", at(0), 1), ("left", "b", at(30), 2)],
    [("left", "a", at(60), 3)],  # the right one has not delivered: nothing is late, nothing is due
    [("left", "a", at(1), 4), ("right", "a", at(20), 5)],
    [("right", "c", at(31), 6)],
    [("left", "a", at(21), 7), ("left", "a", at(25), 8), ("right", "a", at(20), 9)],
    [("right", "d", None, 10)],
    [("right", "d", at(200), 11)],
    [("left", "d", at(100), 12)],
    [],
]


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Ten batches whose sides drift forward at their own paces."""
    chance = random.Random(seed)

    def row(number: int) -> tuple[Any, ...]:
        side = chance.choice(SIDES)
        time = at(number * (4 if side == "left" else 6) + chance.choice([-20, -10, -5, 0, 1, 2.5]))
        return (side, chance.choice(["a", "b", None]), None if chance.random() < 0.1 else time, chance.randrange(9))

    return [[row(number) for _ in range(chance.randrange(10))] for number in range(10)]


def both(sides: Any) -> Any:
    """Return the union of the sides with their watermarks, by the same calls in both engines."""
    left, right = sides
    return left.withWatermark("ts", "5 seconds").unionByName(right.withWatermark("ts", "10 seconds"))


def windows(name: str, batches: list[list[tuple[Any, ...]]], mode: str) -> Case:
    def spark(sides: Any) -> Any:
        from pyspark.sql import functions

        grouped = both(sides).groupBy(functions.window("ts", "10 seconds"), "k")
        return grouped.agg(functions.count("*").alias("rows"), functions.sum("n").alias("total"))

    def tidemill(sides: Any) -> tm.Stream:
        grouped = both(sides).groupBy(tm.window("ts", "10 seconds"), "k")
        return grouped.agg(rows=tm.count(), total=tm.sum("n"), outputMode=mode)

    return Case(name, SCHEMA, batches, spark, tidemill, mode, sources=SIDES)


def duplicates(name: str, batches: list[list[tuple[Any, ...]]]) -> Case:
    """Group by a key whose rows are equal in all visible columns, because Spark does not define their order."""

    def query(sides: Any) -> Any:
        return both(sides).select("k", "ts").dropDuplicates(["k", "ts"])

    return Case(name, SCHEMA, batches, query, query, sources=SIDES)


def keyless(name: str) -> Case:
    """Columns in another order, one that is missing, and a stream united with itself."""

    def query(sides: Any) -> Any:
        left, right = sides
        made = left.select("k", "n", "ts").unionByName(right.select("n", "k"), allowMissingColumns=True)
        return made.unionByName(left.drop("side"))

    def tidemill(sides: Any) -> tm.Stream:
        return query(sides).foreachBatch(lambda table, batch_id: None)

    return Case(name, SCHEMA, ONE_WAITS, query, tidemill, sources=SIDES)


CASES = [
    windows("union-windows-append", ONE_WAITS, "append"),
    windows("union-windows-update", at_random(1), "update"),
    duplicates("union-duplicates", at_random(2)),
    keyless("union-keyless"),
]
