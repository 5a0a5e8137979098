"""State that depends on the type of a column: the column may not change to a type whose equal values differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, over, run
from tidemill.protocol.compatible import accepted_changes, compare_operator


def shop(folder: Path, schema: str, operator: Any) -> World:
    return World(folder, over(operator), schema=schema, maxFilesPerTrigger=None)


def distinct(rows: Any) -> Any:
    return rows.groupBy("k").agg(n=tm.approx_count_distinct("v"), name="distinct")


def kept(rows: Any) -> Any:
    return rows.groupBy("k").agg(n=tm.collect_set("v", limit=10), name="kept")


def by_value(rows: Any) -> Any:
    return rows.groupBy("v").agg(n=tm.count(), name="by-value")


def first_rows(rows: Any) -> Any:
    return rows.groupBy("v").dropDuplicates(name="first-rows")


@pytest.mark.parametrize(
    ("operator", "before", "after", "what"),
    [
        (distinct, "int", "bigint", "input"),
        (distinct, "float", "double", "input"),
        (kept, "float", "double", "state"),
        (by_value, "float", "double", "key"),
        (first_rows, "float", "double", "key"),
    ],
)
def test_a_type_whose_equal_values_would_differ_is_refused(
    tmp_path: Path, operator: Any, before: str, after: str, what: str
) -> None:
    first = shop(tmp_path, f"k string, v {before}", operator)
    first.put("1", "a,1\na,2\n")
    first.run()
    changed = shop(tmp_path, f"k string, v {after}", operator).open(init=False)
    found = changed.check()
    assert found.status == "needs migration"
    assert {(one.what, one.before, one.after) for one in found.differences if one.status != "compatible"} == {
        (what, before, after)
    }
    first.put("2", "a,1\n")
    with pytest.raises(tm.InvalidInput, match=r"operator `[a-z-]+` has "):
        run(changed)


@pytest.mark.parametrize("operator", [by_value, first_rows, kept])
def test_a_wider_integer_is_the_same_value(tmp_path: Path, operator: Any) -> None:
    first = shop(tmp_path, "k string, v int", operator)
    first.put("1", "a,1\na,2\n")
    first.run()
    first.put("2", "a,1\na,3000000000\n")
    wider = shop(tmp_path, "k string, v bigint", operator).open(init=False)
    assert wider.check().status == "compatible"
    run(wider)
    state = wider.state().to_pylist()
    values = state[0]["n"] if operator is kept else [row["v"] for row in state]
    assert sorted(values) == [1, 2, 3_000_000_000]


def test_a_recorded_type_of_an_input_is_compared() -> None:
    rules = {"n": "approx_count_distinct(v, 9)"}
    recorded: dict[str, Any] = {"kind": "aggregate", "key": ["k"], "maps": {}, "output": "", "rules": rules}
    (one,) = compare_operator("distinct", recorded | {"inputs": {"n": "int"}}, recorded | {"inputs": {"n": "bigint"}})
    assert (one.what, one.status) == ("input", "needs migration")


def test_a_watermark_that_moved_to_another_column_is_a_difference(tmp_path: Path) -> None:
    def by(column: str) -> Any:
        return lambda rows: (
            rows.withWatermark(column, "1 hour").groupBy("k").agg(n=tm.count(), name="n"),
            rows.withWatermark(column, "1 hour").groupBy("k").dropDuplicatesWithinWatermark(name="seen"),
        )

    schema = "k string, made timestamp, sent timestamp"
    first = shop(tmp_path, schema, by("made"))
    first.put("1", "a,2024-01-01 00:00:00,2024-01-02 00:00:00\n")
    first.run()
    assert first.open().check().differences == []
    (one,) = shop(tmp_path, schema, by("sent")).open(init=False).check().differences
    assert (one.what, one.before, one.after, one.status) == ("watermark", "source.made", "source.sent", "compatible")
    starts = "2023-12-31T23:00:00.000Z"
    assert one.outcome == f"it starts at {starts}; rows whose new event time is not later than that are late"
    first.put("2", "b,2024-01-01 00:00:00,2023-12-31 23:00:00\nc,2023-01-01 00:00:00,2024-01-01 00:00:00\n")
    moved = shop(tmp_path, schema, by("sent")).open(init=False)
    run(moved)
    assert moved.head.operators["seen"].late_rows == 1


def test_a_watermark_that_moved_fires_what_a_reset_made_due(tmp_path: Path) -> None:
    """The new one starts at the least of those so far, not in 1970, when a run looks whether timeouts are due."""

    def by(column: str) -> Any:
        return lambda rows: rows.withWatermark(column, "1 hour").groupBy("k").dropDuplicatesWithinWatermark(name="seen")

    schema = "k string, made timestamp, sent timestamp"
    first = shop(tmp_path, schema, by("made"))
    first.put("1", "a,2024-01-01 00:00:00,2024-01-02 00:00:00\n")
    first.run()
    first.open().reset(watermark="2024-01-03", reason="the clock of a shop was wrong")
    moved = shop(tmp_path, schema, by("sent")).open(init=False)
    run(moved)
    assert (moved.head.kind, moved.state().num_rows) == ("sweep", 0)


def test_a_migration_gives_a_float_key_the_double_that_was_meant(tmp_path: Path) -> None:
    first = shop(tmp_path, "k string, v float", by_value)
    first.put("1", "a,0.1\na,0.5\n")
    first.run()

    def rounded(rows: pa.Table) -> pa.Table:
        values = [round(value, 6) for value in rows.column("v").to_pylist()]
        return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(values, pa.float64()))

    doubled = shop(tmp_path, "k string, v double", by_value).open(init=False)
    doubled.migrate({"by-value": rounded}, reason="amounts are doubles now")
    first.put("2", "a,0.1\n")
    run(doubled)
    assert sorted((row["v"], row["n"]) for row in doubled.state().to_pylist()) == [(0.1, 2), (0.5, 1)]


def test_float_keys_of_maps_in_the_state_stay_float(tmp_path: Path) -> None:
    def of(kind: str) -> Any:
        def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
            state.update([(0.5, 1)])
            return (key,)

        return lambda rows: rows.groupBy("k").mapWithState(
            tm.StateSpec.function(track), f"map<{kind},int>", "k string", name="counts"
        )

    first = shop(tmp_path, "k string, v int", of("float"))
    first.put("1", "a,1\n")
    first.run()
    found = shop(tmp_path, "k string, v int", of("double")).open(init=False).check()
    assert found.status == "needs migration"


def test_check_names_a_type_that_was_not_recorded() -> None:
    rules = {"n": "approx_count_distinct(v, 9)"}
    recorded: dict[str, Any] = {"kind": "aggregate", "key": ["k"], "maps": {}, "output": "", "rules": rules}
    (one,) = compare_operator("distinct", recorded, recorded | {"inputs": {"n": "bigint"}})
    assert (one.what, one.field, one.after, one.status) == ("input", "n", "bigint", "compatible")
    assert "did not record its type" in one.outcome


class Seen(tm.StatefulProcessor):
    """Has two variables, whose types a test chooses."""

    def __init__(self, key: str, count: str) -> None:
        self.key, self.count = key, count

    def init(self, handle: Any) -> None:
        self.seen = handle.getMapState("seen", f"v {self.key}", "hits int")
        self.last = handle.getValueState("last", f"n {self.count}")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            hits = self.seen.getValue((row.v,))[0] if self.seen.containsKey((row.v,)) else 0
            self.seen.updateValue((row.v,), (hits + 1,))
            self.last.update((str(hits) if self.count == "string" else hits,))
        yield (key[0],)

    def close(self) -> None:
        pass


def seen(key: str, count: str) -> Any:
    processor = Seen(key, count)
    return lambda rows: rows.groupBy("k").transformWithState(processor, "k string", "Append", "None", name="seen")


def test_a_user_key_that_becomes_a_double_needs_a_function_for_its_variable(tmp_path: Path) -> None:
    first = shop(tmp_path, "k string, v float", seen("float", "int"))
    first.put("1", "a,0.1\na,0.5\n")
    first.run()
    doubled = shop(tmp_path, "k string, v double", seen("double", "string")).open(init=False)
    key, last = (one for one in doubled.check().differences if one.status != "compatible")
    assert (key.what, key.field, key.before, key.after) == ("sub_key", "v", "float", "double")
    assert key.message.startswith(
        "operator `seen` has for its variable `seen` the user key schema `v float`, this code declares `v double` ("
    )
    assert (last.what, last.field, last.before, last.after) == ("state", "n", "int", "string")

    def as_text(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index("n"), "n", rows.column("n").cast("string"))

    def rounded(rows: pa.Table) -> pa.Table:
        values = [round(value, 6) for value in rows.column("v").to_pylist()]
        return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(values, pa.float64()))

    with pytest.raises(
        tm.InvalidInput, match=r"the map `seen` has other columns now \(column `v` is float, now double"
    ):
        doubled.migrate({"seen": {"last": as_text}}, reason="amounts are doubles now")
    doubled.migrate({"seen": {"last": as_text, "seen": rounded}}, reason="amounts are doubles now")
    first.put("2", "a,0.1\n")
    run(doubled)
    found = doubled.state("seen", variable="seen").to_pylist()
    assert sorted((row["v"], row["hits"]) for row in found) == [(0.1, 2), (0.5, 1)]


TIMED: dict[str, Any] = {
    "window": lambda rows: rows.groupBy(tm.window("ts", "1 hour"), "k").agg(n=tm.count(), name="window"),
    "sessions": lambda rows: rows.groupBy(tm.session_window("ts", "1 hour"), "k").agg(n=tm.count(), name="sessions"),
    "key": lambda rows: rows.groupBy("ts", "k").agg(n=tm.count(), name="key"),
    "first": lambda rows: rows.groupBy("ts", "k").dropDuplicates(name="first"),
    "within": lambda rows: rows.groupBy("k").dropDuplicatesWithinWatermark(name="within"),
}
NTZ = ("timestamp", "timestamp_ntz")


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("window", NTZ, "key"),
        ("window", NTZ[::-1], "key"),
        ("sessions", NTZ, "sub_key"),
        ("sessions", NTZ[::-1], "sub_key"),
        ("key", NTZ, "key"),
        ("key", ("date", "timestamp"), "key"),
        ("first", NTZ, "key"),
        ("first", ("date", "timestamp"), "key"),
        ("within", NTZ, None),
        ("within", ("date", "timestamp"), None),
        ("within", ("timestamp", "date"), None),
    ],
)
def test_a_time_column_of_another_type_is_refused_if_state_has_its_times(
    tmp_path: Path, name: str, change: tuple[str, str], what: str | None
) -> None:
    """`dropDuplicatesWithinWatermark` has only deadlines. They are instants, so they mean the same with any type."""

    def timed(rows: Any) -> Any:
        return TIMED[name](rows.withWatermark("ts", "1 hour"))

    first = shop(tmp_path, f"k string, ts {change[0]}", timed)
    first.put("1", "a,2024-01-01\n")
    first.run()
    changed = shop(tmp_path, f"k string, ts {change[1]}", timed).open(init=False)
    found = [one for one in changed.check().differences if one.status != "compatible"]
    first.put("2", "a,2024-01-01\nb,2024-01-01\nb,2024-02-01\n")
    if what is None:
        assert found == []
        run(changed)
        assert changed.outputs(1, "within").column("k").to_pylist() == ["b"]
        return
    assert (found[0].what, found[0].before, found[0].after) == (what, *change)
    with pytest.raises(tm.InvalidInput, match=f"operator `{name}` has {what} schema"):
        run(changed)


def test_check_names_an_unknown_type_only_if_the_state_leaves_it_open() -> None:
    rules = {"n": "sum(v)"}
    recorded: dict[str, Any] = {"kind": "aggregate", "key": ["k"], "maps": {}, "output": "", "rules": rules}
    assert compare_operator("sums", recorded, recorded | {"inputs": {"n": "bigint"}}) == []
    (one,) = compare_operator("sums", recorded, recorded | {"inputs": {"n": "double"}})
    assert (one.what, one.field, one.after, one.status) == ("input", "n", "double", "compatible")
    assert accepted_changes({"sums": recorded}, {"sums": recorded | {"inputs": {"n": "double"}}}) == {
        "sums": ["input of `n`: double, not recorded before"]
    }
