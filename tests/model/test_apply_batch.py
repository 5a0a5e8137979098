"""`apply_batch` through the tester: whole tables in and out, the same for any number of tasks."""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.operators.apply_batch import ApplyBatch
from tidemill.testing import Tester

TOTALS = "k string, total long"


def totals(rows, state, context):
    """Adds up; a key whose total is 0 loses its state. Emits the new totals."""
    added = rows.group_by("k").aggregate([("v", "sum")]).rename_columns(["k", "total"])
    both = pa.concat_tables([state, added.select(["k", "total"])])
    made = both.group_by("k").aggregate([("total", "sum")]).rename_columns(["k", "total"])
    return made.filter(pc.not_equal(made["total"], 0)), made


def pipeline(step=totals, key=("k",), schema="k string, v long", state="total long", output=TOTALS, **options):
    p = tm.Pipeline("totals")
    rows = p.read(tm.Rows(schema)).groupBy(*key)
    rows.apply_batch(step, stateSchema=state, outputSchema=output, name="totals", **options)
    return p


cells = st.tuples(st.sampled_from(["a", "b", "c", "d", None]), st.integers(-3, 3))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.lists(cells, max_size=8), st.integers(1, 3), st.booleans()), max_size=5))
def test_states_and_outputs_are_those_of_a_dict(batches):
    t, model = Tester(pipeline()), {}
    for rows, tasks, restart in batches:
        t.tasks = tasks
        for key, value in rows:
            model[key] = model.get(key, 0) + value
        found = t.batch(rows)
        assert dict(found.outputs) == {key: model[key] for key, _ in rows}
        assert [key for key, _ in found.outputs] == in_order({key for key, _ in rows})
        model = {key: total for key, total in model.items() if total}
        assert {key: row.total for key, row in found.state.items()} == model
        if restart:
            t.restart()


def in_order(keys):
    """Keys in the canonical order of outputs."""
    from tidemill._native import key_hashes

    listed = list(keys)
    hashes = key_hashes(pa.record_batch([pa.array(listed, pa.string())], names=["k"])).to_pylist()
    return [key for _, key in sorted(zip(hashes, listed, strict=True), key=lambda pair: pair[0])]


@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_come_in_plan_order_with_all_columns_and_the_context(tasks):
    seen = []

    def look(rows, state, context):
        seen.append((rows, state, context))
        return state, None

    p = tm.Pipeline("looking")
    rows = p.read(tm.Rows("v long, k string, ts timestamp")).withWatermark("ts", "1 second")
    rows.groupBy("k").apply_batch(look, stateSchema="double", outputSchema="k string")
    t = Tester(p, start_ms=5_000, tasks=tasks)
    t.batch([(3, "a", "1970-01-01T00:00:09"), (1, "b", None), (2, "a", None)])
    t.batch([(1, "a", None)])
    t.sweep(at_ms=50_000)
    assert seen[0][0].column_names == ["v", "k", "ts"] and seen[0][1].schema.names == ["k", "state"]
    first = [row for rows, _, context in seen for row in rows.to_pylist() if context.batch_time_ms == 5_000]
    assert [row["v"] for row in first if row["k"] == "a"] == [3, 2]
    assert {(c.batch_time_ms, c.watermark_ms) for _, _, c in seen} == {(5_000, 0), (6_000, 8_000)}


def test_a_state_of_one_unnamed_column_and_keys_that_are_one():
    def count(rows, state, context):
        old = state.num_rows and state["state"][0].as_py()
        key = rows.slice(0, 1).select(["k"])
        return key.append_column("state", [[old + rows.num_rows]]), None

    t = Tester(pipeline(count, schema="k double", state="long", output="k double"))
    assert t.batch([0.0, -0.0]).state == {0.0: 2}
    t = Tester(pipeline(count, schema="k double", state="long", output="k double"))
    t.batch([math.nan])
    ((key, state),) = t.batch([math.nan]).state.items()
    assert math.isnan(key) and state == 2


def test_several_key_columns_and_an_output_that_is_keyed_again():
    def emit(rows, state, context):
        return rows.select(["a", "b"]).append_column("n", rows["v"]), rows.select(["v", "b", "a"])

    p = tm.Pipeline("chained")
    rows = p.read(tm.Rows("v long, a string, b int"))
    made = rows.groupBy("b", "a").apply_batch(emit, stateSchema="n long", outputSchema="a string, b int, v long")
    made.groupBy("b").agg(total=tm.sum("v"), name="by-b")
    result = Tester(p, tasks=3).batch([(1, "x", 1), (2, "y", 1), (4, "z", 2)])
    assert {key: row.total for key, row in result.state["by-b"].items()} == {1: 3, 2: 4}
    assert {key: row.n for key, row in result.state["apply-batch"].items()} == {(1, "x"): 1, (1, "y"): 2, (2, "z"): 4}


def test_it_may_begin_with_an_initial_state():
    r = tm.open(pipeline(), root="memory://apply-batch-initial")
    r.init(initial_state={"totals": pa.table({"k": ["a", "b"], "total": [5, 6]})})
    assert r.state().select(["k", "total"]).num_rows == 2


def table(k=("a",), **columns):
    return pa.table({"k": list(k), **columns})


STATE = table(total=[1])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: 1 / 0, "raised `ZeroDivisionError: division by zero`"),
        (lambda: None, "returned NoneType, expected (state, output), two pyarrow tables"),
        (lambda: (STATE, 7), "returned (Table, int), expected"),
        (
            lambda: (table(total=[1.5]), None),
            "the state that the apply_batch function returned: column `total` is double, expected bigint",
        ),
        (lambda: (table(n=[1]), None), "missing column `total bigint`; unexpected column `n bigint`"),
        (lambda: (table(["a", "a"], total=[1, 2]), None), "returned has the key 'a' in 2 rows, expected each key"),
        (
            lambda: (table(["z"], total=[1]), None),
            "the state that the apply_batch function returned has the key 'z', which",
        ),
        (
            lambda: (STATE, table(total=["x"])),
            "the output that the apply_batch function returned: column `total` is string, expected bigint",
        ),
        (lambda: (STATE, table(["z"], total=[1])), "returned has the key 'z', which is not a key of its rows"),
    ],
)
def test_an_invalid_result_of_an_apply_batch_function_is_refused(made, said):
    t = Tester(pipeline(lambda rows, state, context: made()))
    with pytest.raises(tm.InvalidInput) as caught:
        t.batch([("a", 1)])
    assert said in str(caught.value)
    subject = "operator `totals`: the (apply_batch function|(state|output) that the apply_batch function)"
    assert re.match(subject, str(caught.value))
    assert t.repository.head is None


def test_a_null_state_is_refused():
    def null(rows, state, context):
        return rows.select(["k"]).append_column("state", pa.nulls(rows.num_rows, pa.int64())), None

    with pytest.raises(tm.InvalidInput, match="the state that the apply_batch function returned is null for a key"):
        Tester(pipeline(null, state="long")).batch([("a", 1)])


def test_a_declaration_that_cannot_be():
    for options, said in (
        ({"step": 7}, "apply_batch takes a function, found 7"),
        ({"output": "total long"}, "no column `k`, expected the key column `k` string"),
        ({"output": "k int"}, "the column `k` int32, expected the key column `k` string"),
        ({"state": "k string, n int"}, "stateSchema has the key column `k`, expected state columns only"),
    ):
        with pytest.raises(tm.InvalidInput) as caught:
            pipeline(**options)
        assert said in str(caught.value)
    rows = tm.Pipeline("windows").read(tm.Rows("ts timestamp")).groupBy(tm.window("ts", "1 minute"))
    with pytest.raises(tm.InvalidInput, match="cannot be grouped by windows"):
        rows.apply_batch(totals, "long", "ts timestamp")


class Refusing:
    """A state map that takes no rows."""

    def __init__(self, states):
        self._states = states

    def __getattr__(self, name):
        return getattr(self._states, name)

    def put_many(self, *_):
        raise InvalidInput("there is no memory")


def test_an_error_of_the_engine_is_not_a_failure_of_a_call(monkeypatch):
    """The batch fails. If the call were split and retried, it would see states that are half replaced."""
    opened = ApplyBatch.open

    def refusing(self, maps):
        opened(self, maps)
        self._map = Refusing(self._map)

    t = Tester(pipeline(on_error="quarantine"))
    t.batch([("a", 1)])
    with monkeypatch.context() as patched:
        patched.setattr(ApplyBatch, "open", refusing)
        with pytest.raises(InvalidInput, match="there is no memory"):
            t.batch([("a", -1), ("b", 1)])
    again = t.batch([("c", 1)])  # first what was planned: the same rows
    assert {key: row.total for key, row in again.state.items()} == {"b": 1}
