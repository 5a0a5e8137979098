"""Histories of keys, and what is compared of processors and windows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.differing import declared, state_of
from tests.journeys.shop import arrive, opened, world
from tests.world import World, run


def test_the_history_begins_with_initial_state_or_with_the_oldest_version_that_is_kept(tmp_path: Path) -> None:
    made = World(tmp_path, declared("v int"))
    arrive(tmp_path, "a", "b", "c")
    r = made.open(init=False)
    r.init(initial_state={"last": pa.table({"k": ["a", "z"], "v": pa.array([9, 8], pa.int32())})})
    run(r)
    assert [(one.version, one.kind, one.value) for one in r.history("last", "z")] == [(-1, "init", {"v": 8})]
    assert [(one.version, one.value) for one in r.history("last", "a")] == [(-1, {"v": 9}), (0, {"v": 1})]
    r.maintain(keep_versions=2)
    r = made.open()
    (one,) = r.history("last", "a")
    assert (one.version, one.value, one.is_oldest, one.files) == (1, {"v": 1}, True, [])
    assert [(one.version, one.is_oldest) for one in r.history("last", "c")] == [(2, False)]
    with pytest.raises(tm.InvalidInput, match="version 0 of branch `main`: it is no longer kept"):
        r.diff(0, 2)
    with pytest.raises(tm.InvalidInput, match="history: expected string for the key column `k`, found 7"):
        r.history("last", 7)
    with pytest.raises(tm.InvalidInput, match="unknown operator `lost`; did you mean `last`"):
        r.history("lost", "a")


def test_versions_that_did_not_change_a_key_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(tmp_path, "a", *(f"x{number:02d}" for number in range(30)))
    world(tmp_path).put("x09", "a,1\n")
    r = opened(tmp_path)
    run(r)
    versions: list[int] = []
    read = type(r.opened.log).commit
    monkeypatch.setattr(type(r.opened.log), "commit", lambda log, one: versions.append(one) or read(log, one))
    assert [one.version for one in r.history("counts", "a")] == [0, 10]
    assert len(set(versions)) < 16, versions
    r.maintain()
    versions.clear()
    r = opened(tmp_path)
    assert [one.version for one in r.history("counts", "a")] == [0, 10]
    assert len(set(versions)) < 16, versions
    r.maintain(keep_versions=15)
    r = opened(tmp_path)
    versions.clear()
    assert [(one.version, one.is_oldest) for one in r.history("counts", "a")] == [(16, True)]
    assert len(set(versions)) < 8, versions


class Twice(tm.StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n bigint")
        self.seen = handle.getListState("seen", "v int")
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            before = self.count.get()
            self.count.update(((before[0] if before else 0) + 1,))
            self.seen.appendValue((row.v,))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1_000)
        yield (*key,)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.count.clear()
        yield (*key,)


def test_variables_of_a_processor_are_compared_each_and_lists_have_a_history(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(lambda plan: 100 if plan.splits else 5_000)
        rows = world.read(p)
        rows.groupBy("k").transformWithState(Twice(), "k string", "update", "ProcessingTime", name="twice")

    made = World(tmp_path, build)
    made.arrive("a,1\n", "b,1\n", "a,5\na,6\n")
    r = made.open()
    run(r)
    found = state_of(r, 0, 2, "twice")
    assert (found.added, found.changed) == (1, 1)
    assert found.variables == {"seen": 3, "timers": 1}
    lists = state_of(r, 0, 2, "twice", variable="seen")
    assert (lists.added, lists.removed, lists.changed, lists.variables) == (3, 0, 0, {})
    history = r.history("twice", ("a",), variable="seen")
    assert [(one.version, [row["v"] for row in one.value]) for one in history] == [(0, [1]), (2, [1, 5, 6])]
    r.sweep(engine="local", batch_time=5_000)
    *_, last = r.history("twice", ("a",))
    assert (last.version, last.value, last.fired) == (3, None, [1_100])
    with pytest.raises(tm.InvalidInput, match="unknown variable of the state `sen`; did you mean `seen`"):
        r.diff(0, 2, operator="twice", variable="sen")


def test_windows_are_compared_by_key_and_window(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        windows = world.read(p).withWatermark("ts", "1 hour").groupBy("k", tm.window("ts", "1 minute"))
        windows.agg(n=tm.count(), outputMode="append", name="windows")

    made = World(tmp_path, build, schema="k string, ts timestamp")
    made.arrive("a,2024-01-01T00:00:10\na,2024-01-01T00:01:10\n", "a,2024-01-01T00:01:20\nb,2024-01-01T00:01:20\n")
    r = made.open()
    run(r)
    found = state_of(r, 0, 1, "windows")
    assert (found.added, found.removed, found.changed) == (1, 0, 1)
    rows = {row["k"]: (row["window"]["start"].minute, row["before"], row["after"]) for row in found.table.to_pylist()}
    assert rows == {"a": (1, {"n": 1}, {"n": 2}), "b": (1, None, {"n": 1})}
    first, second = r.history("windows", ("a", dt.datetime(2024, 1, 1, 0, 1)))
    assert [one.value for one in (first, second)] == [{"n": 1}, {"n": 2}]
    assert [[row["ts"].second for row in one.rows] for one in (first, second)] == [[10], [20]]
