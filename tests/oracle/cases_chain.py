"""Chains of stateful operators under one watermark: an operator reads the output of the previous in the same batch."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, n int"
DELAY = "8 seconds"
Query = Callable[[Any], Any]
_FOLDER = tempfile.TemporaryDirectory(prefix="tidemill-oracle-")


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Generate nine batches whose times advance to and past the ends of windows, and are often late."""
    chance = random.Random(seed)

    def row(number: int) -> tuple[Any, ...]:
        time = at(number * 7 + chance.choice([-30, -20, -8, -5, -0.000001, 0, 1, 4.9995, 8, 10]))
        return (chance.choice(["a", "b", None]), None if chance.random() < 0.06 else time, chance.randrange(5))

    batches = [[row(number) for _ in range(chance.randrange(2, 12))] for number in range(8)]
    return [*batches, [("end", at(400), 0)], [("end", at(401), 0)]]


def at_length(seed: int) -> list[list[tuple[Any, ...]]]:
    """Generate fifteen batches, one per minute. In each, windows of both steps end; some rows are late."""
    chance = random.Random(seed)

    def row(number: int) -> tuple[Any, ...]:
        step = chance.choice([-75, -40, -9, -8, -3, 0, 9.999999, 10, 20, 26.0005, 30, 41, 50])
        time = at(number * 60 + step + chance.choice([0, 0, 2.5, 6, 6.000001]))
        return (chance.choice(["a", "b", None]), None if chance.random() < 0.06 else time, chance.randrange(5))

    batches = [[row(number) for _ in range(chance.randrange(8, 20))] for number in range(13)]
    return [*batches, [("end", at(1200), 0)], [("end", at(1201), 0)]]


def counted(grouped: Any) -> Any:
    """Return the first aggregation in Spark."""
    from pyspark.sql import functions

    return grouped.agg(functions.count("*").alias("rows"), functions.sum("n").alias("total"))


def summed(grouped: Any) -> Any:
    """Return the second aggregation in Spark."""
    from pyspark.sql import functions

    return grouped.agg(functions.count("*").alias("keys"), functions.sum("rows").alias("all"))


FIRST = {"rows": tm.count(), "total": tm.sum("n"), "outputMode": "append"}
SECOND = {"keys": tm.count(), "all": tm.sum("rows"), "outputMode": "append", "name": "second"}


def _functions() -> Any:
    from pyspark.sql import functions

    return functions


def case(name: str, seed: int, spark: Query, tidemill: Query, rows: Any = at_random, **more: Any) -> Case:
    return Case(f"chain-{name}", SCHEMA, rows(seed), spark, tidemill, **more)


def late(stream: Any) -> Any:
    return stream.withWatermark("ts", DELAY)


def windows(*durations: str) -> tuple[Query, Query]:
    """Windows by key over the source, for both engines."""
    return (
        lambda df: counted(late(df).groupBy(_functions().window("ts", *durations), "k")),
        lambda s: late(s).groupBy(tm.window("ts", *durations), "k").agg(**FIRST),
    )


def sessions() -> tuple[Query, Query]:
    """Sessions by key over the source, for both engines."""
    return (
        lambda df: counted(late(df).groupBy(_functions().session_window("ts", "6 seconds"), "k")),
        lambda s: late(s).groupBy(tm.session_window("ts", "6 seconds"), "k").agg(**FIRST),
    )


def again(name: str, seed: int, first: Any, column: str, *durations: str, key: tuple[str, ...] = ()) -> Case:
    """Aggregate the output of windows by longer windows, or by the same windows if no durations are given."""

    def spark(df: Any) -> Any:
        return summed(first[0](df).groupBy(_functions().window(column, *durations) if durations else column, *key))

    def tidemill(stream: tm.Stream) -> tm.Stream:
        return first[1](stream).groupBy(tm.window(column, *durations) if durations else column, *key).agg(**SECOND)

    return case(name, seed, spark, tidemill, at_length)


def latest(key: Any, pdfs: Any, state: Any) -> Any:
    """The latest event time of a key in this batch, and how many rows it has had; unchanged in both engines."""
    import pandas

    if state.hasTimedOut:
        state.remove()
        return
    times = [time for pdf in pdfs for time in pdf["ts"]]
    state.update(((state.get[0] if state.exists else 0) + len(times),))
    known = [time for time in times if not pandas.isna(time)]
    if known:
        state.setTimeoutTimestamp(int(max(known).timestamp() * 1000) + 20_000)
        yield pandas.DataFrame({"k": [key[0]], "at": [max(known)], "rows": [state.get[0]]})


def by_function(stream: Any) -> Any:
    """A keyed function whose output has an event time of its own."""
    given = ("k string, at timestamp, rows long", "n long", "append", "EventTimeTimeout")
    return late(stream).groupBy("k").applyInPandasWithState(latest, *given).withWatermark("at", DELAY)


CASES = [
    case(
        "function-window",
        11,
        lambda df: summed(by_function(df).groupBy(_functions().window("at", "10 seconds"))),
        lambda s: by_function(s).groupBy(tm.window("at", "10 seconds")).agg(**SECOND),
        # Spark rejects this chain by default, because the output of a function may be late for the next operator.
        rows=at_length,
        conf={"spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false"},
    ),
    again("window-window", 1, windows("10 seconds"), "window", "30 seconds"),
    again("sliding-sliding", 2, windows("10 seconds", "5 seconds"), "window", "20 seconds", "10 seconds"),
    again("window-same", 3, windows("10 seconds"), "window"),
    again("sliding-same", 4, windows("10 seconds", "4 seconds"), "window"),
    again("session-window", 5, sessions(), "session_window", "30 seconds"),
    again("session-same", 6, sessions(), "session_window", key=("k",)),
    case(
        "duplicates-window",
        7,
        lambda df: counted(
            late(df).dropDuplicatesWithinWatermark(["k", "n"]).groupBy(_functions().window("ts", "10 seconds"), "k")
        ),
        lambda s: (
            late(s).dropDuplicatesWithinWatermark(["k", "n"]).groupBy(tm.window("ts", "10 seconds"), "k").agg(**FIRST)
        ),
    ),
    case(
        "duplicates-session",
        8,
        lambda df: counted(
            late(df).dropDuplicates(["k", "ts"]).groupBy(_functions().session_window("ts", "6 seconds"), "k")
        ),
        lambda s: late(s).dropDuplicates(["k", "ts"]).groupBy(tm.session_window("ts", "6 seconds"), "k").agg(**FIRST),
    ),
    case(
        "duplicates-watermark-window",
        9,
        lambda df: counted(late(df.dropDuplicates(["k", "n"])).groupBy(_functions().window("ts", "10 seconds"), "k")),
        lambda s: late(s.dropDuplicates(["k", "n"])).groupBy(tm.window("ts", "10 seconds"), "k").agg(**FIRST),
    ),
    case(
        "window-duplicates",
        10,
        # The order of windows within a batch is undefined, so only their common columns are compared.
        lambda df: windows("10 seconds")[0](df).dropDuplicates(["k", "rows"]).select("k", "rows"),
        lambda s: (
            windows("10 seconds")[1](s)
            .dropDuplicates(["k", "rows"])
            .select("k", "rows")
            .write(tm.Parquet(_FOLDER.name))
        ),
    ),
]
