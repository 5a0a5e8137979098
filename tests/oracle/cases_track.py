"""`mapWithState` compared with Spark Streaming: the results and errors of `State` in every phase, and its timeouts.

Rows emitted by a key are compared in their order, and the states after every micro-batch (`stateSnapshots`) too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import tidemill as tm
from tests.oracle import track
from tests.oracle.case import Case

BOUNDARIES: list[list[tuple[Any, ...]]] = [
    [
        *(("a", "x,o,g,u1,g,s"), ("b", "r,x,g,u2"), ("c", ""), (None, "u7"), ("a", "u2,u3,o"), ("d", "u4,e")),
        *(("a", "g"), ("h:g,u1,r,t,x,o", "u5")),
    ],
    [("a", "r,o,r,u1,g,s"), ("a", "x,u9"), ("c", "r"), ("c", "g,e"), (None, "g,t"), ("i:e", "u1")],
    [("b", "u3,r")],
    [("b", "x,u8"), ("d", "")],
    [],
    [("a", "o"), ("i:e", "o")],
    [],
    [],
    [("h:g,u1,r,t,x,o", "x"), (None, "x,u3")],
    [("a", "r")],
    [],
    [],
    [],
]
INITIAL = [("a", 100), (None, 50), ("never seen", 3), ("c:g,u1", 9)]


def at_random(seed: int) -> list[list[tuple[Any, ...]]]:
    """Generate fourteen batches, some without rows, of few commands for few keys."""
    chance = random.Random(seed)
    keys = ["a", "b", "c:g,u1", "d:r,x", "e:e", "f:s,t,g", None]
    verbs, weights = ["x", "o", "g", "s", "t", "r", "u1", "u2", "u33", "e"], [1, 2, 1, 1, 1, 2, 2, 2, 2, 1]

    def row() -> tuple[Any, ...]:
        return (chance.choice(keys), ",".join(chance.choices(verbs, weights, k=chance.randrange(6))))

    return [[row() for _ in range(chance.choice([0, 0, 1, 3, 8]))] for _ in range(14)]


def case(
    name: str,
    batches: list[list[tuple[Any, ...]]],
    form: str = "advanced",
    timeout_ms: int = 0,
    partitions: int = 1,
    initial: Sequence[tuple[Any, int]] = (),
) -> Case:
    """Return a case. `timeout_ms` 0 means no timeout. `form` is the form of the function."""

    def spark(session: Any) -> track.Found:
        return track.run(session, batches, form, timeout_ms, partitions, initial)

    def tidemill(stream: tm.Stream) -> tm.Stream:
        spec = tm.StateSpec.function(track.advanced if form == "advanced" else track.simple)
        spec = spec.timeout(timeout_ms) if timeout_ms else spec
        spec = spec.initialState(list(initial)) if initial else spec
        return stream.groupBy("k").mapWithState(spec, stateSchema="bigint", outputSchema=track.OUTPUT)

    times_ms = range(1000, 1000 * len(batches) + 1, 1000)
    return Case(f"track-{name}", track.SCHEMA, batches, spark, tidemill, times_ms=times_ms, streaming="dstream")


CASES = [
    case("boundaries", BOUNDARIES, timeout_ms=2000),
    case("boundaries-simple-initial", BOUNDARIES, "simple", 2500, initial=INITIAL),
    case("random-without-timeout", at_random(1), "simple", partitions=3, initial=INITIAL),
    case("random-initial", at_random(2), timeout_ms=3000, partitions=2, initial=INITIAL),
]
