"""Session windows: boundaries by hand, late rows that bridge two sessions, then seeded random streams."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import tidemill as tm
from tests.oracle.case import ORIGIN, Case

SCHEMA = "k string, ts timestamp, n int, x double"
GAP, DELAY = "10 seconds", "20 seconds"


def at(seconds: float) -> Any:
    return ORIGIN + timedelta(seconds=seconds)


BOUNDARIES = [
    # Distance == gap: one session; a microsecond more: two. No time: none. A null is a key.
    [
        ("a", at(0), 1, 0.5),
        ("a", at(10), 2, 1.0),
        ("a", at(20.000001), 3, 1.0),
        ("b", at(0), 4, None),
        ("b", None, 5, 1.0),
    ],
    # Bridges the two of `a`, starts one of `b` before its first, touches none of null's.
    [("a", at(15), 6, 0.25), ("b", at(-10), 7, 2.0), (None, at(5), 8, 1.0), (None, at(15.0000005), 9, 1.0)],
    # The watermark comes to 10: the session of `b` ended there and leaves.
    [("c", at(30), 10, 1.0)],
    # At the watermark: [0, 10) is late, though the session of `a` is open and it would touch it; [0.001, …) is not.
    [("a", at(0), 11, 1.0), ("a", at(0.001), 12, 1.0), ("b", at(0.5), 13, 1.0), ("d", at(-0.000001), 14, 1.0)],
    [],
    [("c", at(55), 15, 1.0), ("a", at(31), 16, float("nan"))],
    # Ends on a part of a millisecond.
    [("e", at(60.0005), 17, 1.0), ("c", at(65), 18, 1.0)],
    [("z", at(90), 19, 1.0)],
    [("z", at(90.001), 20, 1.0), ("e", at(70.0004), 21, 1.0)],
    [("z", at(300), 22, 1.0)],
]


def at_random(seed: int, keys: list[Any]) -> list[list[tuple[Any, ...]]]:
    """Return twelve batches of a minute each, with late rows and with times about a gap apart, also across batches."""
    chance = random.Random(seed)
    steps = [-110, -50, -30, -20.001, -20, -10.001, -10, -5, 0, 4.999999, 7, 14.999999, 20, 27, 32, 42, 48, 59]

    def row(number: int) -> tuple[Any, ...]:
        time = at(number * 60 + chance.choice(steps) + chance.choice([0, 0, 1.5]))
        x = chance.choice([0.5, -1.25, 3.0, None])
        return (chance.choice(keys), None if chance.random() < 0.08 else time, chance.randrange(9), x)

    return [[row(number) for _ in range(chance.randrange(2, 14))] for number in range(12)]


def case(name: str, batches: list[list[tuple[Any, ...]]], *, first: bool = False) -> Case:
    def spark(df: Any) -> Any:
        from pyspark.sql import functions

        sessions = functions.session_window("ts", GAP)
        grouped = df.withWatermark("ts", DELAY).groupBy(*([sessions, "k"] if first else ["k", sessions]))
        return grouped.agg(
            functions.count("*").alias("rows"),
            functions.sum("n").alias("total"),
            functions.mean("x").alias("middle"),
            functions.max("x").alias("most"),
        )

    def tidemill(stream: tm.Stream) -> tm.Stream:
        sessions = tm.session_window("ts", GAP)
        grouped = stream.withWatermark("ts", DELAY).groupBy(*([sessions, "k"] if first else ["k", sessions]))
        made = {"rows": tm.count(), "total": tm.sum("n"), "middle": tm.mean("x"), "most": tm.max("x")}
        return grouped.agg(outputMode="append", **made)

    return Case(f"session-{name}", SCHEMA, batches, spark, tidemill)


CASES = [
    case("boundaries", BOUNDARIES),
    case("boundaries-first", BOUNDARIES, first=True),
    case("random-1", at_random(1, ["a", "b", None])),
    case("random-2", at_random(2, ["a"])),
]
