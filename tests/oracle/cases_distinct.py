"""`approx_count_distinct` and `collect_set`: every kind of column, every form of the estimate."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import tidemill as tm
from tests.oracle.case import Case
from tests.oracle.cases_aggregate import COLUMNS, SCHEMA, at_random

PRECISIONS = (0.39, 0.25, 0.15, 0.05, 0.02)
SETS = ("i", "g", "small", "d", "wide", "s", "b", "day", "t")
FLOATS = ("x", "f")
_FOLDER = tempfile.TemporaryDirectory(prefix="tidemill-oracle-")


def approximate(name: str, schema: str, columns: tuple[str, ...], errors: tuple[float, ...], batches: Any) -> Case:
    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        made = functions.approx_count_distinct
        return df.groupBy("k").agg(
            *(made(column, rsd).alias(f"{column}_{p}") for column in columns for p, rsd in enumerate(errors))
        )

    def tidemill(stream: tm.Stream) -> tm.Stream:
        made = {
            f"{column}_{p}": tm.approx_count_distinct(column, rsd) for column in columns for p, rsd in enumerate(errors)
        }
        return stream.groupBy("k").agg(**made)

    return Case(f"distinct-approximate-{name}", schema, batches, spark, tidemill, mode="update")


def sets(name: str, batches: Any) -> Case:
    """Compare `collect_set`: sorted, because Spark's sets have no order, and only the sizes of sets of floats."""

    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        made = [functions.sort_array(functions.collect_set(column)).alias(f"r_{column}") for column in SETS]
        made += [functions.size(functions.collect_set(column)).alias(f"r_{column}") for column in FLOATS]
        return df.groupBy("k").agg(*made)

    def tidemill(stream: tm.Stream) -> tm.Stream:
        made = stream.groupBy("k").agg(**{f"r_{column}": tm.collect_set(column, 1000) for column in SETS + FLOATS})
        shown = [f"list_sort(r_{column}) AS r_{column}" for column in SETS]
        shown += [f"CAST(len(r_{column}) AS INTEGER) AS r_{column}" for column in FLOATS]
        return made.sql(f"SELECT k, {', '.join(shown)} FROM rows").write(tm.Parquet(_FOLDER.name))

    return Case(f"distinct-sets-{name}", SCHEMA, batches, spark, tidemill, mode="update")


def many(seed: int) -> list[list[tuple[Any, ...]]]:
    """Few values of one key, more, and so many that estimates are raw; another key stays small."""
    chance = random.Random(seed)
    return [
        [
            ("few" if chance.random() < 0.02 else "many", n := chance.randrange(size * 3), f"s{n % size}")
            for _ in range(size)
        ]
        for size in (20, 60, 250, 900, 4000)
    ]


CASES = [
    approximate("columns", SCHEMA, COLUMNS, (0.05, 0.3), at_random(11, ["a", "b", None], 14)),
    approximate("many", "k string, n bigint, s string", ("n", "s"), PRECISIONS, many(12)),
    sets("columns", at_random(13, ["a", "b", None], 14)),
]
