"""Which columns are windows: those that an operator has emitted, wherever they go, and no struct of a user's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

SCHEMA = "k string, ts timestamp, day date"


def at(second: float) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def test_a_struct_of_start_and_end_from_a_source_is_not_a_window() -> None:
    """No row is late, and null is a key. In Spark, too, only an operator makes windows."""
    p = tm.Pipeline("p")
    spans = p.read(tm.Rows("span struct<start: timestamp, end: timestamp>, ts timestamp")).withWatermark("ts", "0 s")
    spans.groupBy("span").agg(n=tm.count(), name="counted")
    hour = {"start": at(0), "end": at(3600)}
    batch = Tester(p).batch([(hour, at(9)), (None, at(9)), ({"start": None, "end": None}, at(9)), (hour, at(9))])
    assert (batch.metrics.late_rows, batch.metrics.applied_rows) == (0, 4)
    assert sorted(count for _, count in batch.outputs) == [1, 1, 2]


def in_windows() -> tm.Stream:
    p = tm.Pipeline("p")
    stream = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "0 seconds")
    by_window = stream.groupBy("k", tm.window("ts", "10 seconds"))
    return by_window.agg(n=tm.count(), kept=tm.first("day"), outputMode="append", name="ten")


def test_a_struct_that_a_function_returns_is_not_a_window() -> None:
    """No row is late, and null is a key. Spark recognises windows by the metadata of their column."""
    span = {"start": at(0), "end": at(5)}

    def spans(key: Any, rows: Any, state: Any) -> Any:
        yield from [(span,), (span,), (None,)]

    p = tm.Pipeline("p")
    stream = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "0 seconds")
    schema = "span struct<start: timestamp, end: timestamp>"
    made = stream.groupBy("k").flatMapGroupsWithState(spans, schema, "bigint", name="spans")
    made.groupBy("span").agg(n=tm.count(), name="by-span")
    with pytest.raises(InvalidInput, match="tm.window: column `span` is struct<.*expected a timestamp, or windows as"):
        made.groupBy(tm.window("span", "1 hour"))
    tester = Tester(p)
    tester.batch([("a", at(100), None)])
    result = tester.batch([("a", at(101), None)])
    assert result.metrics.late_rows == 0
    assert sorted(n for _, n in result.outputs) == [2, 4]


@pytest.mark.parametrize(
    ("text", "windows", "others"),
    [
        ('SELECT "window" AS w, n FROM rows', ["w"], ["n"]),
        ('SELECT "window" AS v, "window" AS w, kept FROM rows', ["v", "w"], ["kept"]),
        ("SELECT * FROM rows WHERE n > 0", ["window"], ["k"]),
        ("SELECT {'start': \"window\".start, 'end': \"window\".end} AS w FROM rows", [], ["w"]),
        ('SELECT * REPLACE ({\'start\': "window".start, \'end\': "window".end} AS "window") FROM rows', [], ["window"]),
    ],
)
def test_windows_stay_windows_under_any_name_and_not_when_computed_again(
    text: str, windows: list[str], others: list[str]
) -> None:
    stream = in_windows().sql(text)
    for name in windows:
        hours = stream.groupBy(tm.window(name, "1 hour")).agg(n=tm.count(), name=f"hours-{name}")
        assert hours.schema.names == ["window", "n"]
        assert stream.groupBy(name).agg(n=tm.count(), name=f"same-{name}").schema.names[0] == name
    for name in others:
        with pytest.raises(InvalidInput, match=f"tm.window: column `{name}` is .*, expected a timestamp"):
            stream.groupBy(tm.window(name, "1 hour"))


def test_windows_pass_deduplication_and_the_first_of_them_is_a_struct() -> None:
    once = in_windows().select("window", "k").dropDuplicates(["k"])
    hours = once.groupBy(tm.window("window", "1 hour")).agg(first=tm.first("window"), n=tm.count(), name="hours")
    assert hours.schema.names == ["window", "first", "n"]
    with pytest.raises(InvalidInput, match="column `first` is struct"):
        hours.groupBy(tm.window("first", "1 day"))
