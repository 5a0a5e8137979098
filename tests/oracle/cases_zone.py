"""Time zones whose clocks are changed: windows, SQL steps over times, functions over frames, dates as event time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd

import tidemill as tm
from tests.oracle.case import Case

SCHEMA = "k string, ts timestamp, n int"
NEW_YORK, KOLKATA, LORD_HOWE = "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"
FORWARD = datetime(2020, 3, 8, 5, tzinfo=UTC)
"""New York's clocks go forward two hours later."""
BACK = datetime(2020, 11, 1, 4, tzinfo=UTC)
"""New York's clocks go back two hours later."""


def around(moment: datetime, seed: int) -> list[list[tuple[Any, ...]]]:
    """Five batches of some hours about a moment, some late; then one four days later."""
    chance = random.Random(seed)
    minutes = [-200, -90, -61, -30, 0, 1, 29.999999, 30, 59.9, 60, 75]

    def row(number: int) -> tuple[Any, ...]:
        time = moment + timedelta(hours=number * 1.5, minutes=chance.choice(minutes))
        return (chance.choice(["a", "b", None]), None if chance.random() < 0.07 else time, chance.randrange(99))

    batches = [[row(number) for _ in range(chance.randrange(3, 12))] for number in range(5)]
    return [*batches, [("z", moment + timedelta(days=4), 1)]]


FOR_SPARK = """SELECT k, ts, to_date(ts) AS day, hour(ts) AS hour, date_trunc('day', ts) AS midnight,
    date_format(ts, 'yyyy-MM-dd HH:mm:ss') AS text, ts + INTERVAL 1 DAY AS tomorrow FROM rows"""
FOR_DUCKDB = """SELECT k, ts, ts::date AS day, hour(ts)::int AS hour, date_trunc('day', ts) AS midnight,
    strftime(ts, '%Y-%m-%d %H:%M:%S') AS text, ts + INTERVAL 1 DAY AS tomorrow FROM rows"""


def steps(stream: Any) -> Any:
    return stream.sql(FOR_DUCKDB).dropDuplicates(["k", "ts"])


def spark_steps(df: Any) -> Any:
    df.createOrReplaceTempView("rows")
    return df.sparkSession.sql(FOR_SPARK).dropDuplicates(["k", "ts"])


def windows(*arguments: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Windows of a day and so on, with the least and the greatest time in each; for Spark, and here."""

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        grouped = df.withWatermark("ts", "40 minutes").groupBy("k", functions.window("ts", *arguments))
        return grouped.agg(functions.count("*").alias("rows"), functions.min("ts").alias("first"),
                           functions.max("ts").alias("last"))  # fmt: skip

    def tidemill(stream: Any) -> Any:
        grouped = stream.withWatermark("ts", "40 minutes").groupBy("k", tm.window("ts", *arguments))
        return grouped.agg(rows=tm.count(), first=tm.min("ts"), last=tm.max("ts"), outputMode="append")

    return spark, tidemill


def an_hour_later(key: Any, pdfs: Iterator[Any], state: Any) -> Iterator[Any]:
    """Each time as it is seen, and an hour later by the clock; the latest one is the state, and arms a timeout."""
    for pdf in [] if state.hasTimedOut else pdfs:
        later = pdf["ts"] + pd.Timedelta(hours=1)
        yield pd.DataFrame({"k": key[0], "seen": pdf["ts"].astype(str), "later": later})
        known = pdf["ts"].dropna()
        if len(known):
            state.update((known.max(),))
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 0) + 5_400_000)
    if state.hasTimedOut:
        yield pd.DataFrame({"k": [key[0]], "seen": [f"out {state.get[0]}"], "later": [state.get[0]]})
        state.remove()


def functions_over_frames(stream: Any) -> Any:
    grouped = stream.withWatermark("ts", "40 minutes").groupBy("k")
    output = "k string, seen string, later timestamp"
    return grouped.applyInPandasWithState(an_hour_later, output, "at timestamp", "append", "EventTimeTimeout")


DATES = [
    [("a", date(2020, 3, 7), 1), ("b", date(2020, 3, 8), 2)],
    [("a", date(2020, 3, 9), 3), ("b", date(2020, 3, 7), 2), ("b", None, 2)],
    [("a", date(2020, 3, 7), 4)],
    [("a", date(2020, 3, 20), 5)],
]


def dates(stream: Any) -> Any:
    return windows("1 day")[1](stream.sql("SELECT *, d::timestamptz AS ts FROM rows"))


def spark_dates(df: Any) -> Any:
    return windows("1 day")[0](df.selectExpr("*", "cast(d AS timestamp) AS ts"))


def case(name: str, zone: str, spark: Any, tidemill: Any, rows: Any, schema: str = SCHEMA) -> Case:
    return Case(f"zone-{name}", schema, rows, spark, tidemill, conf={"spark.sql.session.timeZone": zone})


CASES = [
    case("sql-forward", NEW_YORK, spark_steps, steps, around(FORWARD, 1)),
    case("sql-back", NEW_YORK, spark_steps, steps, around(BACK, 2)),
    case("sql-half-hour", LORD_HOWE, spark_steps, steps, around(FORWARD, 3)),
    case("windows-of-a-day", NEW_YORK, *windows("1 day", "12 hours", "-5 hours"), around(BACK, 4)),
    case("windows-of-days-in-kolkata", KOLKATA, *windows("1 week", "1 day", "330 minutes"), around(FORWARD, 5)),
    case("dates", NEW_YORK, spark_dates, dates, DATES, "k string, d date, n int"),
    case("frames", NEW_YORK, functions_over_frames, functions_over_frames, around(BACK, 6)),
]
