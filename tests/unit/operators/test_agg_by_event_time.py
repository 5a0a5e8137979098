"""`agg` where the event time is a key column: what is late, forgotten, emitted, refused and recorded."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

SCHEMA = "k string, ts timestamp, day date"


def at(second: float) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def by_time(late: str = "drop", mode: str | None = None, delay: str = "5 seconds", column: str = "ts") -> tm.Pipeline:
    p = tm.Pipeline("p")
    stream = p.read(tm.Rows(SCHEMA)).withWatermark(column, delay, late=late)
    stream.groupBy("k", column).agg(n=tm.count(), outputMode=mode, name="counted")
    return p


def rows(*seconds: float | None) -> list[tuple[Any, ...]]:
    return [("a", None if second is None else at(second), None) for second in seconds]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_key_that_the_watermark_has_reached_is_forgotten_and_its_rows_are_late(tasks: int) -> None:
    tester = Tester(by_time("quarantine"), tasks=tasks)
    first = tester.batch(rows(1, 2, 2, None, 7))
    assert set(first.state) == {("a", at(7)), ("a", None)}
    second = tester.batch(rows(2, 2, 2.000001, None))
    assert set(second.outputs) == {("a", at(2.000001), 1), ("a", None, 2)}
    assert (second.metrics.applied_rows, second.metrics.late_rows, second.metrics.quarantined_rows) == (2, 2, 0)
    assert tester.repository.quarantine().num_rows == 2
    (state,) = second.metrics.stateOperators
    assert (state["numRowsTotal"], state["numRowsDroppedByWatermark"]) == (3, 2)


def test_a_date_may_be_the_event_time() -> None:
    tester = Tester(by_time(mode="append", delay="1 day", column="day"))
    days = [("a", None, date(2020, 1, day)) for day in (1, 2, 2, 3)]
    assert sorted(tester.batch(days).outputs) == [("a", date(2020, 1, 1), 1), ("a", date(2020, 1, 2), 2)]
    late = tester.batch([("a", None, date(2020, 1, 2)), ("a", None, date(2020, 1, 4))])
    assert (late.outputs, late.metrics.late_rows) == ([("a", date(2020, 1, 3), 1)], 1)


def test_late_rows_and_rows_without_a_time_for_windows_are_each_counted_once() -> None:
    p = tm.Pipeline("p")
    stream = p.read(tm.Rows("ts timestamp, other timestamp")).withWatermark("ts", "0 seconds")
    stream.groupBy("ts", tm.window("other", "10 seconds")).agg(n=tm.count(), outputMode="append")
    tester = Tester(p)
    tester.batch([(at(10), at(0))])
    result = tester.batch([(at(9), at(0)), (at(11), None), (at(12), at(1)), (at(10), None), (at(20), at(2))])
    assert sorted((ts, w["start"], n) for ts, w, n in result.outputs) == [(at(12), at(0), 1), (at(20), at(0), 1)]
    assert (result.metrics.applied_rows, result.metrics.late_rows) == (2, 3)


def test_keeping_late_rows_and_append_without_a_window_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match="keys with the event time `ts` cannot keep late rows, because the keys of late rows have"
    ):
        by_time("keep")
    p = tm.Pipeline("p")
    grouped = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "5 seconds").groupBy("k")
    with pytest.raises(InvalidInput, match="'append' is not allowed without a window") as caught:
        grouped.agg(n=tm.count(), outputMode="append")
    assert "or by that column" in str(caught.value)
