"""Aggregates by the event time itself: late rows, keys that ended, append and update mode, chains after them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, n int, other timestamp"
DELAY = "5 seconds"
_FOLDER = tempfile.TemporaryDirectory(prefix="tidemill-oracle-")


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


def row(k: str | None, seconds: float | None, n: int) -> tuple[Any, ...]:
    ts = None if seconds is None else at(seconds)
    return k, ts, n, at(3 * n)


BOUNDARIES = [
    [row("a", 1, 1), row("a", 1, 2), row("b", 1, 3), row("a", None, 4), row(None, 2, 5)],
    [row("a", 1, 6), row("a", 6.0005, 7), row("a", None, 8)],
    # The watermark is at 1 s after the previous batch: a row at 1 s is late, a row a microsecond later is not.
    [row("a", 1, 9), row("a", 1.000001, 10), row("b", 1.0005, 11), row("b", 20, 12)],
    [row("a", 15, 13), row("a", 15.000001, 14), row("b", 20, 15)],
    [],
    [row("a", 14, 16), row("c", 60, 17)],
    [row("c", 60, 18), row("c", 55, 19), row("c", 55.001, 20)],
    [row("c", 200, 21)],
]


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Generate ten batches over few times that advance and are often too late. Some rows have no time."""
    chance = random.Random(seed)

    def one(number: int) -> tuple[Any, ...]:
        seconds = number * 4 + chance.choice([-12, -8, -6, -5, -4, 0, 1, 2.0005, 4])
        return row(chance.choice(["a", "b", None]), None if chance.random() < 0.08 else seconds, chance.randrange(9))

    return [*([one(number) for _ in range(chance.randrange(14))] for number in range(9)), [row("end", 400, 0)]]


def counted(grouped: Any) -> Any:
    """Return the aggregation in Spark."""
    from pyspark.sql import functions

    return grouped.agg(functions.count("*").alias("rows"), functions.sum("n").alias("total"))


FIRST = {"rows": tm.count(), "total": tm.sum("n")}


def late(stream: Any) -> Any:
    return stream.withWatermark("ts", DELAY)


def case(name: str, mode: str, batches: list[list[tuple[Any, ...]]], *key: str) -> Case:
    return Case(
        f"key-time-{name}-{mode}",
        SCHEMA,
        batches,
        lambda df: counted(late(df).groupBy(*key)),
        lambda stream: late(stream).groupBy(*key).agg(outputMode=mode, **FIRST),
        mode=mode,
    )


def chain(name: str, seed: int, spark: Callable[[Any], Any], tidemill: Callable[[Any], Any]) -> Case:
    """A chain after an aggregation by event time: `spark` and `tidemill` receive the first aggregation."""
    return Case(
        f"key-time-chain-{name}",
        SCHEMA,
        at_random(seed),
        lambda df: spark(counted(late(df).groupBy("k", "ts"))),
        lambda stream: tidemill(late(stream).groupBy("k", "ts").agg(outputMode="append", **FIRST)),
    )


def _window(*arguments: str) -> Any:
    from pyspark.sql import functions

    return functions.window(*arguments)


def _summed(grouped: Any) -> Any:
    from pyspark.sql import functions

    # Of sums alone Spark's optimizer would make one aggregation, without the first one's late rows.
    return grouped.agg(functions.count("*").alias("keys"), functions.sum("rows").alias("all"))


AGAIN = {"keys": tm.count(), "all": tm.sum("rows"), "outputMode": "append", "name": "again"}


def by_other_windows(mode: str) -> Case:
    """Windows over another column than the event time. The event time is a key column, and keys end by it."""
    return Case(
        f"key-time-other-windows-{mode}",
        SCHEMA,
        at_random(6),
        lambda df: counted(late(df).groupBy(_window("other", "10 seconds"), "ts")),
        lambda s: late(s).groupBy(tm.window("other", "10 seconds"), "ts").agg(outputMode=mode, **FIRST),
        mode=mode,
    )


def twice(name: str, seed: int, spark: Callable[[Any], Any], tidemill: Callable[[Any], Any], mode: str) -> Case:
    """The event time under two names. Each name works, but Spark rejects both in one grouping."""
    columns = "k", "ts", "ts AS also", "n", "other"
    return Case(
        f"key-time-twice-{name}-{mode}",
        SCHEMA,
        at_random(seed),
        lambda df: spark(late(df).selectExpr(*columns)),
        lambda stream: tidemill(late(stream).sql(f"SELECT {', '.join(columns)} FROM rows")),
        mode=mode,
    )


TWICE = [
    *(
        twice(
            name,
            seed,
            lambda df, column=column, key=key: counted(df.groupBy(_window(column, "10 seconds"), key)),
            lambda s, column=column, key=key, mode=mode: s.groupBy(tm.window(column, "10 seconds"), key).agg(
                outputMode=mode, **FIRST
            ),
            mode,
        )
        for name, seed, column, key in (("window", 11, "also", "k"), ("other-windows", 15, "other", "also"))
        for mode in ("append", "update")
    ),
    twice(
        "key",
        12,
        lambda df: counted(df.groupBy("also", "k")),
        lambda s: s.groupBy("also", "k").agg(outputMode="update", **FIRST),
        "update",
    ),
    twice(
        "duplicates",
        13,
        lambda df: df.select("also", "k").dropDuplicates(["k", "also"]),
        lambda s: s.select("also", "k").dropDuplicates(["k", "also"]).write(tm.Parquet(_FOLDER.name)),
        "append",
    ),
]


CASES = [
    *TWICE,
    *(case("boundaries", mode, BOUNDARIES, "k", "ts") for mode in ("append", "update")),
    *(case("random", mode, at_random(1), "ts", "k") for mode in ("append", "update")),
    case("alone", "append", at_random(2), "ts"),
    chain(
        "window",
        3,
        lambda df: _summed(df.groupBy(_window("ts", "10 seconds"), "k")),
        lambda s: s.groupBy(tm.window("ts", "10 seconds"), "k").agg(**AGAIN),
    ),
    chain("same", 4, lambda df: _summed(df.groupBy("ts")), lambda s: s.groupBy("ts").agg(**AGAIN)),
    chain(
        "duplicates",
        5,
        # The order of times within a batch is undefined, so only their common columns are compared.
        lambda df: df.dropDuplicates(["k", "total"]).select("k", "total"),
        lambda s: s.dropDuplicates(["k", "total"]).select("k", "total").write(tm.Parquet(_FOLDER.name)),
    ),
    *(by_other_windows(mode) for mode in ("append", "update")),
]
