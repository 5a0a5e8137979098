"""The recorded outputs are still those of real Spark: a part of them is made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle import spark
from tests.oracle.case import schema
from tests.oracle.cases import CASES
from tests.oracle.make import path

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
]
COMPILED = ("groups-map-", "groups-flat-map-")
"""Cases whose functions for Spark are written in Java."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    made = spark.session()
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_recorded_outputs_are_what_spark_gives(session: Any, name: str) -> None:
    _needs_compiler(name)
    assert spark.outputs(session, CASES[name]) == json.loads(path(name).read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_columns_have_sparks_names_and_types(session: Any, name: str) -> None:
    from pyspark.sql.types import StructType

    _needs_compiler(name)
    assert _columns(StructType.fromDDL(schema(CASES[name]))) == _columns(spark.schema(session, CASES[name]))


def _columns(found: Any) -> list[tuple[str, str]]:
    """Nullability left out."""
    return [(field.name, field.dataType.simpleString()) for field in found]


def _needs_compiler(name: str) -> None:
    if name.startswith(COMPILED) and shutil.which("javac") is None:
        pytest.skip(f"{name} is compiled with `javac`, which is not on the path: install a JDK")
