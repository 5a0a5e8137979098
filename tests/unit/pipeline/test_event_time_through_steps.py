"""Where the event time goes through stateless steps: along with its column, under any name, and no further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

COLUMNS = "k string, ts timestamp, b timestamp, s struct<ts: timestamp>"


def stream(delay: str = "1 hour") -> tm.Stream:
    return tm.Pipeline("steps").read(tm.Rows(COLUMNS)).withWatermark("ts", delay)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT * FROM rows", "ts"),
        ("SELECT k, ts FROM rows WHERE k <> 'x'", "ts"),
        ("SELECT TS FROM rows", "ts"),
        ("SELECT r.ts FROM rows AS r", "ts"),
        ("SELECT rows.* FROM rows", "ts"),
        ("SELECT k, ts AS at FROM rows", "at"),
        ("SELECT ts AS at, ts FROM rows", "ts"),
        ("SELECT ts AS at, ts AS later FROM rows", "at"),
        ("SELECT * EXCLUDE (ts), ts AS b2 FROM rows", "b2"),
        ("SELECT * REPLACE (upper(k) AS k) FROM rows", "ts"),
        ("SELECT * RENAME (ts AS seen) FROM rows", "seen"),
        ("SELECT COLUMNS('t.*') FROM rows", "ts"),
        ("SELECT COLUMNS(['ts', 'k']) FROM rows", "ts"),
        ("SELECT * LIKE 't%' FROM rows", "ts"),
        ("SELECT k, date_trunc('day', ts) AS ts FROM rows", None),
        ("SELECT k, ts - INTERVAL 1 HOUR AS ts FROM rows", None),
        ("SELECT k, b AS ts FROM rows", None),
        ("SELECT s.ts FROM rows", None),
        ("SELECT k, coalesce(ts, b) AS at FROM rows", None),
        ("SELECT * REPLACE (ts + INTERVAL 1 DAY AS ts) FROM rows", None),
        ("SELECT * EXCLUDE (ts), b AS ts FROM rows", None),
        ("SELECT * EXCLUDE ts FROM rows", None),
        ("SELECT COLUMNS('k'), b AS ts FROM rows", None),
        ("SELECT COLUMNS(['k', 'b']), date_trunc('day', ts) AS ts FROM rows", None),
        ("SELECT COLUMNS('x|k'), s.ts FROM rows", None),
        ("SELECT * LIKE 'k%', s.ts FROM rows", None),
        ("SELECT COLUMNS('k'), unnest(s) FROM rows", None),
        ("SELECT k FROM rows", None),
    ],
)
def test_the_event_time_follows_its_column_and_ends_with_it(text: str, name: str | None) -> None:
    made = stream().sql(text)._node.event_time
    assert (None if made is None else made.column) == name


def test_select_and_drop_keep_it_and_a_function_keeps_its_name() -> None:
    assert stream().select("ts", "k")._node.event_time.column == "ts"
    assert stream().drop("ts")._node.event_time is None
    assert stream().map_batches(lambda rows: rows, "ts timestamp")._node.event_time.column == "ts"
    assert stream().map_batches(lambda rows: rows, "at timestamp")._node.event_time is None


def test_late_rows_are_those_of_the_renamed_column() -> None:
    p = tm.Pipeline("renamed")
    rows = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 minute")
    rows.sql("SELECT k, ts AS at FROM rows").dropDuplicates(["k", "at"])
    tester = Tester(p)
    tester.batch([("a", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T01:00:00Z")])
    after = tester.batch([("b", "2026-01-01T00:10:00Z"), ("b", "2026-01-01T01:10:00Z")])
    assert [at.minute for _, at in after.outputs] == [10]
    assert after.metrics.late_rows == 1


def test_rows_under_a_computed_time_are_never_late() -> None:
    p = tm.Pipeline("computed")
    rows = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 hour")
    rows.sql("SELECT k, date_trunc('day', ts) AS ts FROM rows").groupBy("ts").agg(n=tm.count())
    tester = Tester(p)
    seen = [
        (batch.outputs[0][1], batch.metrics.late_rows)
        for hour in (10, 11, 36, 37)
        if (batch := tester.batch([("a", f"2026-01-0{1 + hour // 24}T{hour % 24:02}:00:00Z")]))
    ]
    assert seen == [(1, 0), (2, 0), (1, 0), (2, 0)]


def test_operators_report_that_the_event_time_ended_and_a_new_one_can_be_set() -> None:
    days = stream().sql("SELECT k, date_trunc('day', ts) AS day FROM rows")
    with pytest.raises(InvalidInput, match="outputMode 'append' is not allowed without a window"):
        days.groupBy("day").agg(n=tm.count(), outputMode="append")
    with pytest.raises(InvalidInput, match="watermark"):
        days.dropDuplicatesWithinWatermark(["k"])
    days.withWatermark("day", "1 day").groupBy("day").agg(n=tm.count(), outputMode="append")


def test_the_event_time_keeps_its_names_after_deduplication_and_in_unions() -> None:
    p = tm.Pipeline("names")
    twice = "SELECT k, ts, ts AS also FROM rows"
    one, other = (
        p.read(tm.Rows("k string, ts timestamp"), name=name).withWatermark("ts", "1 second").sql(twice)
        for name in ("one", "other")
    )
    both = one.unionByName(other).dropDuplicates(["k", "ts"])
    for column in ("also", "ts"):
        both.groupBy(tm.window(column, "10 seconds")).agg(n=tm.count(), name=column, outputMode="append")
    changed = one.sql("SELECT k, ts, also + INTERVAL 1 HOUR AS also FROM rows")
    with pytest.raises(tm.InvalidInput, match="watermark"):
        changed.groupBy(tm.window("also", "10 seconds")).agg(n=tm.count(), name="changed", outputMode="append")
    gone = one.select("k", "also").groupBy(tm.window("also", "10 seconds"))
    assert "window" in gone.agg(n=tm.count(), name="gone", outputMode="append").schema.names


def test_a_function_over_batches_keeps_the_first_name_alone_and_its_type() -> None:
    twice = stream().sql("SELECT k, ts, ts AS also FROM rows")
    kept = twice.map_batches(lambda rows: rows, "k string, ts timestamp, also timestamp")
    assert kept._node.event_time.names == ("ts",)
    assert twice.map_batches(lambda rows: rows, "k string, also timestamp")._node.event_time is None
    assert twice.map_batches(lambda rows: rows, "k string, ts string")._node.event_time is None
    for kind in ("date", "timestamp", "timestamp_ntz"):
        assert stream().map_batches(lambda rows: rows, f"ts {kind}")._node.event_time.column == "ts"


def test_rows_grouped_by_a_computed_column_are_not_late() -> None:
    hour = 3_600_000_000

    def earlier(rows: pa.RecordBatch) -> pa.RecordBatch:
        moved = pc.subtract(rows.column("also"), pa.scalar(hour, pa.duration("us")))
        return rows.set_column(rows.schema.names.index("also"), "also", moved)

    p = tm.Pipeline("moved")
    rows = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 second")
    moved = rows.sql("SELECT k, ts, ts AS also FROM rows").map_batches(
        earlier, "k string, ts timestamp, also timestamp"
    )
    moved.groupBy("also").agg(n=tm.count())
    tester = Tester(p)
    seen = [tester.batch([("a", f"2026-01-01T00:{minute}:00Z")]) for minute in (10, 20, 30)]
    assert [(len(batch.outputs), batch.metrics.late_rows) for batch in seen] == [(1, 0)] * 3


BY_TIME = (
    [("a", "00:10"), ("a", "00:10"), ("b", "00:10")],
    [("a", "00:20"), ("b", "00:10")],
    [("a", "00:10"), ("c", "00:30")],
)


def by_name(name: str, keyed: Callable[[tm.Stream], Any]) -> list[Any]:
    """Outputs, late rows and kept keys of three batches, whose event time has the second name `also`."""
    p = tm.Pipeline(name)
    rows = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 second")
    keyed(rows.sql("SELECT k, ts, ts AS also FROM rows"))
    tester = Tester(p)
    batches = [tester.batch([(k, f"2026-01-01T{at}:00Z") for k, at in rows]) for rows in BY_TIME]
    return [
        (sorted(batch.outputs), batch.metrics.late_rows, [one["numRowsTotal"] for one in batch.metrics.stateOperators])
        for batch in batches
    ]


def test_duplicates_by_either_name_are_those_by_both() -> None:
    found = [
        by_name("duplicates", lambda rows, subset=subset: rows.dropDuplicates(subset))
        for subset in (["k", "ts"], ["k", "also"], ["k", "ts", "also"], ["also", "k", "ts"])
    ]
    assert found[1:] == found[:1] * 3
    assert [(len(outputs), late) for outputs, late, _ in found[0]] == [(2, 0), (1, 0), (1, 1)]
    assert [kept for *_, kept in found[0]] == [[2], [1], [1]]


def test_downstream_of_keys_by_both_names_either_is_the_event_time() -> None:
    def chained(rows: tm.Stream, column: str) -> None:
        counted = rows.groupBy("k", "ts", "also").agg(n=tm.count(), outputMode="append")
        counted.groupBy(tm.window(column, "10 minutes")).agg(keys=tm.count(), outputMode="append", name="behind")

    one, other = (by_name("chained", lambda rows, c=column: chained(rows, c)) for column in ("ts", "also"))
    assert one == other
    assert any(outputs for outputs, *_ in one)


def test_a_key_column_is_not_the_event_time_downstream_of_windows() -> None:
    rows = stream().sql("SELECT k, ts, ts AS also FROM rows")
    counted = rows.groupBy(tm.window("ts", "1 hour"), "also").agg(n=tm.count(), outputMode="append")
    assert counted._node.event_time.names == ("window",)


def test_an_aggregate_of_another_name_is_not_the_event_time() -> None:
    rows = stream().sql("SELECT k, ts, ts AS also FROM rows")
    counted = rows.groupBy("ts").agg(also=tm.max("also"), outputMode="append")
    assert counted._node.event_time.names == ("ts",)


def test_of_two_names_among_the_key_columns_the_first_name_counts_in_any_order() -> None:
    rows = stream().sql("SELECT k, ts, ts AS also FROM rows")
    for order, keys in enumerate((["k", "ts", "also"], ["also", "k", "ts"])):
        rows.groupBy(keys).agg(n=tm.count(), outputMode="append", name=f"by-{order}")
    operators = rows._pipeline.operators
    assert [operators[name].operator.input.event_time for name in ("by-0", "by-1")] == ["ts", "ts"]


def test_a_union_has_the_names_that_both_streams_have() -> None:
    p = tm.Pipeline("names")

    def named(name: str, columns: str) -> tm.Stream:
        rows = p.read(tm.Rows("k string, ts timestamp, b timestamp"), name=name).withWatermark("ts", "1 second")
        return rows.sql(f"SELECT k, {columns} FROM rows")

    several = named("one", "ts AS first, ts AS second, ts AS third")
    both = several.unionByName(named("other", "ts AS third, ts AS second, b AS first"))
    assert both._node.event_time.names == ("second", "third")
    with pytest.raises(
        InvalidInput, match="watermark on `first` = `second` = `third` .*, the other a watermark on `x`"
    ):
        several.unionByName(named("third", "ts AS x"), allowMissingColumns=True)
