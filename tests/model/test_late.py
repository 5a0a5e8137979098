"""Late rows with several watermarks, and behind an operator: counted once, put aside where the pipeline says so."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.testing import Tester

AT = "1970-01-01 00:{:02d}:00"


def remember(value, state):
    state.update(1)


SPEC = tm.StateSpec.function(remember).timeout("1 hour", clock="event")


@pytest.mark.parametrize("first", ["drop", "quarantine"])
def test_a_row_late_for_two_operators_is_put_aside_once_whichever_of_them_quarantines(first: str) -> None:
    p = tm.Pipeline("late")
    rows = p.read(tm.Rows("k string, t1 timestamp, t2 timestamp"))
    kinds = {"a": first, "b": "drop" if first == "quarantine" else "quarantine"}
    for (name, late), column in zip(kinds.items(), ("t1", "t2"), strict=True):
        marked = rows.withWatermark(column, "1 minute", late=late)
        marked.groupBy("k").mapWithState(SPEC, "int", "int", name=name)
    t = Tester(p)
    t.batch([("x", AT.format(30), AT.format(30))])
    result = t.batch([("x", AT.format(1), AT.format(1)), ("x", AT.format(40), AT.format(40))])
    assert (result.metrics.late_rows, result.metrics.applied_rows) == (1, 1)
    assert {one["operatorName"]: one["numRowsDroppedByWatermark"] for one in result.metrics.stateOperators} == {
        "a": 1,
        "b": 1,
    }
    assert t.repository.quarantine(1).num_rows == 1


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("late", ["drop", "quarantine"])
def test_a_row_that_becomes_late_behind_an_operator_is_counted_there_and_put_aside(late: str, tasks: int) -> None:
    p = tm.Pipeline("late")
    rows = p.read(tm.Rows("k string, ts timestamp, n int")).withWatermark("ts", "1 minute", late=late)
    once = rows.dropDuplicates(["n"], name="once")
    moved = once.sql("SELECT k, n, ts - INTERVAL 1 HOUR AS ts FROM rows")
    moved.groupBy("k").mapWithState(SPEC, "int", "int", name="behind")
    t = Tester(p, tasks=tasks)
    t.batch([("x", AT.format(30), 1)])
    result = t.batch([("x", AT.format(40), 2), ("y", AT.format(41), 3)])
    found = {one["operatorName"]: one["numRowsDroppedByWatermark"] for one in result.metrics.stateOperators}
    assert found == {"once": 0, "behind": 2}
    assert (result.metrics.late_rows, result.metrics.applied_rows) == (0, 2)
    aside = t.repository.quarantine(1)
    assert aside.num_rows == (2 if late == "quarantine" else 0)
    assert all("late for operator `behind`" in reason for reason in aside.column("reason").to_pylist())
