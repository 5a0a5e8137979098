"""What PySpark's code spells in several ways is taken in each of them."""

from __future__ import annotations

from collections.abc import Callable
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


def test_what_the_page_of_agg_gives_in_place_of_what_is_refused() -> None:
    """A sum of texts, and one group of all rows."""
    p = tm.Pipeline("refused")
    texts = p.read(tm.Rows("k string, s string"))
    with pytest.raises(tm.InvalidInput, match="groupBy needs at least one column"):
        texts.groupBy()
    numbers = texts.sql("SELECT k, CAST(s AS DOUBLE) AS s FROM rows").groupBy("k")
    numbers.agg(total=tm.sum("s"), of=tm.mean("s"), name="numbers")
    texts.sql("SELECT *, 'all' AS whole FROM rows").groupBy("whole").agg(n=tm.count(), name="whole")
    outputs = Tester(p).batch([("a", "1.5"), ("a", "2.5"), ("b", None)]).outputs
    assert sorted(outputs["numbers"]) == [("a", 4.0, 2.0), ("b", None, None)]
    assert outputs["whole"] == [("all", 3)]
    by_text = tm.Pipeline("texts").read(tm.Rows("k string, s string")).groupBy("k")
    for function in (tm.sum, tm.mean, tm.stddev, tm.var):
        with pytest.raises(tm.InvalidInput, match=r"of column `s`, needs a column of a number, found string"):
            by_text.agg(x=function("s"))
