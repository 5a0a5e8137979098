"""`.agg` with aliases, as users of Spark write it."""

from __future__ import annotations

from typing import Any

import pytest

import tidemill as tm


def grouped() -> Any:
    return tm.Pipeline("named").read(tm.Rows("k string, v long")).groupBy("k")


def test_aliases_name_columns_and_come_before_keywords() -> None:
    p = tm.Pipeline("named")
    rows = p.read(tm.Rows("k string, v long"))
    rows.groupBy("k").agg(tm.count("*").alias("n"), tm.sum("v").alias("total"), most=tm.max("v"))
    assert tm.testing.Tester(p).batch([("a", 1), ("a", 5)]).outputs == [("a", 2, 6, 5)]
    with_keywords = grouped().agg(n=tm.count(), total=tm.sum("v"), most=tm.max("v"))
    with_aliases = grouped().agg(tm.count().alias("n"), tm.sum("v").alias("total"), tm.max("v").alias("most"))
    assert with_aliases.schema == with_keywords.schema


def test_a_column_may_have_the_name_of_an_argument() -> None:
    found = grouped().agg(tm.count().alias("name"), tm.sum("v").alias("outputMode"), name="counts")
    assert found.schema.names == ["k", "name", "outputMode"]


@pytest.mark.parametrize("name", ["self", "columns", "functions", "a b", "ö", "count", "updated_at", "a.b", "`", "\n"])
def test_a_column_may_have_any_name(name: str) -> None:
    for given in (((tm.count().alias(name),), {}), ((), {name: tm.count()})):
        p = tm.Pipeline("named")
        p.read(tm.Rows("k string")).groupBy("k").agg(*given[0], **given[1])
        t = tm.testing.Tester(p)
        assert t.batch([("a",), ("a",)]).outputs == [("a", 2)]
        assert t.repository.outputs().column_names[:2] == ["k", name]


@pytest.mark.parametrize("name", ["_batch_id", "_seq"])
def test_a_column_that_tidemill_adds_is_refused_before_any_batch(name: str) -> None:
    p = tm.Pipeline("named")
    rows = p.read(tm.Rows("k string")).groupBy("k").agg(tm.count().alias(name), name="counts")
    with pytest.raises(tm.InvalidInput, match=f"operator `counts` has an output column `{name}`, which Tidemill adds"):
        tm.open(p, root="memory://named")
    rows.sql(f"SELECT k, {name} AS n FROM rows").foreachBatch(lambda table, batch_id: None)
    tm.open(p, root="memory://named")


@pytest.mark.parametrize(
    ("columns", "keywords", "said"),
    [
        ([tm.count()], {}, "expected aggregates that have a name"),
        (["v"], {}, "found 'v', expected aggregates that have a name"),
        ([{"v": "sum"}], {}, "expected aggregates that have a name"),
        ([tm.count().alias("n"), tm.sum("v").alias("n")], {}, "two columns have the name `n`"),
        ([tm.count().alias("n")], {"n": tm.sum("v")}, "two columns have the name `n`"),
        ([tm.count().alias("k")], {}, "the output column `k` is also a key column"),
        ([], {"n": tm.count().alias("m")}, "expected an aggregate such as"),
    ],
)
def test_names_that_cannot_be_are_refused(columns: list[Any], keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(tm.InvalidInput, match=said):
        grouped().agg(*columns, **keywords)


@pytest.mark.parametrize("name", ["", None, 7])
def test_an_alias_is_text(name: Any) -> None:
    with pytest.raises(tm.InvalidInput, match=r"alias of count\(\*\): found .*, expected the name of a column"):
        tm.count().alias(name)
