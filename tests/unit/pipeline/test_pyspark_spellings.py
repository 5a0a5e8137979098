"""Every spelling that PySpark accepts works."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

import tidemill as tm
from tidemill.testing import Tester

ROWS = [("a", 1), ("a", 1), ("b", 2)]


def of(attach: Callable[[tm.Stream], tm.Stream]) -> list[Any]:
    p = tm.Pipeline("spelled")
    attach(p.read(tm.Rows("k string, n bigint")))
    return sorted(Tester(p).batch(ROWS).outputs)


@pytest.mark.parametrize(
    ("attach", "outputs"),
    [
        (lambda s: s.dropDuplicates(subset=["k"]), [("a", 1), ("b", 2)]),
        (lambda s: s.dropDuplicates(["k"]), [("a", 1), ("b", 2)]),
        (lambda s: s.dropDuplicates(["k", "k"]), [("a", 1), ("b", 2)]),
        (lambda s: s.dropDuplicates(("n", "k", "n")), [("a", 1), ("b", 2)]),
        (lambda s: s.dropDuplicates(), [("a", 1), ("b", 2)]),
        (lambda s: s.groupBy(["k", "n"]).agg(found=tm.count()), [("a", 1, 2), ("b", 2, 1)]),
        (lambda s: s.groupBy("k").agg(found=tm.count("*")), [("a", 2), ("b", 1)]),
        (lambda s: s.groupBy("k").agg(found=tm.count(), outputMode="Update"), [("a", 2), ("b", 1)]),
    ],
)
def test_each_spelling(attach: Callable[[tm.Stream], tm.Stream], outputs: list[Any]) -> None:
    assert of(attach) == outputs


@pytest.mark.parametrize("mode", ["append", "Append", "update", "Update"])
def test_output_modes_of_functions(mode: str) -> None:
    def once(key: Any, rows: Any, state: Any) -> Any:
        assert state.NO_TIMESTAMP == -1
        state.setTimeoutDuration("1 month")
        yield (key, len(list(rows)))

    assert of(
        lambda s: s.groupBy("k").flatMapGroupsWithState(
            once, "k string, n bigint", "bigint", outputMode=mode, timeoutConf="ProcessingTimeTimeout"
        )
    ) == [("a", 2), ("b", 1)]


def test_a_month_of_lateness() -> None:
    p = tm.Pipeline("month")
    p.read(tm.Rows("ts timestamp")).withWatermark("ts", "1 month").dropDuplicates(["ts"])
    t = Tester(p)
    assert t.batch(["2026-03-01T00:00:00Z"]).watermark < t.batch(["2026-03-02T00:00:00Z"]).watermark
    late = t.batch(["2026-01-28T00:00:00Z", "2026-01-31T00:00:00Z"])
    assert late.metrics.late_rows == 1


def test_each_replacement_on_the_page_of_agg_gives_its_result() -> None:
    """A sum of texts, and one group of all rows."""
    p = tm.Pipeline("refused")
    texts = p.read(tm.Rows("k string, s string"))
    with pytest.raises(tm.InvalidInput, match="groupBy: found no column, expected at least one"):
        texts.groupBy()
    numbers = texts.sql("SELECT k, CAST(s AS DOUBLE) AS s FROM rows").groupBy("k")
    numbers.agg(total=tm.sum("s"), of=tm.mean("s"), name="numbers")
    texts.sql("SELECT *, 'all' AS whole FROM rows").groupBy("whole").agg(n=tm.count(), name="whole")
    outputs = Tester(p).batch([("a", "1.5"), ("a", "2.5"), ("b", None)]).outputs
    assert sorted(outputs["numbers"]) == [("a", 4.0, 2.0), ("b", None, None)]
    assert outputs["whole"] == [("all", 3)]
    for kind in ("string", "boolean", "timestamp"):
        by_kind = tm.Pipeline("texts").read(tm.Rows(f"k string, s {kind}")).groupBy("k")
        for function in (tm.sum, tm.mean, tm.stddev, tm.var):
            with pytest.raises(tm.InvalidInput, match=f"of column `s`, needs a column of a number, found {kind}"):
                by_kind.agg(x=function("s"))


def test_sums_of_times_booleans_and_spans_by_way_of_numbers() -> None:
    p = tm.Pipeline("numbers")
    rows = p.read(tm.Rows("k string, began timestamp, ended timestamp, ok boolean"))
    numbers = rows.sql(
        "SELECT k, epoch_us(began) / 1e6 AS seconds, CAST(ok AS INT) AS ok, epoch_us(ended) - epoch_us(began) AS us "
        "FROM rows"
    )
    numbers.groupBy("k").agg(seconds=tm.sum("seconds"), middle=tm.mean("seconds"), ok=tm.sum("ok"), us=tm.sum("us"))
    given = [
        ("a", "1970-01-01T00:00:01.5", "1970-01-01T00:00:02", True),
        ("a", "1970-01-01T00:00:02", "1970-01-01T00:00:03", None),
    ]
    assert Tester(p).batch(given).outputs == [("a", 3.5, 1.75, 1, 1_500_000)]
    with pytest.raises(tm.InvalidInput, match="unknown type `interval`"):
        tm.Rows("span interval day to second")


@pytest.mark.parametrize("method", ["dropDuplicates", "dropDuplicatesWithinWatermark"])
def test_an_empty_list_of_columns_does_not_mean_all_columns(method: str) -> None:
    stream = tm.Pipeline("none").read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 hour")
    with pytest.raises(tm.InvalidInput, match=rf"^{method}: found an empty list, expected the names of columns"):
        getattr(stream, method)([])


def test_a_repeated_column_counts_once_if_spark_accepts_it() -> None:
    rows = tm.Pipeline("twice").read(tm.Rows("k string, n int"))
    with pytest.raises(tm.InvalidInput, match="groupBy: a column occurs twice: k, k"):
        rows.groupBy("k", "k")
    with pytest.raises(tm.InvalidInput, match="select has column `k` twice"):
        rows.select("k", "k")
    with pytest.raises(tm.InvalidInput, match="the output column `k` is also a key column"):
        rows.groupBy("k").agg(k=tm.count())
    with pytest.raises(tm.InvalidInput, match="unknown column `x`"):
        rows.drop("x")


def test_names_that_differ_only_by_case_are_refused_at_once() -> None:
    p = tm.Pipeline("cases")
    rows = p.read(tm.Rows("k string, n int, ts timestamp")).withWatermark("ts", "1 hour")
    said = r"^the output of operator `agg` has column `{}` twice \(also as `{}`; column names are case-insensitive\)$"
    with pytest.raises(tm.InvalidInput, match=said.format("K", "k")):
        rows.groupBy("k").agg(K=tm.count())
    with pytest.raises(tm.InvalidInput, match=said.format("X", "x")):
        rows.groupBy("k").agg(x=tm.count(), X=tm.count())
    with pytest.raises(tm.InvalidInput, match=said.format("WINDOW", "window")):
        rows.groupBy("k", tm.window("ts", "1 hour")).agg(WINDOW=tm.count())
    with pytest.raises(tm.InvalidInput, match=said.format("Session_Window", "session_window")):
        rows.groupBy("k", tm.session_window("ts", "1 hour")).agg(Session_Window=tm.count())


def test_a_watermark_by_the_names_of_pysparks_arguments() -> None:
    rows = tm.Pipeline("names").read(tm.Rows("ts timestamp"))
    assert rows.withWatermark("ts", "1 hour").schema == rows.withWatermark(eventTime="ts", delayThreshold="1 h").schema
    for given, said in (({"column": "ts"}, "neither"), ({"column": "ts", "delay": 1, "delayThreshold": "1 h"}, "both")):
        with pytest.raises(tm.InvalidInput, match=rf"expected `delay` \(PySpark: `delayThreshold`\), found {said}"):
            rows.withWatermark(**given)


@pytest.mark.parametrize("taken", ["name", "outputMode"])
def test_an_aggregate_cannot_have_the_name_of_an_argument(taken: str) -> None:
    rows = tm.Pipeline("taken").read(tm.Rows("k string, n int"))
    with pytest.raises(
        tm.InvalidInput, match=rf"`{taken}` is an argument of agg and cannot name an aggregate; found {taken}=last\(n\)"
    ):
        rows.groupBy("k").agg(**{taken: tm.last("n")}, n=tm.count())


def test_the_tester_reports_a_window_that_ends_after_the_year_9999() -> None:
    p = tm.Pipeline("late")
    p.read(tm.Rows("ts timestamp")).groupBy(tm.window("ts", "1 day")).agg(n=tm.count())
    t = Tester(p)
    with pytest.raises(tm.InvalidInput, match=r"^the tester cannot show the output of `agg`: .* from year 1 to 9999"):
        t.batch([("9999-12-31T23:00:00+00:00",)])
    assert t.repository.outputs(0).column("n").to_pylist() == [1]


@pytest.mark.parametrize("given", ["ab", b"ab", {"n": "a"}])
def test_a_single_value_is_not_a_list_of_rows(given: Any) -> None:
    def func(key: Any, rows: Any, state: Any) -> Any:
        return given

    class Giving(tm.StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            return given

    def grouped() -> tuple[tm.Pipeline, Any]:
        p = tm.Pipeline("one")
        return p, p.read(tm.Rows("k string")).groupBy("k")

    p, by = grouped()
    by.flatMapGroupsWithState(func, "string", "int")
    with pytest.raises(tm.InvalidInput, match=f"found a `{type(given).__name__}`, expected an iterable of rows"):
        Tester(p).batch(["a"])
    p, by = grouped()
    by.transformWithState(Giving(), "n string", "update", "None")
    with pytest.raises(tm.InvalidInput, match=f"returned `{type(given).__name__}` .*, expected an iterator of rows"):
        Tester(p).batch(["a"])


def test_windows_over_dates_and_texts_by_way_of_a_time() -> None:
    p = tm.Pipeline("days", timeZone="Europe/Berlin")
    rows = p.read(tm.Rows("day date, text string"))
    for column in rows.schema.names:
        with pytest.raises(tm.InvalidInput, match=f"tm.window: column `{column}` is .*, expected a timestamp"):
            rows.groupBy(tm.window(column, "1 hour"))
        times = rows.sql(f"SELECT CAST({column} AS timestamptz) AS ts FROM rows")
        times.groupBy(tm.window("ts", "1 hour")).agg(n=tm.count(), name=column)
    outputs = Tester(p).batch([(date(2024, 1, 5), "2024-01-05 00:00:00")]).outputs
    for found in (outputs["day"], outputs["text"]):  # midnight in Berlin
        assert [window["start"] for window, _ in found] == [datetime(2024, 1, 4, 23, tzinfo=UTC)]
