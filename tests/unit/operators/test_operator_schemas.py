"""Every operator: a declaration that does not fit the state is refused, and the message shows both."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tidemill.operators.contract import describe
from tidemill.pipeline.job import compile_job
from tidemill.protocol.compatible import compare_operator, refuse_differences, worst

SCHEMA = "k string, other int, ts timestamp, n int"


def keep(*arguments: Any) -> Any:
    return None


class Keeping(tm.StatefulProcessor):
    """One variable of each kind, with the given types."""

    def __init__(self, value: str = "n int", element: str = "n int", entry: str = "n int") -> None:
        self.value, self.element, self.entry = value, element, entry

    def init(self, handle: Any) -> None:
        """Its variables."""
        handle.getValueState("count", self.value)
        handle.getListState("list", self.element)
        handle.getMapState("map", "at string", self.entry)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        """Nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing to close."""


def mapped(state: str = "int", key: str = "k") -> Callable[[Any], Any]:
    return lambda s: s.groupBy(key).mapWithState(tm.StateSpec.function(keep), state, "int", name="op")


def with_number_as_key(s: Any) -> Any:
    """The stream with a key of another type under the same name."""
    return s.sql("SELECT other AS k, n, ts FROM rows")


def mapped_groups(state: str = "total double") -> Callable[[Any], Any]:
    return lambda s: s.groupBy("k").mapGroupsWithState(keep, "k string", state, name="op")


def in_frames(value: str = "n int") -> Callable[[Any], Any]:
    processor = Keeping(value)
    return lambda s: s.groupBy("k").transformWithStateInPandas(processor, "k string", "append", "None", name="op")


def grouped(state: str = "total double") -> Callable[[Any], Any]:
    return lambda s: s.groupBy("k").flatMapGroupsWithState(keep, "k string", state, name="op")


def in_pandas(state: str = "total double") -> Callable[[Any], Any]:
    return lambda s: s.groupBy("k").applyInPandasWithState(keep, "k string", state, "append", "NoTimeout", name="op")


def processed(**types: str) -> Callable[[Any], Any]:
    return lambda s: s.groupBy("k").transformWithState(Keeping(**types), "k string", "append", "None", name="op")


def whole(state: str = "total long") -> Callable[[Any], Any]:
    return lambda s: s.groupBy("k").apply_batch(keep, state, "k string", name="op")


class Living(tm.StatefulProcessor):
    """One variable, with a time to live."""

    def __init__(self, kind: str, ttl_ms: int | None) -> None:
        self.kind, self.ttl_ms = kind, ttl_ms

    def init(self, handle: Any) -> None:
        """Its variable."""
        if self.kind == "value":
            handle.getValueState("seen", "n bigint", self.ttl_ms)
        elif self.kind == "list":
            handle.getListState("seen", "n bigint", self.ttl_ms)
        else:
            handle.getMapState("seen", "n bigint", "m bigint", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        """Nothing."""
        return iter(())


def living(kind: str, ttl_ms: int | None) -> Callable[[Any], Any]:
    processor = Living(kind, ttl_ms)
    return lambda s: s.groupBy("k").transformWithState(processor, "k string", "update", "ProcessingTime", name="op")


CHANGES = {
    "mapWithState: type": (mapped(), mapped("string"), ["state int", "state string"]),
    "mapWithState: name": (mapped("a int"), mapped("b int"), ["a int", "b int"]),
    "mapWithState: key": (mapped(), mapped(key="other"), ["['k']", "['other']"]),
    "mapWithState: type of the key": (mapped(), lambda s: mapped()(with_number_as_key(s)), ["k string", "k int"]),
    "agg: type of the key": (
        lambda s: s.groupBy("k").agg(n=tm.count(), name="op"),
        lambda s: with_number_as_key(s).groupBy("k").agg(n=tm.count(), name="op"),
        ["k string", "k int"],
    ),
    "mapGroups: type": (mapped_groups(), mapped_groups("total float"), ["total double", "total float"]),
    "value state of frames": (in_frames(), in_frames("n short"), ["n int", "n smallint"]),
    "groups: type": (grouped(), grouped("total float"), ["total double", "total float"]),
    "groups: name": (grouped(), grouped("sum double"), ["total double", "sum double"]),
    "pandas: type": (in_pandas(), in_pandas("total long"), ["total double", "total bigint"]),
    "pandas: one more": (
        in_pandas(),
        in_pandas("total double, n int not null"),
        ["total double", "total double, n int not null"],
    ),
    "value state": (processed(), processed(value="n short"), ["n int", "n smallint"]),
    "list state": (processed(), processed(element="m int"), ["n int", "m int"]),
    "map state": (processed(), processed(entry="n string"), ["n int", "n string"]),
    "apply_batch": (whole(), whole("total int"), ["total bigint", "total int"]),
    "agg: function": (
        lambda s: s.groupBy("k").agg(v=tm.sum("n"), name="op"),
        lambda s: s.groupBy("k").agg(v=tm.max("n"), name="op"),
        ["sum(n)", "max(n)"],
    ),
    "agg: column": (
        lambda s: s.groupBy("k").agg(v=tm.sum("n"), name="op"),
        lambda s: s.groupBy("k").agg(v=tm.sum("other"), name="op"),
        ["sum(n)", "sum(other)"],
    ),
    "agg: end of keys": (
        lambda s: s.groupBy("k", "ts").agg(n=tm.count(), name="op"),
        lambda s: s.groupBy("k", "ts").agg(n=tm.count(), name="op", outputMode="append"),
        ["`keys end` = forgotten at ts, this code declares emitted at ts"],
    ),
    "window: size": (
        lambda s: s.groupBy(tm.window("ts", "1 minute")).agg(v=tm.count(), name="op"),
        lambda s: s.groupBy(tm.window("ts", "2 minutes")).agg(v=tm.count(), name="op"),
        ["1 minute", "2 minutes"],
    ),
    "session: gap": (
        lambda s: s.groupBy(tm.session_window("ts", "1 minute"), "k").agg(v=tm.count(), name="op"),
        lambda s: s.groupBy(tm.session_window("ts", "2 minutes"), "k").agg(v=tm.count(), name="op"),
        ["1 minute", "2 minutes"],
    ),
    "duplicates: key": (
        lambda s: s.dropDuplicates(["k"], name="op"),
        lambda s: s.dropDuplicates(["k", "n"], name="op"),
        ["['k']", "['k', 'n']"],
    ),
    "duplicates within: key": (
        lambda s: s.dropDuplicatesWithinWatermark(["k"], name="op"),
        lambda s: s.dropDuplicatesWithinWatermark(["other"], name="op"),
        ["['k']", "['other']"],
    ),
    "duplicates within: no longer": (
        lambda s: s.dropDuplicatesWithinWatermark(["k"], name="op"),
        lambda s: s.dropDuplicates(["k"], name="op"),
        ["= after", "declares never"],
    ),
    "another operator": (mapped(), grouped(), ["map-with-state", "groups-with-state"]),
}


def recorded(declared: Callable[[Any], Any]) -> Any:
    """Return what a repository records of the operator."""
    p = tm.Pipeline("changing")
    declared(p.read(tm.Rows(SCHEMA)).withWatermark("ts", "1 second"))
    return json.loads(json.dumps(describe(compile_job(p).operators["op"].operator)))


def refusal(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> tm.InvalidInput:
    """Return the error of the second declaration over state of the first one."""
    before, after = recorded(first), recorded(second)
    assert compare_operator("op", before, before) == []
    errors = []
    for has_state, status in ((False, {"needs init"}), (True, {"needs migration", "refused"})):
        found = compare_operator("op", before, after, has_state=has_state)
        assert worst(found) in status
        with pytest.raises(tm.InvalidInput) as refused:
            refuse_differences(found)
        errors.append(refused.value)
    assert errors[0].message == errors[1].message
    return errors[0]


@pytest.mark.parametrize("change", CHANGES)
def test_code_that_does_not_fit_the_state_is_refused_with_both_schemas(change: str) -> None:
    first, second, both = CHANGES[change]
    text = str(refusal(first, second))
    assert "`op`" in text
    for part in both:
        assert part in text, text


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize(("before", "after"), [(None, 1000), (1000, None)])
def test_adding_or_removing_a_time_to_live_is_refused(kind: str, before: int | None, after: int | None) -> None:
    shown = {None: kind, 1000: f"{kind} with ttl"}
    assert refusal(living(kind, before), living(kind, after)).first_line == (
        f"operator `op` has state made with `variable seen` = {shown[before]}, this code declares {shown[after]}"
    )
