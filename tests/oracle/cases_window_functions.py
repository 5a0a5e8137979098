"""Every aggregate function under every kind of window, over nulls, NaN, −0.0 and decimals.

`first` and `last` of sessions are left out: in Spark they depend on how sessions were merged.
"""

from __future__ import annotations

import random
import tempfile
from datetime import timedelta
from decimal import Decimal
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, n int, x double, d decimal(12,3), s string, by double"
DELAY = "5 seconds"
NUMBERS = ("n", "x", "d")
ORDERED = (*NUMBERS, "s")
SETS = ("n", "d", "s")
_FOLDER = tempfile.TemporaryDirectory(prefix="tidemill-oracle-")


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Seven batches whose times drift forward and are late now and then, then one that ends everything.

    `by` comes once, and one row in nine has none; the first batch has windows of nulls alone and of one row.
    """
    chance = random.Random(seed)

    def row(number: int) -> tuple[Any, ...]:
        seconds = number * 5 + chance.choice([-15, -8, -5, 0, 1, 2.5, 4.999999, 7, 9])
        return (
            chance.choice(["a", "b", None]),
            None if chance.random() < 0.05 else ORIGIN + timedelta(seconds=seconds),
            chance.choice([0, 1, -7, 2**31 - 1, None]),
            chance.choice([0.0, -0.0, 0.5, -1.25, 3e5, float("nan"), None]),
            chance.choice([Decimal("0.001"), Decimal("-2.500"), Decimal("123456789.125"), None]),
            chance.choice(["", "x", "y", "Ä", None]),
            None if chance.random() < 0.11 else chance.random(),
        )

    nulls = [("nulls", ORIGIN, *[None] * 5), ("nulls", ORIGIN, *[None] * 5)]
    alone = [("alone", ORIGIN, 5, 2.5, Decimal("1.000"), "z", 0.5)]
    batches = [[row(number) for _ in range(chance.randrange(5, 16))] for number in range(7)]
    return [[*nulls, *alone, *batches[0]], *batches[1:], [("end", ORIGIN + timedelta(seconds=500), *[None] * 5)]]


def aggregates(made: Any, *, in_order: bool) -> dict[str, Any]:
    """The columns, the same words for both engines."""
    var, stddev = getattr(made, "var_samp", None) or made.var, made.stddev
    found = {"rows": made.count("*") if hasattr(made, "var_samp") else made.count()}
    found |= {f"count_{column}": made.count(column) for column in ORDERED}
    found |= {f"sum_{column}": made.sum(column) for column in NUMBERS}
    found |= {f"mean_{column}": made.mean(column) for column in NUMBERS}
    found |= {f"var_{column}": var(column) for column in NUMBERS}
    found |= {f"dev_{column}": stddev(column) for column in NUMBERS}
    found |= {f"min_{column}": made.min(column) for column in ORDERED}
    found |= {f"max_{column}": made.max(column) for column in ORDERED}
    found |= {f"least_{column}": made.min_by(column, "by") for column in ORDERED}
    found |= {f"most_{column}": made.max_by(column, "by") for column in ORDERED}
    found |= {f"about_{column}": made.approx_count_distinct(column) for column in ORDERED}
    if in_order:
        found |= {f"first_{column}": made.first(column) for column in ORDERED}
        found |= {f"last_{column}": made.last(column) for column in ORDERED}
        found |= {f"least_by_{column}": made.min_by("by", column) for column in ORDERED}
        found |= {f"most_by_{column}": made.max_by("by", column) for column in ORDERED}
    return found


def case(name: str, mode: str, seed: int, kind: str, *arguments: str) -> Case:
    """Sets are sorted, since Spark's have no order; of doubles only how many there are."""
    in_order = kind == "window"

    def spark(df: Any) -> Any:
        from pyspark.sql import functions as made

        sets = {f"set_{column}": made.sort_array(made.collect_set(column)) for column in SETS}
        sets["set_x"] = made.size(made.collect_set("x"))
        columns = aggregates(made, in_order=in_order) | sets
        grouped = df.withWatermark("ts", DELAY).groupBy("k", getattr(made, kind)("ts", *arguments))
        return grouped.agg(*(column.alias(name) for name, column in columns.items()))

    def tidemill(stream: Any) -> Any:
        sets = {f"set_{column}": tm.collect_set(column, 100) for column in (*SETS, "x")}
        grouped = stream.withWatermark("ts", DELAY).groupBy("k", getattr(tm, kind)("ts", *arguments))
        counted = grouped.agg(outputMode=mode, **aggregates(tm, in_order=in_order), **sets)
        sorts = ", ".join(f"list_sort(set_{column}) AS set_{column}" for column in SETS)
        shown = counted.sql(f"SELECT * REPLACE ({sorts}, CAST(len(set_x) AS INTEGER) AS set_x) FROM rows")
        return shown.write(tm.Parquet(_FOLDER.name))

    return Case(f"window-every-function-{name}", SCHEMA, at_random(seed), spark, tidemill, mode=mode, digits=11)


CASES = [
    case("tumbling", "update", 1, "window", "10 seconds"),
    case("sliding", "append", 2, "window", "10 seconds", "5 seconds"),
    case("session", "append", 3, "session_window", "3 seconds"),
]
