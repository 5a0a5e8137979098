"""Keys that are structs, lists and maps: aggregates, duplicates and functions with state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tidemill as tm
from tests.oracle.case import Case

SCHEMA = "s struct<name: string, x: double, tags: array<int>>, a array<string>, m map<string, int>, n int"
BATCHES: list[Any] = [
    [
        (("a", 0.0, [1, None]), ["x"], {"p": 1, "q": 2}, 1),
        (("a", -0.0, [1, None]), [], {"q": 2, "p": 1}, 2),
        (("a", None, []), [None], {}, 3),
        (("a", None, None), None, None, 4),
        (None, ["x"], {"p": 3}, 5),
    ],
    [
        ((None, None, None), ["x", "y"], {"p": 1}, 6),
        (None, ["xy"], {"p": 3}, 7),
        (("a", math.nan, [1, None]), [], {"p": 1, "q": 2}, 8),
    ],
    [
        (("a", math.nan, [1, None]), None, None, 9),
        (("a", None, []), [None], {}, 10),
        (("a", 0.0, [1, None]), ["x"], {"q": 2, "p": 1}, 11),
    ],
]


def _sums(key: str) -> Case:
    return Case(
        f"nested-sum-by-{key}",
        SCHEMA,
        BATCHES,
        lambda df: _spark_sums(df, key),
        lambda s: s.groupBy(key).agg(n=tm.sum("n")),
        mode="update",
    )


def _spark_sums(df: Any, key: str) -> Any:
    from pyspark.sql import functions

    return df.groupBy(key).agg(functions.sum("n").alias("n"))


def _spark_counted(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    n = (state.get[0] if state.exists else 0) + sum(int(frame["n"].sum()) for frame in frames)
    state.update((n,))
    yield pd.DataFrame({"key": [None if key[0] is None else key[0]["name"]], "n": [n]})


def _counted(key: Any, rows: Iterator[Any], state: tm.GroupState) -> Iterator[tuple[Any, int]]:
    n = (state.get if state.exists else 0) + sum(row.n for row in rows)
    state.update(n)
    yield (None if key is None else key.name, n)


CASES = [
    _sums("s"),
    _sums("a"),
    _sums("m"),
    Case(
        "nested-duplicates",
        SCHEMA,
        BATCHES,
        lambda df: df.dropDuplicates(["s", "a"]),
        lambda s: s.dropDuplicates(["s", "a"]),
    ),
    Case(
        "nested-state-by-struct",
        SCHEMA,
        BATCHES,
        lambda df: df.groupBy("s").applyInPandasWithState(
            _spark_counted, "key string, n long", "n long", "append", "NoTimeout"
        ),
        lambda s: s.groupBy("s").flatMapGroupsWithState(_counted, "key string, n long", "bigint", outputMode="append"),
    ),
]
