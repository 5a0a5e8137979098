"""Event times far ahead of the batch time do not move the watermark. They are quarantined, as a plain loop says."""

from __future__ import annotations

import json
import logging
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import examples
from tests.world import World, run
from tidemill.testing import Tester

START = datetime(2024, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
MINUTE = 60_000


def pipeline(late: str = "quarantine", ahead: str | None = "10 minutes") -> tm.Pipeline:
    p = tm.Pipeline("ahead")
    rows = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 minute", late=late, maxAhead=ahead)
    rows.groupBy("k").flatMapGroupsWithState(
        lambda key, rows, state: [(key, row.ts) for row in rows], "k string, ts timestamp", "int", "append",
        "EventTimeTimeout", name="seen",
    )  # fmt: skip
    return p


batches = st.lists(st.lists(st.none() | st.integers(-30, 40), max_size=8), min_size=1, max_size=5)


@given(batches, st.sampled_from(["drop", "quarantine", "keep"]), st.integers(1, 3))
@settings(max_examples=examples(40), deadline=None)
def test_rows_far_ahead_are_those_of_a_plain_loop(given: list[list[int | None]], late: str, tasks: int) -> None:
    tester = Tester(pipeline(late), tasks=tasks)
    watermark, expected_quarantine = 0, 0
    for number, minutes in enumerate(given):
        now_ms = START_MS + number * 5 * MINUTE
        rows = [(f"k{i % 3}", None if m is None else START + timedelta(minutes=m)) for i, m in enumerate(minutes)]
        result = tester.batch(rows, batch_time_ms=now_ms)
        times = [None if m is None else START_MS + m * MINUTE for m in minutes]
        ahead = [t for t in times if t is not None and t > now_ms + 10 * MINUTE]
        kept = [t for t in times if t is None or t <= now_ms + 10 * MINUTE]
        on_time = [t for t in kept if late == "keep" or t is None or t > watermark]
        greatest = max((t for t in kept if t is not None), default=None)
        assert sorted(map(str, (cells[1] for cells in result.outputs))) == sorted(
            str(None if t is None else datetime.fromtimestamp(t / 1000, UTC)) for t in on_time
        )
        assert result.metrics is not None
        counted = result.metrics
        assert (counted.quarantined_rows, counted.late_rows) == (
            len(ahead), sum(1 for t in kept if t is not None and t <= watermark),
        ) or late == "keep"  # fmt: skip
        assert counted.applied_rows + counted.late_rows + counted.quarantined_rows == len(minutes)
        if greatest is not None:
            watermark = max(watermark, greatest - MINUTE)
        expected_quarantine += len(ahead)
    found = tester.repository.quarantine().to_pylist()
    assert (
        sum(row["reason"].startswith("ahead: more than 10 minutes (maxAhead)") for row in found) == expected_quarantine
    )


def one_row_ahead(folder: Path, ahead: timedelta | None) -> tm.Repository:
    """A repository that waits for a file with a row of the batch time and one of the next century."""

    def counts(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "days").withWatermark("ts", "1 minute", maxAhead=ahead)
        rows.groupBy("k", tm.window("ts", "1 hour")).agg(n=tm.count(), name="n")
        rows.groupBy("k").agg(n=tm.count(), name="plain")

    root = f"memory://{uuid.uuid4().hex}"
    world = World(folder, counts, root=root, format="json", schema="k string, ts timestamp")
    world.put("day", [{"k": "a", "ts": "2024-01-01T00:00:00"}, {"k": "b", "ts": "2101-01-01T00:00:00"}])
    return world.open()


def test_a_row_far_ahead_is_in_quarantine_with_its_place(tmp_path: Path) -> None:
    r = one_row_ahead(tmp_path, timedelta(days=2))
    run(r, batch_time=START_MS)
    [row] = r.quarantine().to_pylist()
    assert (row["source"], row["file"], row["line"], row["row"], row["column"]) == ("days", "day.json", None, 2, "ts")
    assert "after the batch time 2024-01-01T00:00:00" in row["reason"] and "`days.ts`" in row["reason"]
    assert json.loads(row["text"])["k"] == "b"
    assert (r.head.counts.quarantined_rows, r.head.counts.applied_rows) == (1, 1)
    assert r.state("plain").column("k").to_pylist() == ["a"]
    assert r.head.watermarks == {"days.ts": START_MS - MINUTE}
    assert r.head.furthest == {}


def test_without_a_limit_the_row_that_moved_the_watermark_is_named_loudly(tmp_path: Path, caplog) -> None:
    r = one_row_ahead(tmp_path, None)
    with caplog.at_level(logging.WARNING):
        run(r, batch_time=START_MS, max_batches=1)
    [warning] = [record.message for record in caplog.records if "moved the watermark" in record.message]
    assert "file `day.json`, row 2, has the event time 2101-01-01T00:00:00" in warning
    assert "`days.ts` to 2100-12-31T23:59:00" in warning and "tidemill reset --watermark" in warning
    assert (r.head.furthest["days.ts"].file, r.head.furthest["days.ts"].row) == ("day.json", 2)


def test_outputs_of_an_operator_are_held_to_their_own_limit() -> None:
    p = tm.Pipeline("ahead")
    times = lambda key, rows, state: [(key, row.ts) for row in rows]  # noqa: E731
    grouped = p.read(tm.Rows("k string, ts timestamp")).groupBy("k")
    first = grouped.flatMapGroupsWithState(times, "k string, at timestamp", "int", "append", name="first")
    second = first.withWatermark("at", "1 minute", maxAhead="1 hour")
    second.groupBy("k", tm.window("at", "1 hour")).agg(n=tm.count(), name="second", outputMode="update")
    tester = Tester(p)
    result = tester.batch([("a", START), ("b", START + timedelta(days=9))], batch_time_ms=START_MS)
    assert [cells[0] for cells in result.outputs] == ["a"]
    assert result.metrics is not None and result.metrics.quarantined_rows == 0, "only input rows are counted"
    [row] = tester.repository.quarantine().to_pylist()
    assert (row["source"], row["file"]) == (None, None)


@pytest.mark.parametrize("ahead", ["soon", "-1 day", "1 month"])
def test_an_invalid_limit_is_refused(ahead: str) -> None:
    with pytest.raises(tm.InvalidInput, match="invalid duration"):
        pipeline(ahead=ahead)


def test_two_limits_on_one_event_time_are_refused() -> None:
    rows = tm.Pipeline("ahead").read(tm.Rows("k string, ts timestamp"))
    rows.withWatermark("ts", "1 minute", maxAhead="1 day")
    with pytest.raises(tm.InvalidInput, match="`maxAhead`"):
        rows.withWatermark("ts", "1 minute", maxAhead="2 days")


def test_a_late_row_says_by_which_watermark_and_which_row_it_was() -> None:
    tester = Tester(pipeline())
    tester.batch([("a", START + timedelta(minutes=5))], batch_time_ms=START_MS)
    tester.batch([("a", START + timedelta(minutes=9)), ("b", START)], batch_time_ms=START_MS)
    [row] = tester.repository.quarantine().to_pylist()
    assert row["reason"] == (
        "late for operator `seen`: at or before the watermark `source.ts`, 2024-01-01T00:04:00.000Z"
    )
    assert (row["line"], row["row"]) == (None, 2)
