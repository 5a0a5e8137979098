"""Operators of aggregates made again from their descriptions, and the clocks of descriptions."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from decimal import Decimal
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.everything import pipeline
from tidemill.operators.contract import describe
from tidemill.operators.functions import Aggregate
from tidemill.operators.recorded import clock_of, recorded_aggregates
from tidemill.pipeline.job import compile_job
from tidemill.reading.finished import finished
from tidemill.testing import Tester

AT = dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
NUMBERS: dict[str, list[Any]] = {
    **{kind: [3, None, 5] for kind in ("byte", "short", "int", "bigint")},
    **{kind: [0.1, None, 2.5] for kind in ("float", "double")},
    **{f"decimal({p},{s})": [Decimal(1).scaleb(-s), None, Decimal(3).scaleb(-s)]
       for p, s in [(1, 0), (1, 1), (9, 2), (27, 5), (28, 0), (29, 10), (33, 33), (34, 2), (35, 3), (38, 0), (38, 38)]},
}  # fmt: skip
OTHERS: dict[str, list[Any]] = {
    "boolean": [True, None, False],
    "string": ["x", None, "y"],
    "binary": [b"x", None, b"y"],
    "date": [AT.date(), None, AT.date()],
    "timestamp": [AT, None, AT + dt.timedelta(days=1)],
    "timestamp_ntz": [AT.replace(tzinfo=None), None, AT.replace(tzinfo=None)],
    "struct<a: int, b: array<string>>": [(1, ["x"]), None, (2, None)],
}


def functions(kind: str) -> dict[str, Aggregate]:
    """All functions that accept a column of a type."""
    found = {"n": tm.count(), "known": tm.count("v"), "first": tm.first("v"), "last": tm.last("v")}
    found |= {"low": tm.min_by("v", "i"), "high": tm.max_by("v", "i"), "set": tm.collect_set("v", 7)}
    if not kind.startswith("struct"):
        found |= {"least": tm.min("v"), "most": tm.max("v"), "by": tm.max_by("i", "v")}
        found |= {"about": tm.approx_count_distinct("v", 0.1)}
    if kind in NUMBERS:
        found |= {"sum": tm.sum("v"), "mean": tm.mean("v"), "var": tm.var("v"), "sd": tm.stddev("v")}
    return found


def windows() -> dict[str, Any]:
    return {
        "none": ["k"], "cut": ["k", tm.window("at", "1 hour")], "first": [tm.window("at", "2 hours", "1 hour"), "k"],
        "sessions": [tm.session_window("at", "1 minute"), "k"], "time": ["at", "k"], "only": [tm.window("at", "1 day")],
        "beside": ["at", tm.window("at", "1 hour", startTime="-5 minutes")],
    }  # fmt: skip


def same_values(tester: Tester, name: str) -> None:
    """The operator made again has the maps and output of the one in the code, and finishes its state as it does."""
    operator = tester.repository.opened.job.operators[name].operator
    described = json.loads(json.dumps(describe(operator)))
    again = recorded_aggregates(name, described)
    assert again is not None and describe(again)["maps"] == described["maps"]
    assert again.output_schema == operator.output_schema and again.windows == operator.windows
    rows = tester.repository.state(name, partial=True)
    expected = operator.finished(rows)
    assert rows.num_rows > 0 and again.finished(rows) == expected
    shown = finished(name, described, rows)
    assert len(set(shown.column_names)) == len(operator.output_schema) + 2


@pytest.mark.parametrize(("kind", "over"), [*itertools.product([*NUMBERS, *OTHERS], ["none"]),
                                            *itertools.product(["decimal(9,2)"], windows())])  # fmt: skip
def test_an_operator_is_made_again_with_equal_results(kind: str, over: str) -> None:
    p = tm.Pipeline("again")
    rows = p.read(tm.Rows(f"k string, i int, at timestamp, v {kind}")).withWatermark("at", "1 day")
    mode = {"outputMode": "append"} if over == "sessions" else {}
    rows.groupBy(*windows()[over]).agg(**functions(kind), **mode, name="a")
    tester = Tester(p)
    values = (NUMBERS | OTHERS)[kind]
    tester.batch([("k", i, AT + dt.timedelta(minutes=i), value) for i, value in enumerate(values)])
    tester.batch([("j", 1, AT, None)])
    same_values(tester, "a")


def test_windows_of_an_operator_upstream_and_odd_names_are_made_again() -> None:
    p = tm.Pipeline("again")
    rows = p.read(tm.Rows("`a, (b` string, deadline int, at timestamp, `input 0` double")).withWatermark("at", "0 s")
    hourly = rows.groupBy("deadline", tm.window("at", "1 hour")).agg(
        **{"a.b": tm.sum("input 0"), "x": tm.max_by("a, (b", "input 0")}, name="hourly", outputMode="append"
    )
    hourly.groupBy("window", "x").agg(n=tm.count(), name="of-window", outputMode="append")
    rows.groupBy("input 0", "a, (b").agg(updated_at=tm.mean("input 0"), name="odd")
    tester = Tester(p)
    day = dt.timedelta(days=1)
    tester.batch([("x", 1, AT, 0.5), ("y", 2, AT, 1.5)])
    tester.batch([("x", 1, AT + day, 0.5)])
    tester.batch([("x", 1, AT + day, 2.5)])
    same_values(tester, "hourly")
    same_values(tester, "odd")
    operator = tester.repository.opened.job.operators["of-window"].operator
    again = recorded_aggregates("of-window", describe(operator))
    assert again is not None and describe(again)["maps"] == describe(operator)["maps"]


def test_what_says_too_little_is_not_guessed() -> None:
    p = tm.Pipeline("again")
    p.read(tm.Rows("k string, v int")).groupBy("k").agg(n=tm.count(), mean=tm.mean("v"), name="a")
    described = describe(compile_job(p).operators["a"].operator)
    assert recorded_aggregates("a", described) is not None
    for part, value in {
        "rules": {"n": "count(*)"}, "output": "k string, n bigint", "key": ["j"],
        "maps": {"partials": {"key": "k string", "sub_key": "", "value": "n bigint"}},
    }.items():  # fmt: skip
        assert recorded_aggregates("a", {**described, part: value}) is None
    unknown = {**described, "rules": {**described["rules"], "mean": "median(v)"}}
    rows = Tester(p).repository.state("a", partial=True)
    with pytest.raises(tm.InvalidInput, match="does not know the aggregates that are recorded of operator `a`"):
        finished("a", unknown, rows)
    with pytest.raises(tm.InvalidInput, match="hint: read them as they are with partial=True"):
        finished("a", {name: one for name, one in described.items() if name != "rules"}, rows)
    assert recorded_aggregates("a", {**described, "kind": "map-with-state"}) is None


def test_the_clock_of_a_description_is_that_of_the_operator(tmp_path: Any) -> None:
    operators = {name: one.operator for name, one in compile_job(pipeline(tmp_path)).operators.items()}
    p = tm.Pipeline("clocks")
    rows = p.read(tm.Rows("k string, v int, at timestamp")).withWatermark("at", "0 s")

    def kept(key: Any, rows: Any, state: Any) -> Any:
        return iter([])

    for number, timeout in enumerate(["NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"]):
        rows.groupBy("k").flatMapGroupsWithState(
            kept,
            outputSchema="k string",
            stateSchema="int",
            outputMode="append",
            timeoutConf=timeout,
            name=f"g{number}",
        )
    rows.groupBy("k").dropDuplicates(name="ever")
    rows.groupBy("at", "k").agg(n=tm.count(), name="by-time")
    rows.groupBy("k").mapWithState(tm.StateSpec.function(kept), "int", "k string", name="plain")
    rows.groupBy("k").agg(**{"window ends": tm.count()}, name="named-so")
    operators |= {name: one.operator for name, one in compile_job(p).operators.items()}
    assert {name: clock_of(describe(one)) for name, one in operators.items()} == {
        name: one.clock for name, one in operators.items()
    }
    assert {one.clock for one in operators.values()} == {None, "batch", "event"}
    assert clock_of({"kind": "from-the-future", "rules": {"x": "y"}}) is None
