"""`unionByName`: several sources as one stream; others are refused at once."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.testing import Tester

SCHEMA = "k string, ts timestamp"


def at(seconds):
    return f"2024-01-01T00:{seconds // 60:02d}:{seconds % 60:02d}"


def two(left=SCHEMA, right=SCHEMA):
    p = tm.Pipeline("union")
    return p, p.read(tm.Rows(left), name="left"), p.read(tm.Rows(right), name="right")


@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_of_a_key_come_source_by_source_and_each_source_has_its_ledger(tasks):
    p, left, right = two("k string, n int", "n int, k string")
    order = tm.StateSpec.function(lambda n, state: state.update((state.getOption or "") + str(n)))
    right.unionByName(left).groupBy("k").mapWithState(order, "string", "long", value="n", name="order")
    t = Tester(p, tasks=tasks)
    t.batch({"right": [(3, "a"), (4, "b")], "left": [("a", 1), ("a", 2)]})
    t.restart()
    found = t.batch({"left": [("b", 5)]})
    assert found.state == {"a": "123", "b": "45"}
    assert found.metrics.numInputRows == 1


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_stream_united_with_itself_counts_each_row_twice_and_late_rows_once(tasks):
    p = tm.Pipeline("itself")
    rows = p.read(tm.Rows(SCHEMA)).withWatermark("ts", "0 seconds")
    both = rows.unionByName(rows.sql("SELECT * FROM rows WHERE k = 'a'"))
    both.groupBy("k", tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="n")
    t = Tester(p, tasks=tasks)
    first = t.batch([("a", at(1)), ("b", at(2)), ("a", at(20))])
    assert sorted((k, window["start"].second, n) for k, window, n in first.outputs) == [("a", 0, 2), ("b", 0, 1)]
    result = t.batch([("a", at(1)), ("b", at(1)), ("c", at(40))])
    assert [(k, window["start"].second, n) for k, window, n in result.outputs] == [("a", 20, 2)]
    assert (result.metrics.late_rows, result.metrics.applied_rows) == (2, 1)


@pytest.mark.parametrize("tasks", [1, 3])
def test_one_and_the_same_stream_twice_is_each_row_twice(tasks):
    p = tm.Pipeline("itself")
    rows = p.read(tm.Rows("k string"))
    rows.unionByName(rows).groupBy("k").agg(n=tm.count(), name="n")
    assert sorted(Tester(p, tasks=tasks).batch(["a", "b", "a"]).outputs) == [("a", 4), ("b", 2)]


def late_window(both):
    both.groupBy("k", tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="n")


@pytest.mark.parametrize("idle", [None, "1 minute"])
def test_the_same_watermark_given_again_is_the_same(idle):
    p = tm.Pipeline("again")
    rows = p.read(tm.Rows(SCHEMA))

    def marked():
        return rows.withWatermark("ts", "5 seconds", idle=idle)

    late_window(marked().unionByName(marked().sql("SELECT * FROM rows WHERE k = 'a'")))
    t = Tester(p)
    first = t.batch([("a", at(1)), ("b", at(2)), ("a", at(20))])
    assert sorted((k, window["start"].second, n) for k, window, n in first.outputs) == [("a", 0, 2), ("b", 0, 1)]
    assert list(t.repository.head.watermarks) == ["source.ts"]


@pytest.mark.parametrize(
    "second",
    [
        lambda rows: rows.withWatermark("ts", "5 seconds", late="quarantine"),
        lambda rows: rows.withWatermark("ts", "5 seconds", idle="1 minute"),
        lambda rows: rows.select("k", "ts").withWatermark("ts", "5 seconds"),
    ],
)
def test_another_watermark_of_one_column_of_a_source_is_refused(second):
    rows = tm.Pipeline("again").read(tm.Rows(SCHEMA))
    rows.withWatermark("ts", "5 seconds")
    with pytest.raises(tm.InvalidInput, match="source `source` already has a watermark on `ts` with this delay"):
        second(rows)


def test_a_watermark_on_the_union_is_one():
    p, left, right = two()
    both = left.unionByName(right).withWatermark("ts", "10 seconds")
    both.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="n")
    t = Tester(p)
    assert t.batch({"left": [("a", at(30))]}).watermark > 0
    assert list(t.repository.head.watermarks) == ["left+right.ts"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda left, right: left.unionByName(7), "unionByName: expected a stream, found 7"),
        (
            lambda left, right: left.unionByName(two()[1]),
            "the streams belong to two pipelines, `union` and `union`",
        ),
        (
            lambda left, right: left.unionByName(right.sql("SELECT k, CAST(ts AS date) AS ts FROM rows")),
            "column `ts` is timestamp in one and date in the other",
        ),
        (lambda left, right: left.select("k").unionByName(right), "column `ts` is only in the second"),
        (
            lambda left, right: left.unionByName(right.select("k")),
            "column `ts` is only in the first (found `k string, ts timestamp` and `k string`)",
        ),
        (
            lambda left, right: left.withWatermark("ts", "1 s").unionByName(right),
            'one stream has a watermark on `ts` (late="drop"), the other no watermark',
        ),
        (
            lambda left, right: left.withWatermark("ts", "1 s").unionByName(right.withWatermark("ts", "1 s", "keep")),
            'the other a watermark on `ts` (late="keep")',
        ),
        (
            lambda left, right: (
                left.withWatermark("ts", "1 s").unionByName(right.withWatermark("ts", "1 s")).withWatermark("ts", "1 s")
            ),
            "the streams of the union already have a watermark on `ts`",
        ),
    ],
)
def test_streams_that_cannot_be_united_are_refused_at_once(make, said):
    _, left, right = two()
    with pytest.raises(tm.InvalidInput) as caught:
        make(left, right)
    assert said in str(caught.value)
