"""Refused declarations of sessions and of aggregates of distinct values, and the limit of a set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.native.native_operators import batch, data, opened, tuples, whole_split
from tidemill._native import aggregate, sessions
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

SCHEMA = "k string, ts timestamp, d date, x int, m map<string,int>"


def refused(made: Callable[[], Any], *words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        made()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def stream(late: str = "drop") -> tm.Stream:
    return tm.Pipeline("p").read(tm.Rows(SCHEMA)).withWatermark("ts", "1 minute", late=late)


def test_sessions_are_declared_with_a_fixed_gap_over_a_timestamp() -> None:
    refused(lambda: tm.session_window("ts", "0 seconds"), "tm.session_window", "above zero")
    refused(lambda: tm.session_window("ts", "1 month"), "'1 month'", "a gap from a column is not supported")
    refused(lambda: tm.session_window("ts", tm.count()), "a gap that depends on the row is not supported")  # type: ignore[arg-type]
    refused(lambda: tm.session_window(3, "1 hour"), "found 3")  # type: ignore[arg-type]
    refused(lambda: stream().groupBy(tm.session_window("t", "1 hour")), "`t`", "did you mean `ts`?")
    refused(lambda: stream().groupBy(tm.session_window("d", "1 hour")), "`d`", "expected a timestamp")
    both = (tm.session_window("ts", "1 hour"), tm.window("ts", "1 hour"))
    refused(lambda: stream().groupBy(*both), "2 windows")


def test_sessions_are_for_append_under_a_watermark_on_their_column() -> None:
    hourly = tm.session_window("ts", "1 hour")
    n = tm.count()
    refused(
        lambda: stream().groupBy(hourly).agg(n=n, outputMode="update"),
        "'update'",
        "tm.session_window",
        'outputMode="append"',
    )
    bare = tm.Pipeline("p").read(tm.Rows(SCHEMA)).groupBy("k", hourly)
    refused(lambda: bare.agg(n=n, outputMode="append"), "needs a watermark on `ts`", ".withWatermark")
    refused(lambda: stream("keep").groupBy(hourly).agg(n=n, outputMode="append"), 'late="keep"')
    refused(lambda: stream().groupBy(hourly).dropDuplicates(), "tm.window", ".agg")
    refused(
        lambda: stream().groupBy(hourly).agg(session_window=n, outputMode="append"),
        "two columns named `session_window`",
    )


def test_sessions_of_no_other_key_are_one_row_of_sessions() -> None:
    p = tm.Pipeline("p")
    rows = p.read(tm.Rows("ts timestamp, x int")).withWatermark("ts", "0 seconds")
    rows.groupBy(tm.session_window("ts", "10 seconds")).agg(x=tm.sum("x"), outputMode="append")
    tester = Tester(p, tasks=3)
    at = lambda second: datetime(2020, 1, 1, 0, 0, second)  # noqa: E731
    assert tester.batch([(at(5), 1), (at(20), 2), (at(12), 4)]).outputs == []
    assert [(w["start"].second, w["end"].second, x) for w, x in tester.batch([(at(40), 8)]).outputs] == [(5, 30, 7)]


def test_the_engine_checks_sessions_and_parameters() -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("x", pa.int32())])
    refused(lambda: sessions("s", ["k"], schema, [("n", "count", None)], "ts", 0, 0), "at least 1 ms, found 0 ms")
    refused(
        lambda: sessions("s", ["k"], schema, [("n", "count", None)], "ts", 5, 2),
        "session position 2 is out of range: there are 1 key columns",
    )
    refused(lambda: sessions("s", ["k"], schema, [("n", "count", None)], "x", 5, 0), "`x`, which is int")
    for function, parameter in (("approx_count_distinct", 3), ("collect_set", 0), ("sum", 1), ("collect_set", None)):
        given = {} if parameter is None else {"n": parameter}
        made = [("n", function, "x")]
        refused(lambda m=made, g=given: aggregate("a", ["k"], schema, m, parameters=g), f"`{made[0][1]}`", "parameter")


def test_distinct_values_are_of_simple_types_and_bounded() -> None:
    for rsd in (0.5, 0.002, 0, True, "5%"):
        refused(lambda r=rsd: tm.approx_count_distinct("x", r), "rsd", "0.0022 to 0.39")
    for limit in (0, -1, 2.5, True):
        refused(lambda n=limit: tm.collect_set("x", n), "limit", "the most values to keep")
    refused(lambda: stream().groupBy("k").agg(n=tm.collect_set("m", 5)), "`n`, the collect_set of column `m`")
    refused(lambda: stream().groupBy("k").agg(n=tm.approx_count_distinct("m")), "approx_count_distinct", "map<")


def test_a_set_keeps_the_first_values_in_plan_order_however_they_came() -> None:
    schema = pa.schema([("k", pa.string()), ("x", pa.float64())])
    blocks = [[3.0, 1.0, 3.0, None], [0.0, 1.0, 2.0], [-0.0, 7.0, float("nan"), float("nan")], [9.0]]
    for limit, expected in ((1, [3.0]), (4, [3.0, 1.0, 0.0, 2.0]), (9, [3.0, 1.0, 0.0, 2.0, 7.0, "nan", 9.0])):
        made = opened(aggregate("a", ["k"], schema, [("s", "collect_set", "x")], parameters={"s": limit}))
        chunks = [whole_split(made, batch(schema, *(("a", x) for x in block)), data()) for block in blocks]
        ((_, found),) = tuples(made.apply(chunks, data()))
        assert ["nan" if x != x else x for x in found] == expected
