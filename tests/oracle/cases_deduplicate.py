"""`dropDuplicates` and `dropDuplicatesWithinWatermark`: boundaries by hand, then seeded random streams."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "user string, ts timestamp, n int, x double"
DELAY = "10 seconds"
FEW = ["a", "b", "c", None]
MANY = [*FEW, *(f"user {number}" for number in range(60))]


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


BOUNDARIES = [
    [("a", at(20), 1, 0.0), ("a", at(20), 2, -0.0), ("b", at(30), 3, None), (None, None, 4, 1.0), (None, None, 5, 1.0)],
    [("a", at(20), 6, 1.0), ("a", at(20.000001), 7, 1.0), ("a", at(20.001), 8, 1.0), ("b", at(30), 9, 1.0)],
    [("c", at(30.000999), 10, float("nan")), ("c", at(41), 11, float("nan")), ("a", None, 12, 1.0)],
    [("a", at(31.0), 13, 1.0), ("a", at(31.0001), 14, 1.0), ("c", at(31.001), 15, float("nan"))],
    [],
    [("d", at(60), 16, 0.0)],
    [("a", at(60), 17, -0.0), ("b", at(50.5), 18, 1.0), ("c", at(61), 19, float("nan")), (None, None, 20, 1.0)],
    [("d", at(69.999), 21, 0.0), ("d", at(70), 22, 0.0)],
]


def at_random(seed: int, users: Sequence[str | None], rows_at_most: int) -> list[list[tuple[Any, ...]]]:
    """Generate twelve batches of some users, with times that advance and are often late, repeated rows and nulls."""
    chance = random.Random(seed)
    batches: list[list[tuple[Any, ...]]] = []
    for number in range(12):
        rows: list[tuple[Any, ...]] = []
        for _ in range(chance.randrange(rows_at_most)):
            if rows and chance.random() < 0.2:
                rows.append(chance.choice(rows))
                continue
            time = at(number * 4 + chance.choice([-30, -10, -6, -4, 0, 1, 3, 3.5, 3.0005, 3.0000005]) + 30)
            user = chance.choice(users)
            x = chance.choice([0.0, -0.0, float("nan"), 1.5, None])
            rows.append((user, None if chance.random() < 0.1 else time, chance.randrange(3), x))
        batches.append(rows)
    return batches


Batches = list[list[tuple[Any, ...]]]


def _cases(name: str, few: Batches, many: Batches | None = None) -> list[Case]:
    """`many`: for operators that never forget a user, or only late."""

    def case(kind: str, spark: Any, tidemill: Any) -> Case:
        batches = many if many and kind in ("late", "within") else few
        return Case(f"deduplicate-{kind}-{name}", SCHEMA, batches, spark, tidemill)

    return [
        case("for-ever", lambda df: df.dropDuplicates(["user", "x"]), lambda s: s.dropDuplicates(["user", "x"])),
        case(
            "late",
            lambda df: df.withWatermark("ts", DELAY).dropDuplicates(["user"]),
            lambda s: s.withWatermark("ts", DELAY).dropDuplicates(["user"]),
        ),
        case(
            "time-in-key",
            lambda df: df.withWatermark("ts", DELAY).dropDuplicates(["user", "ts"]),
            lambda s: s.withWatermark("ts", DELAY).dropDuplicates(["user", "ts"]),
        ),
        case(
            "all-columns",
            lambda df: df.withWatermark("ts", DELAY).dropDuplicates(),
            lambda s: s.withWatermark("ts", DELAY).dropDuplicates(),
        ),
        case(
            "within",
            lambda df: df.withWatermark("ts", DELAY).dropDuplicatesWithinWatermark(["user"]),
            lambda s: s.withWatermark("ts", DELAY).dropDuplicatesWithinWatermark(["user"]),
        ),
    ]


GROUPED = Case(
    "deduplicate-within-grouped",
    SCHEMA,
    at_random(4, MANY, 40),
    lambda df: df.withWatermark("ts", DELAY).dropDuplicatesWithinWatermark(["user", "x"]),
    lambda s: s.withWatermark("ts", DELAY).groupBy("user", "x").dropDuplicatesWithinWatermark(),
)
"""The grouped form, which only Tidemill has."""

LATE = [
    [("a", at(100), 1, 0.0)],
    [("b", at(1), 1, 0.0), ("a", at(1), 1, 0.0), ("c", None, 1, 0.0)],
    [("c", at(200), 1, 0.0), ("d", at(195), 1, 0.0)],
    [("d", at(50), 1, 0.0), ("e", at(50), 2, 0.0), ("f", at(300), 2, 0.0)],
]


def counted(df: Any, with_time: bool) -> Any:
    """Spark's count by `n`, and the latest time of it."""
    from pyspark.sql import functions

    latest = [functions.max("ts").alias("t")] if with_time else []
    return df.groupBy("n").agg(functions.count("*").alias("c"), *latest)


TIME_READ = Case(
    "deduplicate-late-time-read-behind",
    SCHEMA,
    LATE,
    lambda df: counted(df.withWatermark("ts", DELAY).dropDuplicates(["user"]), with_time=True),
    lambda s: s.withWatermark("ts", DELAY).dropDuplicates(["user"]).groupBy("n").agg(c=tm.count(), t=tm.max("ts")),
    mode="update",
)
"""The next step reads the event time, so late rows are dropped."""

TIME_NOT_READ = Case(
    "deduplicate-late-time-not-read-behind",
    SCHEMA,
    LATE,
    lambda df: counted(df.withWatermark("ts", DELAY).dropDuplicates(["user"]), with_time=False),
    lambda s: s.dropDuplicates(["user"]).groupBy("n").agg(c=tm.count()),
    mode="update",
)
"""No later step reads the event time. Spark's optimizer removes it, so late rows pass; here there is no watermark."""

CASES = [
    TIME_READ,
    TIME_NOT_READ,
    *_cases("boundaries", BOUNDARIES),
    GROUPED,
    *(
        case
        for seed in (1, 2, 3)
        for case in _cases(f"random-{seed}", at_random(seed, FEW, 12), at_random(seed, MANY, 40))
    ),
]
