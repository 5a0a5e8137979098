"""The recorded outputs are still those of real Spark: a sample of them is computed again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import spark
from tests.oracle.case import Case
from tests.oracle.cases import CASES
from tests.oracle.make import recorded

AGAIN = {
    "chain-duplicates-flat-map": 3,
    "deduplicate-for-ever-boundaries": 2,
    "deduplicate-within-boundaries": 4,
    "distinct-sets-columns": 2,
    "groups-map-initial": 3,
    "groups-pandas-old-timeout-idle": 4,
    "key-time-boundaries-append": 3,
    "nested-sum-by-s": 3,
    "processor-frames-processing-time": 5,
    "processor-initial-state-before-any-row": 2,
    "session-boundaries": 6,
    "track-random-initial": 14,
    "union-windows-append": 3,
    "window-tumbling-update-boundaries": 4,
    "zone-windows-of-a-day": 3,
}
"""Cases, and how many of their micro-batches: of each operator, and of each kind of rule (timeouts, timers, variables
with a time to live, initial states, event times as keys, chains, unions, nested types, another time zone), as few as
show it."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    made = spark.session()
    yield made
    made.stop()


def beginning(case: Case, count: int) -> Case:
    """The first micro-batches of a case."""
    return dataclasses.replace(case, batches=case.batches[:count], times_ms=case.batch_times_ms[:count])


@pytest.mark.servers("record outputs of Structured Streaming again", seconds=120)
@pytest.mark.parametrize("name", AGAIN)
def test_recorded_outputs_equal_those_of_spark(session: Any, name: str) -> None:
    """A part of the program is Java. Without a compiler the tests fail with a message that says what to install."""
    expected = recorded(name)
    expected.batches[AGAIN[name] :] = []
    assert any(expected.batches)
    assert spark.outcome(session, beginning(CASES[name], AGAIN[name])) == expected
