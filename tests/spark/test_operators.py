"""Every kind of operator in Spark's Python workers gives what Structured Streaming gave, batch by batch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.model.every_operator import make_files
from tests.model.failing_once import Calls, fails_once_and_continues
from tests.oracle.case import difference, ours
from tests.oracle.cases import CASES
from tests.oracle.cases_processor import INITIAL, OUTPUT, Seeded
from tests.oracle.make import recorded

pytestmark = pytest.mark.servers("start Spark")

ONE_OF_EACH = [
    "deduplicate-within-boundaries",
    "window-sliding-append-boundaries",
    "session-boundaries",
    "distinct-sets-columns",
    "chain-duplicates-window",
    "union-windows-append",
    "groups-flat-map-states",
    "groups-map-idle",
    "groups-pandas-states",
    "processor-event-time-1",
    "processor-frames-event-time",
    "processor-initial-state",
]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_operators_give_the_expected_results_on_spark(spark_session: Any, name: str) -> None:
    expected = recorded(name)
    found = ours(CASES[name], tasks=2, engine="spark", spark=spark_session)
    assert found.columns == expected.columns
    assert len(found.batches) == len(expected.batches)
    for number, (spark, tidemill) in enumerate(zip(expected.batches, found.batches, strict=True)):
        assert tidemill == spark, f"micro-batch {number}\n{difference(spark, tidemill)}"


@pytest.mark.parametrize(("name", "calls"), [("mapWithState", "rows"), ("transformWithStateInPandas", "timeout")])
def test_a_function_that_fails_once_leaves_nothing(spark_session: Any, tmp_path: Path, name: str, calls: Calls) -> None:
    make_files(tmp_path / "in", files=4, rows=40)
    fails_once_and_continues(name, calls, tmp_path, {"spark": spark_session, "tasks": 2})


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_the_initial_state_of_a_processor_may_be_sparks_grouped_data(request: Any, kind: str) -> None:
    session = request.getfixturevalue("spark_session" if kind == "classic" else "connect_session")
    initial = session.createDataFrame(INITIAL, "k string, n int").groupBy("k")

    def query(stream: Any) -> Any:
        return stream.groupBy("k").transformWithState(
            Seeded(timers=True), OUTPUT, "Update", "ProcessingTime", initialState=initial
        )

    name = "processor-initial-state"
    assert ours(dataclasses.replace(CASES[name], tidemill=query)) == recorded(name)
