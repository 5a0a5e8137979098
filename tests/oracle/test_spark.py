"""The recorded outputs are still those of real Spark: a part of them is made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import groups, spark
from tests.oracle.cases import CASES
from tests.oracle.make import recorded

AGAIN = [
    "groups-pandas-old-timeout-idle",
    "session-boundaries",
    "deduplicate-within-boundaries",
    "window-sliding-append-boundaries",
    "aggregate-sum-few-keys",
    "chain-window-processor",
    "processor-frames-two-keys-initial-state",
    "groups-flat-map-initial",
    "union-windows-append",
    "track-random-initial",
]
"""One of each operator in the cheapest case that has its rules: timeouts, timers, initial states, chains, unions."""
COMPILED = ("groups-map-", "groups-flat-map-", "track-")
"""Cases whose functions for Spark are written in Java."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    made = spark.session()
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_recorded_outputs_are_what_spark_gives(session: Any, name: str) -> None:
    if name.startswith(COMPILED) and groups.compiler() is None:
        pytest.skip(f"NOT COMPARED WITH SPARK: {name}: {groups.NO_COMPILER}")
    assert spark.outcome(session, CASES[name]) == recorded(name)
