"""Chained operators: whose watermark counts, which column is the event time, and which calls are errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

SCHEMA = "k string, ts timestamp, n int"


def at(second: float) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def ms(second: float) -> int:
    return int((at(second) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def refused(made: Callable[[], Any], *words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        made()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def latest(batchTime: int, k: str, row: Any, state: Any) -> tuple[str, datetime, int]:
    """Emits the time of the row, shifted by a minute, so that it is another event time than the source's."""
    state.update(1)
    return k, row.ts + timedelta(minutes=1), row.n


def shifted(stream: tm.Stream) -> tm.Stream:
    return stream.groupBy("k").mapWithState(tm.StateSpec.function(latest), "int", "k string, then timestamp, n int")


@pytest.mark.parametrize("tasks", [1, 3])
def test_each_operator_uses_the_watermark_of_its_own_input(tasks: int) -> None:
    p = tm.Pipeline("p")
    source = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "5 seconds")
    source.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="near")
    behind = shifted(source).withWatermark("then", "20 seconds")
    behind.groupBy(tm.window("then", "10 seconds"), "k").agg(n=tm.sum("n"), outputMode="append", name="far")
    tester = Tester(p, tasks=tasks)

    first = tester.batch([("a", at(0), 1), ("b", at(15), 2), ("a", at(3), 4)])
    assert [(w["start"], n) for w, n in first.outputs["near"]] == [(at(0), 2)]
    assert first.outputs["far"] == []
    tester.restart()
    # 9.999 is late for the windows of the source, and not downstream of the function, where it is 69.999 after 55.
    second = tester.batch([("a", at(9.999), 8), ("b", at(30), 16)])
    assert [(w["start"], n) for w, n in second.outputs["near"]] == [(at(10), 1)]
    assert sorted((w["start"], k, n) for w, k, n in second.outputs["far"]) == [(at(60), "a", 13)]
    head = tester.repository.head
    assert head is not None
    assert head.watermarks == {"source.ts": ms(25), "map-with-state.then": ms(70)}
    tester.restart()
    # At the watermark of the last commit a row is late downstream of the function.
    third = tester.batch([("a", at(0), 32), ("c", at(50), 1)])
    assert sorted((w["start"], k, n) for w, k, n in third.outputs["far"]) == [(at(70), "b", 2)]
    far = [one for one in third.metrics.stateOperators if one["operatorName"] == "far"]
    assert far[0]["numRowsDroppedByWatermark"] == 1


def test_a_watermark_that_no_operator_uses_changes_nothing(tmp_path: Path) -> None:
    p = tm.Pipeline("p")
    shifted(p.read(tm.Rows(SCHEMA))).withWatermark("then", "1 second").write(tm.Json(str(tmp_path)), name="out")
    tester = Tester(p)
    assert [row[0] for row in tester.batch([("a", at(0), 1)]).outputs] == ["a"]
    assert tester.repository.head is not None and tester.repository.head.watermarks == {}


def test_a_second_watermark_on_a_stream_is_refused() -> None:
    stream = tm.Pipeline("p").read(tm.Rows(SCHEMA)).withWatermark("ts", "5 seconds")
    hourly = stream.groupBy(tm.window("ts", "1 hour")).agg(n=tm.count(), last=tm.max("ts"), outputMode="append")
    refused(lambda: hourly.withWatermark("last", "1 hour"), "operator `agg`", "`window`", "cannot have a second one")
    once = stream.dropDuplicates(["k"])
    refused(lambda: once.withWatermark("ts", "5 seconds", late="keep"), "operator `drop-duplicates`", "`ts`")
    assert once.withWatermark("ts", "1 hour")._node.event_time.watermark == "drop-duplicates.ts"
    taken = hourly.sql('SELECT "window"."end" AS done, n FROM rows').withWatermark("done", "0 seconds")
    refused(lambda: taken.withWatermark("done", "1 hour"), "already has a watermark on `done`")
    p = tm.Pipeline("q")
    behind = shifted(p.read(tm.Rows(SCHEMA)))
    behind.withWatermark("then", "1 hour")
    refused(
        lambda: behind.withWatermark("then", "1 hour", late="keep"),
        "operator `map-with-state`",
        "use the stream that has the watermark twice",
    )


def test_only_aggregates_can_be_grouped_by_windows() -> None:
    stream = tm.Pipeline("p").read(tm.Rows(SCHEMA)).withWatermark("ts", "5 seconds")
    hourly = stream.groupBy(tm.window("ts", "1 hour"), "k").agg(n=tm.count(), outputMode="append")
    refused(lambda: hourly.dropDuplicates(["window"]), "cannot be grouped by windows", ".agg")
    refused(lambda: hourly.groupBy("window", tm.window("window", "1 day")), "2 windows")
    refused(
        lambda: hourly.groupBy("window").agg(window=tm.count(), outputMode="append", name="x"),
        "two columns named `window`",
    )


def test_windows_of_windows_in_update_mode_follow_every_change() -> None:
    p = tm.Pipeline("p")
    by_key = p.read(tm.Rows(SCHEMA)).groupBy(tm.window("ts", "10 seconds"), "k").agg(n=tm.count(), name="by-key")
    by_key.groupBy("window").agg(times=tm.count(), name="by-window")
    tester = Tester(p)
    tester.batch([("a", at(1), 0), ("b", at(2), 0)])
    assert [(w["end"], n) for w, n in tester.batch([("a", at(3), 0)]).outputs] == [(at(10), 3)]


def test_late_rows_do_not_pass_deduplication() -> None:
    """Spark lets them pass if no downstream operator reads the event time: `deduplicate-late-time-not-read-behind`."""
    p = tm.Pipeline("p")
    first = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "5 seconds").dropDuplicates(["k"])
    first.groupBy("n").agg(c=tm.count(), name="counts")
    t = Tester(p)
    assert t.batch([("a", at(100), 1)]).outputs == [(1, 1)]
    assert t.batch([("b", at(1), 1), ("a", at(1), 1), ("c", None, 1)]).outputs == [(1, 2)]
