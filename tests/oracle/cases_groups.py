"""`mapGroupsWithState`, `flatMapGroupsWithState` and `applyInPandasWithState`: what may be called when, what fires.

After the cases of Spark's FlatMapGroupsWithStateSuite and of PySpark's tests of applyInPandasWithState (the table
of them is in `tests/model/test_flat_map_groups.py`); then at random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.oracle import groups
from tests.oracle.case import Case

NONE, PROCESSING, EVENT = "NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"
DELAY = "5 seconds"
Batches = Sequence[Sequence[tuple[Any, ...]] | None]


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def row(key: str | None, say: str, seconds: float | None = 1.0) -> tuple[Any, ...]:
    return (key, None if seconds is None else at(seconds), say)


STATES: Batches = [
    [row("a", "g,x,u1,g,x"), row("b", "r,x,u2,r,g,x"), row(None, "u3"), row("c", ""), row("a", "g,n,u2")],
    [row("a", "g,r,x,g,u9,g"), row(None, "g,w,p"), row("b", "x"), row("c", "r")],
    [row("a", "d1000,t99999,g"), row("c", "x,u4")],
    [row("a", "r"), row("c", "g,r,u5"), row(None, "r")],
    [row("a", "x"), row("c", "g"), row(None, "x")],
]

IDLE: Batches = [
    [
        row("a:g,x", "u1,d1000"),
        row("b:u5,d500", "u1,d1000,d2000"),
        row("c:x", "d1500"),
        row("d:r", "u1,d0,d-5,t5000"),
        row("e:", "u1,d1000"),
        row("f:d700", "u1,d1000,r"),
        row("h:g", "u1,d2500"),
        row("i:r,d900", "r,d1000"),
        row(None, "u1,d1000,p,w"),
    ],
    [row("d:r", "g"), row("h:g", "g")],
    None,
    [row("c:x", ""), row("a:g,x", "x"), row("i:r,d900", "x")],
    None,
    None,
    [row("h:g", "u2"), row("b:u5,d500", "g")],
    None,
    [],
    None,
]
IDLE_MS = [1000, 2000, 2001, 2501, 3001, 3400, 4000, 4501, 9000, 20000]

LATE: Batches = [
    [row("a:g,x", "u1,t10000,w,p", 5), row("b:", "u1,t10001", 9), row("c:u2,t30000", "t9999", 1), row(None, "t12000")],
    [row("d:r", "u1,t20000,d5", 15), row("e:x", "u4,t4000,t3999,t0,t-1,a9000", 14)],
    [row("late", "u1,t11000", 10), row("late", "u1", 10.0005), row("a:g,x", "g", 11), row("f:w", "t10000,t9999", 16)],
    [row("b:", "", 30), row("g:g", "u1,t40000", None)],
    [row("d:r", "w", 31), row("e:x", "g", 30)],
    [row("b:", "", 60)],
    [row("g:g", "x,u1,t54999,t55000", 61), row("h:r,u1,t70000", "r,t56000,u1", 62)],
    [row("b:", "", 90)],
    [row("b:", "", 120)],
]


def at_random(seed: int, timeout: str) -> tuple[Batches, list[int]]:
    """Programs of few commands for few keys, under clocks that now stand, now jump."""
    chance = random.Random(seed)
    keys = ["a:g,x", "b:u5", "c:r", "d:", "e:u6,d800", "f:d600", "g:r,d900", "h:a30000", "i:u1,t45000", None]
    batches: list[list[tuple[Any, ...]] | None] = []
    times: list[int] = []
    now_ms = 1000
    for number in range(10):
        rows = []
        for _ in range(chance.randrange(1, 9)):
            seconds = number * 5 + chance.choice([-9, -5, -1, 0, 1, 2.0005, 4, 6])
            commands = chance.choices(
                ["g", "x", "u1", "u2", "r", "w", "p", "n", "d300", "d1000", "d2500", f"t{now_ms * 4}", "a20000", "t1"],
                [2, 2, 3, 2, 2, 1, 1, 1, 2, 2, 2, 4, 2, 1],
                k=chance.randrange(4),
            )
            when = None if chance.random() < 0.1 else max(seconds, 0.0)
            rows.append(row(chance.choice(keys), ",".join(commands), when))
        batches.append(None if timeout == PROCESSING and number and chance.random() < 0.3 else rows)
        times.append(now_ms)
        now_ms += chance.choice([1, 300, 900, 1000, 2500])
    return batches, times


def _scala(df: Any, kind: str, mode: str, timeout: str) -> Any:
    from pyspark.sql import DataFrame

    spark = df.sparkSession
    functions = groups.compiled(spark)
    made = functions.map(df._jdf, timeout) if kind == "map" else functions.flatMap(df._jdf, mode, timeout)
    return DataFrame(made, spark)


def _case(
    name: str,
    kind: str,
    mode: str,
    timeout: str,
    batches: Batches,
    times_ms: list[int] | None = None,
    watermark: bool = False,
) -> Case:
    """One program through one of the three operators; `kind`: map, flat-map or pandas. `watermark`: without timeout."""

    def marked(stream: Any) -> Any:
        return stream.withWatermark("ts", DELAY) if watermark or timeout != NONE else stream

    def spark(df: Any) -> Any:
        if kind != "pandas":
            return _scala(marked(df), kind, mode, timeout)
        return marked(df).groupBy("k").applyInPandasWithState(groups.frames, "value string", "n long", mode, timeout)

    def tidemill(stream: Any) -> Any:
        grouped = marked(stream).groupBy("k")
        if kind == "map":
            return grouped.mapGroupsWithState(groups.once, "string", "bigint", timeout)
        if kind == "flat-map":
            return grouped.flatMapGroupsWithState(groups.each, "string", "bigint", mode, timeout)
        return grouped.applyInPandasWithState(groups.frames, "value string", "n long", mode, timeout)

    triggers: Any = "one" if timeout == PROCESSING else "all"
    named = f"groups-{kind}-{name}"
    return Case(named, groups.SCHEMA, batches, spark, tidemill, mode, times_ms=times_ms, triggers=triggers)


OLD: Batches = [
    [row("a:o,g", "o,u1,d1000,t7000,o"), row("b:o,u2,o", "o,d500,t5000,o"), row("c:o", "u1,o")],
    [row("a:o,g", "o,g", 6), row("c:o", "o,u2,d2000,t9000", 7)],
    [row("c:o", "o", 8)],
    [row("z", "o", 14), row("b:o,u2,o", "o", 14)],
    [row("z", "o,d100,t30000", 20), row("c:o", "o,r,o", 20)],
    [row("z", "o", 21)],
]


JSON: Batches = [
    [row("a:j", "j,u1,j,d400,t7000,j,r,j,u2,j"), row("b:j,u3,j", "d500,t5000,j"), row("c", "u1")],
    [row("c", "j,r,j", 12), row("d", "j")],
    [row("c", "j,r,u5,j", 14)],
]


def _cases(kind: str, modes: tuple[str, str, str]) -> list[Case]:
    """The same programs for one operator; `modes`: for each timeout."""
    found = [
        _case("states", kind, modes[0], NONE, STATES),
        _case("idle", kind, modes[1], PROCESSING, IDLE, IDLE_MS),
        _case("late", kind, modes[2], EVENT, LATE),
        _case("late-without-timeout", kind, modes[0], NONE, LATE, watermark=True),
    ]
    for seed, (mode, timeout) in enumerate(zip(modes, (NONE, PROCESSING, EVENT), strict=True)):
        batches, times_ms = at_random(seed, timeout)
        found.append(_case(f"random-{timeout.lower()}", kind, mode, timeout, batches, times_ms))
    return found


SEEDED = [("a", 10), ("b:g,d500", 20), ("c:r", 30), (None, 40)]
FROM_SEED: Batches = [
    [row("a", "g,x"), row("z", "x"), row(None, "g,u41,d1000")],
    None,
    [row("b:g,d500", "g,d1000"), row("c:r", "d1000"), row("a", "r"), row(None, "g")],
    [row("a", "x,u1")],
    None,
    None,
]


SEEDED_LATE = [("a", 10), ("b:g,w,t14000", 20), ("c:r", 30), ("d", 50), (None, 40)]
FROM_SEED_LATE: Batches = [
    [row("a", "g,t7000"), row("z", "x"), row(None, "g,w,u41,t6000", 12)],
    [row("b:g,w,t14000", "g,t9000", 13), row("d", "g,r", 1), row("c:r", "t8000", 9)],
    [row("a", "x,g", 20), row("d", "x", 21)],
    [row("z", "x", 40), row("d", "x,u1", 40)],
]
"""In the second batch "d" is late: its state stays as it was given."""


def _seeded_case(kind: str, timeout: str = PROCESSING) -> Case:
    """Keys that have a state before the first batch."""
    seeds = SEEDED_LATE if timeout == EVENT else SEEDED

    def marked(stream: Any) -> Any:
        return stream.withWatermark("ts", DELAY) if timeout == EVENT else stream

    def spark(df: Any) -> Any:
        from pyspark.sql import DataFrame

        session = df.sparkSession
        states = session.createDataFrame(seeds, "k string, state bigint")
        functions = groups.compiled(session)
        made = functions.mapFrom if kind == "map" else functions.flatMapFrom
        return DataFrame(made(marked(df)._jdf, states._jdf, timeout), session)

    def tidemill(stream: Any) -> Any:
        grouped = marked(stream).groupBy("k")
        if kind == "map":
            return grouped.mapGroupsWithState(groups.once, "string", "bigint", timeout, seeds)
        return grouped.flatMapGroupsWithState(groups.each, "string", "bigint", "update", timeout, seeds)

    if timeout == EVENT:
        name = f"groups-{kind}-initial-late"
        return Case(name, groups.SCHEMA, FROM_SEED_LATE, spark, tidemill, "update", triggers="all")
    times_ms = [1000, 2500, 3000, 4000, 4001, 9000]
    name = f"groups-{kind}-initial"
    return Case(name, groups.SCHEMA, FROM_SEED, spark, tidemill, "update", times_ms=times_ms, triggers="one")


def typed(key: int | None, n: int, *, i: int | None = 7) -> tuple[Any, ...]:
    """A row of every type, with an int that may be null."""
    moment = datetime(2021, 3, 4, 5, 6, 7, 89 + n, tzinfo=UTC)
    plainly = (n % 2 == 0, i, n, 2**40 + n, 0.5, 1.25, f"s{n}", moment.date(), moment, moment.replace(tzinfo=None))
    return (key, *plainly, Decimal(n) / 4, bytes([n]), [1, None, n], {"a": n, "b": None}, {"u": n, "v": None})


def nulls(key: int | None) -> tuple[Any, ...]:
    """A row of nulls, but for its key."""
    return (key, *[None] * 15)


TYPED: Batches = [
    [typed(1, 1), typed(2, 2), typed(2, 2, i=None), nulls(3), typed(None, 4), typed(5, 5), typed(5, 5, i=8)],
    [nulls(1), typed(2, 2), nulls(None), typed(1, 1, i=None)],
    [typed(5, 5)],
]


def _typed_case() -> Case:
    output = "n bigint, said string, x double, t timestamp"

    def query(stream: Any) -> Any:
        return stream.groupBy("k", "s").applyInPandasWithState(groups.described, output, groups.STATE, "update", NONE)

    return Case("groups-pandas-types", groups.TYPES, TYPED, query, query, "update")


CASES = [
    _typed_case(),
    _seeded_case("flat-map"),
    _seeded_case("map"),
    _seeded_case("flat-map", EVENT),
    _seeded_case("map", EVENT),
    *_cases("map", ("update", "update", "update")),
    *_cases("flat-map", ("update", "append", "append")),
    _case("late-update", "flat-map", "update", EVENT, LATE),
    *_cases("pandas", ("append", "update", "append")),
    _case("old-timeout-idle", "pandas", "update", PROCESSING, OLD, [1000, 1200, 1400, 3000, 3500, 4000]),
    _case("old-timeout-late", "pandas", "append", EVENT, OLD),
    _case("json", "pandas", "update", NONE, JSON),
    _case("json-idle", "pandas", "update", PROCESSING, JSON, [1000, 2000, 3000]),
    _case("json-late", "pandas", "append", EVENT, JSON),
]
