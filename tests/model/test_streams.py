"""Streams through the tester: aggregates, steps, several operators and sinks on one read, chained operators."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tidemill.testing import Tester

SCHEMA = "shop string, item string, units int, price decimal(10,2), weight double"


def test_aggregates_run_on_over_batches():
    p = tm.Pipeline("sales")
    sales = p.read(tm.Rows(SCHEMA))
    sales.groupBy("shop").agg(
        n=tm.count(), priced=tm.count("price"), units=tm.sum("units"), money=tm.sum("price"), weight=tm.sum("weight"),
        least=tm.min("price"), most=tm.max("weight"), mean=tm.mean("units"), first=tm.first("item"),
        last=tm.last("item"),
    )  # fmt: skip
    t = Tester(p)
    t.batch([("a", "pen", 2, Decimal("1.50"), 0.5), ("b", "cup", None, None, None)])
    result = t.batch([("a", "ink", 3, Decimal("9.25"), 2.5)])
    assert result.rows == [
        {
            "shop": "a", "n": 2, "priced": 2, "units": 5, "money": Decimal("10.75"), "weight": 3.0,
            "least": Decimal("1.50"), "most": 2.5, "mean": 2.5, "first": "pen", "last": "ink",
        }
    ]  # fmt: skip


def test_over_nulls_alone_sums_are_null_and_counts_are_zero():
    p = tm.Pipeline("sales")
    p.read(tm.Rows(SCHEMA)).groupBy("shop").agg(n=tm.count("units"), units=tm.sum("units"), mean=tm.mean("price"))
    assert Tester(p).batch([("b", "cup", None, None, None)]).outputs == [("b", 0, None, None)]


def test_sql_filters_and_computes_and_rows_filtered_out_count_as_applied():
    p = tm.Pipeline("sales")
    amounts = p.read(tm.Rows(SCHEMA)).sql("SELECT shop, units * price AS amount FROM rows WHERE units > 0")
    amounts.groupBy("shop").agg(amount=tm.sum("amount"))
    result = Tester(p).batch([("a", "x", 2, Decimal("1.50"), 0.0), ("a", "y", 0, Decimal("5.00"), 0.0)])
    assert result.outputs == [("a", Decimal("3.00"))]
    assert (result.metrics.numInputRows, result.metrics.applied_rows) == (2, 2)


def test_select_drop_and_map_batches():
    def double(batch):
        return batch.set_column(1, "units", pc.multiply(batch.column("units"), 2))

    p = tm.Pipeline("sales")
    rows = p.read(tm.Rows(SCHEMA)).drop("price", "weight").select("shop", "units")
    rows.map_batches(double, schema="shop string, units int").groupBy("shop").agg(units=tm.sum("units"))
    assert Tester(p).batch([("a", "x", 2, None, None)]).outputs == [("a", 4)]


def test_two_operators_and_a_keyless_sink_share_one_read(tmp_path):
    p = tm.Pipeline("sales")
    sales = p.read(tm.Rows(SCHEMA))
    sales.groupBy("shop").agg(n=tm.count(), name="by-shop").write(tm.Parquet(str(tmp_path / "shops")))
    sales.groupBy("item").agg(n=tm.count(), name="by-item")
    sales.select("item", "units").write(tm.Json(str(tmp_path / "raw")), name="raw")
    t = Tester(p, tasks=3)
    result = t.batch([("a", "pen", 1, None, None), ("a", "cup", 2, None, None)])
    assert result.outputs["by-shop"] == [("a", 2)]
    assert sorted(result.outputs["by-item"]) == [("cup", 1), ("pen", 1)]
    assert result.outputs["raw"] == [("pen", 1), ("cup", 2)]
    assert result.state["by-item"]["pen"].n == 1
    folder = t.repository.opened.job.outputs["by-shop"].sink.path  # the tester's own
    [published] = Path(folder).glob("*.parquet")
    [row] = pa.parquet.read_table(published).to_pylist()
    assert {**row, "_seq": 0} == {"shop": "a", "n": 2, "_batch_id": 0, "_seq": 0}
    assert not (tmp_path / "shops").exists()


def chained():
    def running(batch_time, shop, row, state):
        state.update((state.getOption or 0) + row.units)
        return (shop, state.get % 2, state.get)

    p = tm.Pipeline("chained")
    totals = (
        p.read(tm.Rows("shop string, units int"))
        .groupBy("shop")
        .mapWithState(
            tm.StateSpec.function(running),
            stateSchema="long",
            outputSchema="shop string, odd long, total long",
            name="run",
        )
    )
    totals.sql("SELECT odd, total, shop FROM rows").groupBy("odd").agg(
        n=tm.count(), last=tm.last("total"), shop=tm.last("shop"), name="parity"
    )
    return p


def test_a_keyed_output_is_keyed_again_in_the_same_batch():
    t = Tester(chained())
    t.batch([("a", 1), ("a", 1), ("b", 3)])
    result = t.batch([("a", 1)])
    assert {k: v.n for k, v in result.state["parity"].items()} == {1: 3, 0: 1}
    assert result.outputs == [(1, 3, 3, "a")]  # only what nothing consumes is kept


@pytest.mark.parametrize("tasks", [2, 7])
def test_chained_results_do_not_depend_on_tasks(tasks):
    one, many = Tester(chained(), tasks=1), Tester(chained(), tasks=tasks)
    for batch in range(4):
        rows = [(f"s{(i * 7 + batch) % 23}", i % 5) for i in range(200)]
        first, second = one.batch(rows), many.batch(rows)
        assert first.outputs == second.outputs
        assert first.state == second.state


def test_due_outputs_reach_the_next_operator_in_the_same_commit():
    def silent(batch_time, key, row, state):
        if state.isTimingOut:
            return (key, 1)
        state.update(0)
        return None

    p = tm.Pipeline("alerts")
    rows = p.read(tm.Rows("key string, ts timestamp")).withWatermark("ts", "0 seconds", late="keep")
    alerts = rows.groupBy("key").mapWithState(
        tm.StateSpec.function(silent).timeout("1 minute", clock="event"),
        stateSchema="int",
        outputSchema="key string, one int",
        name="silent",
    )
    alerts.groupBy("one").agg(n=tm.count(), name="alerts")
    t = Tester(p, tasks=2)
    t.batch([("a", "2024-01-01T00:00:00"), ("b", "2024-01-01T00:00:00")])
    result = t.batch([("c", "2024-01-01T01:00:00")])
    assert result.outputs == [(1, 2)]
    assert t.repository.head.version == 1
