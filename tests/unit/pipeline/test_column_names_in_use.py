"""Columns of any names: they never clash with columns of an operator's state or key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, over
from tidemill.testing import Tester

TIME = "2020-01-01T00:00:0"
STATE = "deadline int, deleted string, updated_at int, _exists boolean"
KEPT = ["value.deadline", "value.deleted", "value.updated_at", "_exists"]
SYSTEM = ["updated_at", "deadline"]


def stepped(state: Any, n: int) -> tuple[Any, ...]:
    """The next state, by the names of the state's columns, for each kind of function."""
    found = state.get if state.exists else (0, "", 0, None)
    made = (found[0] + n, found[1] + "x", found[2] + 1, n > 1)
    state.update(made)
    return made


def mapped(key: str, row: Any, state: Any) -> Any:
    return (key, *stepped(state, row.n))


def grouped(key: str, rows: Any, state: Any) -> Any:
    return (key, *stepped(state, sum(row.n for row in rows)))


def many(key: str, rows: Any, state: Any) -> Any:
    if not state.hasTimedOut:
        state.setTimeoutDuration(10_000)
        yield grouped(key, rows, state)


def in_pandas(key: Any, pdfs: Any, state: Any) -> Any:
    import pandas

    made = stepped(state, sum(int(pdf["n"].sum()) for pdf in pdfs))
    yield pandas.DataFrame([(*key, *made)], columns=["deleted", "deadline", "b", "c", "d"])


def at_once(rows: pa.Table, state: pa.Table, context: Any) -> Any:
    known = {row["deleted"]: row for row in state.to_pylist()}
    after = {}
    for row in rows.to_pylist():
        found = after.get(row["deleted"]) or known.get(row["deleted"])
        old = found or {"deadline": 0, "updated_at": 0, "_exists": None}
        after[row["deleted"]] = {"deleted": row["deleted"], "deadline": old["deadline"] + row["n"],
                                 "updated_at": old["updated_at"] + 1, "_exists": row["n"] > 1}  # fmt: skip
    table = pa.Table.from_pylist(list(after.values()), schema=state.schema)
    return table, table.select(["deleted", "deadline"])


OUTPUT = "deleted string, deadline int, b string, c int, d boolean"
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "mapWithState": lambda s: s.mapWithState(tm.StateSpec.function(mapped), STATE, OUTPUT, name="op"),
    "mapGroupsWithState": lambda s: s.mapGroupsWithState(grouped, OUTPUT, STATE, name="op"),
    "flatMapGroupsWithState": lambda s: s.flatMapGroupsWithState(
        many, OUTPUT, STATE, "update", "ProcessingTimeTimeout", name="op"
    ),
    "applyInPandasWithState": lambda s: s.applyInPandasWithState(
        in_pandas, OUTPUT, STATE, "update", "NoTimeout", name="op"
    ),
}


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("method", OPERATORS)
def test_states_of_functions_may_have_any_names(method: str, tasks: int) -> None:
    p = tm.Pipeline("named")
    OPERATORS[method](p.read(tm.Rows("deleted string, n int")).groupBy("deleted"))
    tester = Tester(p, tasks=tasks)
    tester.batch([("a", 1), ("b", 2)])
    tester.restart()
    result = tester.batch([("a", 3)])
    assert result.outputs == [("a", 4, "xx", 2, True)]
    assert result.state == {"a": (4, "xx", 2, True), "b": (2, "x", 1, True)}
    assert result.state["a"].deadline == 4
    marker = ["value._exists"] if method == "flatMapGroupsWithState" else []
    state = tester.repository.state("op", keys=["a"])
    assert state.schema.names == ["key.deleted", *KEPT, *marker, *SYSTEM]
    assert state.column("value.deadline").to_pylist() == [4]
    chosen = tester.repository.state("op", where="\"key.deleted\" = 'b'", columns=["value.deadline"])
    assert chosen.to_pylist() == [{"value.deadline": 2}]


def test_a_state_may_have_the_columns_of_the_key() -> None:
    def count(key: Any, rows: Any, state: Any) -> Any:
        n = len(list(rows)) + (state.get.n if state.exists else 0)
        state.update({"user": f"{key}!", "n": n})
        return n

    p = tm.Pipeline("named")
    p.read(tm.Rows("user string")).groupBy("user").mapGroupsWithState(count, "int", "user string, n int", name="op")
    tester = Tester(p)
    tester.batch(["a", "b"])
    result = tester.batch(["a"])
    assert (result.outputs, result.state) == ([(2,)], {"a": ("a!", 2), "b": ("b!", 1)})
    assert tester.repository.state("op").schema.names == ["user", "value.user", "n", *SYSTEM]


def test_a_key_may_be_called_state() -> None:
    def total(value: Any, state: Any) -> Any:
        state.update((state.getOption or 0) + value.n)
        return state.get

    p = tm.Pipeline("named")
    keyed = p.read(tm.Rows("state string, n int")).groupBy("state")
    keyed.mapWithState(tm.StateSpec.function(total).initialState([("a", 5)]), "int", "int", name="op")
    tester = Tester(p)
    result = tester.batch([("a", 1), ("b", 2)])
    assert (sorted(result.outputs), result.state) == ([(2,), (6,)], {"a": 6, "b": 2})
    assert tester.repository.state("op").schema.names == ["state", "value.state", *SYSTEM]


@pytest.mark.parametrize("tasks", [1, 3])
def test_apply_batch_sees_its_own_names(tasks: int) -> None:
    p = tm.Pipeline("named")
    keyed = p.read(tm.Rows("deleted string, n int")).groupBy("deleted")
    state = "deadline int, updated_at int, _exists boolean"
    keyed.apply_batch(at_once, state, "deleted string, deadline int", name="op", on_error="quarantine")
    tester = Tester(p, tasks=tasks)
    tester.batch([("a", 1), ("b", 2)])
    result = tester.batch([("a", 3), ("a", 1)])
    assert (result.outputs, result.state) == ([("a", 5)], {"a": (5, 3, False), "b": (2, 1, True)})
    assert tester.repository.state("op").schema.names == [
        *("key.deleted", "value.deadline", "value.updated_at", "_exists"),
        *SYSTEM,
    ]
    with pytest.raises(
        tm.InvalidInput, match=r"stateSchema has the key column `k`, expected state columns only\nhint: remove `k` from"
    ):
        tm.Pipeline("p").read(tm.Rows("k int")).groupBy("k").apply_batch(at_once, "k int", "k int")
    with pytest.raises(tm.InvalidInput, match="hint: name the state's column: stateSchema='total double'"):
        tm.Pipeline("p").read(tm.Rows("state int")).groupBy("state").apply_batch(at_once, "int", "state int")


class Counting(tm.StatefulProcessor):
    """Counts the rows of a key, and emits the count again when its timer fires."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "deleted int")
        self.map = handle.getMapState("map", "expiry_ms string", "deadline int")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.value.update((initialState.deadline * 100,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        n = sum(1 for _ in rows) + (self.value.get() or (0,))[0]
        self.value.update((n,))
        self.map.updateValue((key[0],), (n,))
        self.handle.registerTimer(int(timerValues.getCurrentProcessingTimeInMs()) + 500)
        yield (*key, n)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield (key.deleted, key.expiry_ms, key.row, -self.value.get()[0])


@pytest.mark.parametrize("tasks", [1, 3])
def test_keys_of_processors_may_be_called_as_columns_of_their_maps_are(tasks: int) -> None:
    number = pa.int32()
    columns = [pa.array([1, 2], number), ["a", "c"], ["x", "z"], pa.array([1, 3], number)]
    given = pa.table(columns, names=["deadline", "deleted", "row", "expiry_ms"])
    p = tm.Pipeline("named")
    keyed = p.read(tm.Rows("deleted string, expiry_ms int, row string")).groupBy("deleted", "expiry_ms", "row")
    output = "deleted string, expiry_ms int, row string, n int"
    keyed.transformWithState(Counting(), output, "update", "ProcessingTime", initialState=given, name="op")
    tester = Tester(p, tasks=tasks)
    result = tester.batch([("a", 1, "x"), ("b", 2, "y")])
    assert sorted(result.outputs) == [("a", 1, "x", 101), ("b", 2, "y", 1)]
    assert result.state["value"] == {("a", 1, "x"): (101,), ("b", 2, "y"): (1,), ("c", 3, "z"): (200,)}
    tester.restart()
    result = tester.batch([("a", 1, "x")])
    assert sorted(result.outputs) == [("a", 1, "x", -102), ("a", 1, "x", 102), ("b", 2, "y", -1)]
    assert result.state["map"] == {("a", 1, "x"): {"a": (102,)}, ("b", 2, "y"): {"b": (1,)}}
    key = ["key.deleted", "expiry_ms", "row"]
    named = {
        of: tester.repository.state("op", variable=of).schema.names for of in ("value", "map", "timers", "initial")
    }
    assert named == {
        "value": [*key, "value.deleted", *SYSTEM],
        "map": [*key, "key.expiry_ms", "value.deadline", *SYSTEM],
        "timers": [*key, "sub_key.expiry_ms", *SYSTEM],
        "initial": [*key, "sub_key.row", "value.deadline", *SYSTEM],
    }


@pytest.mark.parametrize("names", [["deleted", "deadline", "state"], ["key.deleted", "value.deadline", "state"]])
def test_an_initial_state_has_the_declared_names_or_those_that_the_state_has(names: list[str]) -> None:
    def reported(key: Any, rows: Any, state: Any) -> Any:
        return (key, *state.get, sum(1 for _ in rows))

    given = pa.table([["a", "b"], pa.array([1, 2], pa.int32()), ["x", "y"]], names=names)
    p = tm.Pipeline("named")
    keyed = p.read(tm.Rows("deleted string")).groupBy("deleted")
    keyed.mapGroupsWithState(
        reported, "k string, n int, s string, rows int", "deadline int, state string", initialState=given, name="op"
    )
    assert sorted(Tester(p).batch(["a"]).outputs) == [("a", 1, "x", 1), ("b", 2, "y", 0)]


def test_an_initial_state_of_columns_that_the_key_has_too(tmp_path: Path) -> None:
    def reported(key: Any, rows: Any, state: Any) -> Any:
        return (key, *state.get)

    def keyed(rows: tm.Stream) -> None:
        rows.groupBy("user").mapGroupsWithState(reported, "k string, u string, n int", "user string, n int", name="op")

    r = World(tmp_path, over(keyed), schema="user string").open(init=False)
    r.init(initial_state={"op": [("a", {"user": "A", "n": 1})]})
    state = r.state("op")
    assert state.to_pylist()[0] | {"updated_at": 0} == {
        "user": "a", "value.user": "A", "n": 1, "updated_at": 0, "deadline": None,
    }  # fmt: skip
    again = World(tmp_path, over(keyed), schema="user string", root="again").open(init=False)
    with pytest.raises(tm.InvalidInput, match="updated_at"):
        again.init(initial_state={"op": state})
    again.init(initial_state={"op": r.state("op", columns=["user", "value.user", "n"])})
    assert again.state("op").equals(state)


def test_deduplicated_keys_may_have_any_names() -> None:
    p = tm.Pipeline("named")
    rows = p.read(tm.Rows("deleted string, deadline timestamp, updated_at int")).withWatermark("deadline", "1 second")
    rows.dropDuplicates(["deleted", "deadline"], name="op")
    tester = Tester(p, tasks=3)
    row = ("a", datetime(2020, 1, 1), 1)
    assert sorted(kept[0] for kept in tester.batch([row, row, ("b", None, 2)]).outputs) == ["a", "b"]
    assert tester.batch([row, ("b", None, 3)]).outputs == []
    assert tester.repository.state("op").schema.names == ["key.deleted", "key.deadline", *SYSTEM]


@pytest.mark.parametrize("tasks", [1, 3])
def test_aggregates_may_be_called_like_columns_of_the_state(tasks: int) -> None:
    named: Any = {"updated_at": tm.max("n"), "deadline": tm.first("n"), "deleted": tm.mean("n")}
    p = tm.Pipeline("named")
    rows = p.read(tm.Rows("k string, ts timestamp, n int")).withWatermark("ts", "0 seconds")
    rows.groupBy("k").agg(**named, name="by-key")
    rows.groupBy("k", tm.window("ts", "10 seconds")).agg(**named, outputMode="append", name="by-window")
    rows.groupBy("k", tm.session_window("ts", "5 seconds")).agg(**named, name="by-session")
    tester = Tester(p, tasks=tasks)
    tester.batch([("a", TIME + "0", 3), ("b", TIME + "1", 7)])
    tester.restart()
    outputs = tester.batch([("a", TIME + "2", 5), ("b", "2020-01-01T01:00:00", None)]).outputs
    assert sorted(outputs["by-key"]) == [("a", 5, 3, 4.0), ("b", 7, 7, 7.0)]
    for name in ("by-window", "by-session"):
        assert sorted((k, *cells) for k, _, *cells in outputs[name]) == [("a", 5, 3, 4.0), ("b", 7, 7, 7.0)]
    state = tester.repository.state("by-key", partial=True)
    kept = ["value.updated_at", "value.deadline", "deadline.set", "deleted.sum", "deleted.count"]
    assert state.schema.names == ["k", *kept, *SYSTEM]
    assert sorted(state.column("value.updated_at").to_pylist()) == [5, 7]
    for name in ("by-key", "by-window", "by-session"):
        values = ["value.updated_at", "value.deadline", "value.deleted", *SYSTEM]
        assert tester.repository.state(name).schema.names[-5:] == values


def test_aggregates_may_be_called_like_parts_of_others() -> None:
    named: Any = {"x": tm.mean("n"), "x.sum": tm.max("n"), "deadline": tm.count(), "value.deadline": tm.min("n")}
    p = tm.Pipeline("named")
    p.read(tm.Rows("k string, n int")).groupBy("k").agg(**named, name="op")
    tester = Tester(p, tasks=3)
    tester.batch([("a", 1)])
    tester.restart()
    assert tester.batch([("a", 4)]).outputs == [("a", 2.5, 4, 2, 1)]
    kept = ["x.sum", "x.count", "value.x.sum", "value.deadline", "value.value.deadline"]
    assert tester.repository.state("op", partial=True).schema.names == ["k", *kept, *SYSTEM]
    finished = ["x", "x.sum", "value.deadline", "value.value.deadline"]
    assert tester.repository.state("op").schema.names == ["k", *finished, *SYSTEM]


@pytest.mark.parametrize("first", [False, True])
def test_keys_beside_windows_may_be_called_as_columns_of_their_state(first: bool) -> None:
    p = tm.Pipeline("named")
    rows = p.read(tm.Rows("window_start timestamp, at timestamp, n int")).withWatermark("window_start", "5 seconds")
    window = tm.window("at", "10 seconds")
    keys = (window, "window_start") if first else ("window_start", window)
    rows.groupBy(*keys).agg(n=tm.sum("n"), outputMode="append", name="op")
    tester = Tester(p)
    tester.batch([(TIME + "1", TIME + "0", 1), (TIME + "1", TIME + "3", 2), (TIME + "9", TIME + "0", 4)])
    state = tester.repository.state("op", partial=True)
    assert state.schema.names == ["window_start", "key.window_start", "n", *SYSTEM]
    assert state.column("deadline").to_pylist() == [datetime(2020, 1, 1, 0, 0, 9, tzinfo=UTC)]  # keys end, not windows
    assert tester.batch([("2020-01-01T01:00:00", None, 8)]).rows[0]["n"] == 4


def test_two_output_columns_of_one_name_are_refused() -> None:
    rows = tm.Pipeline("p").read(tm.Rows("window int, session_window int, k int, ts timestamp"))
    with pytest.raises(
        tm.InvalidInput, match="groupBy: tm.window makes the column `window`, which is also a key column"
    ):
        rows.groupBy("window", tm.window("ts", "1 hour"))
    with pytest.raises(tm.InvalidInput, match="groupBy: tm.session_window makes the column `session_window`"):
        rows.groupBy("session_window", tm.session_window("ts", "1 hour"))
    with pytest.raises(tm.InvalidInput, match="operator `agg` has two columns named `window`"):
        rows.groupBy(tm.window("ts", "1 hour")).agg(window=tm.count())
    assert rows.groupBy(tm.window("ts", "1 hour")).agg(most=tm.max("window")).schema.names == ["window", "most"]


def test_names_that_do_not_clash_stay_as_they_are() -> None:
    def kept(key: list[str], value: list[str]) -> list[list[str]]:
        return tm._native.distinct_names(key, [], value)

    assert kept(["a", "key.b"], ["b", "state", "value.a"]) == [["a", "key.b"], [], ["b", "state", "value.a"]]
    assert kept(["a", "Deleted"], ["A", "value.a"]) == [["a", "key.Deleted"], [], ["value.A", "value.value.a"]]
    assert kept(["deleted", "key.deleted"], ["key.deleted"]) == [
        ["key.deleted", "key.key.deleted"],
        [],
        ["value.key.deleted"],
    ]


def test_a_state_is_searched_where_names_differ_by_case_alone(tmp_path: Path) -> None:
    """DuckDB, which evaluates conditions, ignores the case of names."""
    world = World(
        tmp_path,
        over(lambda s: s.groupBy("Deadline").agg(UPDATED_AT=tm.sum("v"), name="op")),
        schema="Deadline string, v int",
    )
    world.arrive("a,1\n")
    world.run()
    repository = world.open()
    assert repository.outputs().column_names == ["Deadline", "UPDATED_AT", "_batch_id", "_seq"]
    found = repository.state("op", where="\"key.deadline\" = 'a' AND deadline IS NULL")
    assert found.select(["key.Deadline", "value.UPDATED_AT"]).to_pylist() == [
        {"key.Deadline": "a", "value.UPDATED_AT": 1}
    ]
