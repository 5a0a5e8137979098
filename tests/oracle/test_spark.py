"""The recorded outputs are still those of real Spark: a part of them is made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import spark
from tests.oracle.cases import CASES
from tests.oracle.make import path

AGAIN = [
    "groups-pandas-states",
    "session-boundaries",
    "deduplicate-within-random-2",
    "window-sliding-append-boundaries",
    "aggregate-sum-few-keys",
    "processor-chained-window",
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    made = spark.session()
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_recorded_outputs_are_what_spark_gives(session: Any, name: str) -> None:
    assert spark.outputs(session, CASES[name]) == json.loads(path(name).read_text())
