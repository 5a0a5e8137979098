"""`foreachBatch`: after the commit, in order, at least once, whatever dies or raises in between."""

from __future__ import annotations

import json
import pickle
import sqlite3
import subprocess
import sys

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, over, run
from tidemill.testing import Tester


def calling(folder, fn, batches=3):
    """A function that is called with the counts of each batch. The files of the first ones are there."""
    counts = over(lambda rows: rows.groupBy("k").agg(n=tm.count(), name="counts").foreachBatch(fn))
    world = World(folder, counts, name="calls", schema="k string")
    for number in range(batches):
        if not (world.inbox / f"{number}.csv").exists():
            world.put(f"{number}", "a\nb\n" if number else "a\n")
    return world


def rows_of(table):
    """The rows without the columns that Tidemill adds."""
    return sorted(tuple(row.values()) for row in table.drop_columns(["_batch_id", "_seq"]).to_pylist())


def test_the_function_is_called_after_each_commit_in_order_with_its_rows(tmp_path):
    calls = []

    def fn(table, batch_id):
        calls.append((batch_id, r.head.version, rows_of(table)))

    r = calling(tmp_path, fn).open()
    run(r)
    assert calls == [(0, 0, [("a", 1)]), (1, 1, [("a", 2), ("b", 1)]), (2, 2, [("a", 3), ("b", 2)])]
    assert run(r) == [] and len(calls) == 3  # once is enough where nothing went wrong
    assert r.outputs(version=2, sink="foreach-batch").num_rows == 2
    assert r.head.sinks["foreach-batch"]["kind"] == "foreach-batch"


def test_a_batch_without_rows_and_a_sweep_are_calls_too():
    calls = []

    def forget(value, state):
        if not state.isTimingOut:
            state.update(1)
            return None
        return ("gone",)

    p = tm.Pipeline("silent")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    made = grouped.mapWithState(tm.StateSpec.function(forget).timeout("1 second"), "int", "what string")
    made.foreachBatch(lambda table, batch_id: calls.append((batch_id, table)))
    t = Tester(p)
    t.batch(["a"])
    t.sweep(at_ms=1_001)
    assert [(batch_id, table.column_names, rows_of(table)) for batch_id, table in calls] == [
        (0, ["what", "_batch_id", "_seq"], []),
        (1, ["what", "_batch_id", "_seq"], [("gone",)]),
    ]


def test_the_rows_have_the_version_and_the_order_that_every_sink_gets(tmp_path):
    calls = {}

    def both(p, world):
        counts = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        counts.foreachBatch(lambda table, batch_id: calls.update({batch_id: table.to_pylist()}))
        counts.write(tm.Json(world.out), name="files")

    world = World(tmp_path, both)
    world.arrive([("a", 1), ("b", 1)], [("b", 1)])
    world.run()
    assert {batch_id: {row["_batch_id"] for row in rows} for batch_id, rows in calls.items()} == {0: {0}, 1: {1}}
    assert sorted(map(str, calls[0] + calls[1])) == sorted(map(str, world.published()))
    assert [row["_seq"] for row in calls[0]] == sorted(row["_seq"] for row in calls[0])
    r = world.open()
    assert r.outputs(version=0, sink="foreach-batch").to_pylist() == calls[0]


def test_an_error_of_the_function_fails_the_run_and_the_next_run_calls_it_again(tmp_path):
    calls, wrong = [], [True]

    def fn(table, batch_id):
        calls.append(batch_id)
        if batch_id == 1 and wrong:
            raise ValueError("the database is away")

    r = calling(tmp_path, fn).open()
    for _ in range(2):
        with pytest.raises(tm.InvalidInput) as caught:
            run(r)
        first, *rest = str(caught.value).splitlines()
        assert "sink `foreach-batch`" in first and "`ValueError: the database is away` for batch 1" in first
        assert any('raise ValueError("the database is away")' in line for line in rest)
        assert r.head.version == 1
    wrong.clear()
    run(r)
    assert calls == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionError("away"), tm.StoreUnavailable),
        (TimeoutError("slow"), tm.StoreUnavailable),
        (sqlite3.OperationalError("database is locked"), tm.StoreUnavailable),
        (RuntimeError("503"), tm.StoreUnavailable),
        (TypeError("no"), tm.InvalidInput),
        (KeyError("user"), tm.InvalidInput),
        (ZeroDivisionError("no"), tm.InvalidInput),
        (json.JSONDecodeError("no", "", 0), tm.InvalidInput),
    ],
)
def test_an_outage_is_retried_and_an_error_in_the_code_is_invalid_input(tmp_path, raised, kind):
    def fn(table, batch_id):
        raise raised

    with pytest.raises(kind, match=f"raised `{type(raised).__name__}"):
        calling(tmp_path, fn).run()


SCRIPT = """
import os, sys
from pathlib import Path
from tests.journeys.test_foreach_batch import calling, rows_of

folder, when, dies_at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def fn(table, batch_id):
    if batch_id == dies_at and when == "before":
        os.kill(os.getpid(), 9)
    with open(folder / "calls", "a") as calls:
        calls.write(f"{batch_id} {rows_of(table)}\\n")
    if batch_id == dies_at and when == "after":
        os.kill(os.getpid(), 9)

calling(folder, fn).run()
"""


@pytest.mark.slow("interrupt a run at every step")
@pytest.mark.parametrize(("when", "calls"), [("before", [0, 1, 2, 3]), ("after", [0, 1, 1, 2, 3])])
def test_after_a_kill_during_the_call_the_next_run_calls_again_with_the_same_rows(tmp_path, when, calls):
    """Also where more has arrived since then."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), when]
    assert subprocess.run([*command, "1"], check=False).returncode == -9
    calling(tmp_path, None).put("3", "a\nc\nc\n")
    subprocess.run([*command, "9"], check=True)
    rows = [[("a", 1)], [("a", 2), ("b", 1)], [("a", 3), ("b", 2)], [("a", 4), ("c", 2)]]
    assert (tmp_path / "calls").read_text().splitlines() == [f"{version} {rows[version]}" for version in calls]


def test_the_function_stays_with_the_driver(tmp_path):
    sink = calling(tmp_path, lambda table, batch_id: None).pipeline().sinks["foreach-batch"].sink
    sent = pickle.loads(pickle.dumps(sink))  # a lambda cannot be pickled
    assert sent.function is None and sent.stage(pa.table({"k": ["a"]}))


def test_only_a_second_function_needs_a_name(tmp_path):
    p = tm.Pipeline("two")
    rows = p.read(tm.Rows("k string"))
    rows.write(tm.Parquet(str(tmp_path / "out"))).foreachBatch(print)
    with pytest.raises(
        tm.InvalidInput, match="already has a sink `foreach-batch`\nhint: give this one another name: name="
    ):
        rows.foreachBatch(print)
    rows.foreachBatch(print, name="second")
    with pytest.raises(tm.InvalidInput, match=r"foreachBatch: expected a function of \(table, batch_id\), found 7"):
        rows.foreachBatch(7)


def test_code_without_the_function_calls_nothing(tmp_path):
    def fails(table, batch_id):
        raise ValueError

    world = calling(tmp_path, fails, batches=1)
    with pytest.raises(tm.InvalidInput):
        world.run()
    without = over(lambda rows: rows.groupBy("k").agg(n=tm.count(), name="counts"))
    assert run(world.but(without).open(init=False)) == []
