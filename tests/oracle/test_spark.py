"""The recorded outputs are still those of real Spark: a part of them is made again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import spark
from tests.oracle.cases import CASES
from tests.oracle.make import recorded

AGAIN = [
    "groups-pandas-states",
    "session-boundaries",
    "deduplicate-within-random-2",
    "window-sliding-append-boundaries",
    "aggregate-sum-few-keys",
    "processor-chained-window",
    "processor-initial-state",
    "groups-flat-map-initial",
    "union-windows-append",
    "chain-duplicates-window",
    "track-random-initial",
    "zone-sql-back",
]
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
    if name.startswith(COMPILED) and shutil.which("javac") is None:
        pytest.skip(f"{name} is compiled with `javac`, which is not on the path: install a JDK")
    assert spark.outcome(session, CASES[name]) == recorded(name)
