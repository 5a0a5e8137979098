"""Sinks that were added later: `publish --from` fills them from kept outputs, and corrections know what they have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemill as tm
from tests.world import Build, World, run

Calls = list[tuple[int, list[int], list[int]]]


def counting(*outs: Callable[[tm.Stream, World], Any]) -> Build:
    def build(p: tm.Pipeline, world: World) -> None:
        counts = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        for out in outs:
            out(counts, world)

    return build


def plain(counts: tm.Stream, world: World) -> None:
    counts.write(tm.Json(world.out))


def other(counts: tm.Stream, world: World) -> None:
    counts.write(tm.Json(world.sink("other")), "other")


def parquet(counts: tm.Stream, world: World) -> None:
    counts.write(tm.Parquet(world.sink("by-key"), partitionBy=["k"]), "by-key")


def function(calls: Calls) -> Callable[[tm.Stream, World], Any]:
    def fn(table: Any, batch_id: int, withdrawn: tuple[int, ...] = ()) -> None:
        calls.append((batch_id, table.column("_batch_id").to_pylist(), list(withdrawn)))

    return lambda counts, world: counts.foreachBatch(fn, name="call")


def without_sink(folder: Path) -> World:
    """Three versions of a pipeline that keeps its output in the repository."""
    world = World(folder, counting())
    world.arrive("a,1\n", "b,1\na,1\n", "a,1\n")
    world.run()
    return world


def keys(world: World, sink: str = "out") -> list[tuple[int, str]]:
    return [(row["_batch_id"], row["k"]) for row in world.published(sink)]


KEYS = [(0, "a"), (1, "a"), (1, "b"), (2, "a")]


def clean(r: tm.Repository) -> bool:
    return not r.verify(deep=True).problems


# filled


def test_a_sink_of_an_operator_that_had_none_is_filled(tmp_path: Path) -> None:
    world = without_sink(tmp_path).but(counting(plain))
    r = world.open()
    assert r.publish(0) == [0, 1, 2]
    assert keys(world) == KEYS
    assert (r.head.version, r.head.kind) == (3, "fill")
    assert r.publish(0) == [3] and r.head.version == 3
    world.arrive("c,1\n")
    assert world.run() == [4]
    assert keys(world) == [*KEYS, (4, "c")]
    assert clean(world.open())


def test_a_second_sink_is_filled_in_its_own_form_from_what_the_first_one_recorded(tmp_path: Path) -> None:
    first = World(tmp_path, counting(plain))
    first.arrive("a,1\n", "b,1\na,1\n", "a,1\n")
    first.run()
    world = first.but(counting(plain, parquet))
    assert set(world.open().publish(1)) == {1, 2}
    rows = duckdb.sql(f"SELECT _batch_id, k FROM read_parquet('{world.sink('by-key')}/**/*.parquet') ORDER BY ALL")
    assert rows.fetchall() == KEYS[1:]
    assert keys(world) == KEYS
    world.open().publish(0)
    assert rows.df().shape[0] == len(KEYS)
    assert clean(world.open())


def test_a_function_is_called_once_with_the_rows_of_all_versions_if_it_is_named(tmp_path: Path) -> None:
    calls: Calls = []
    world = without_sink(tmp_path).but(counting(plain, function(calls)))
    assert world.open().publish(0) == [0, 1, 2] and calls == []
    assert world.open().publish(0, sink="call") == [0, 1, 2]
    assert calls == [(4, [0, 1, 1, 2], [])]


def test_a_run_that_dies_after_the_commit_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = without_sink(tmp_path).but(counting(plain))
    with monkeypatch.context() as patched:
        patched.setattr("tidemill.sinks.folder._copy", lambda *args: 1 / 0)
        with pytest.raises(tm.InvalidInput, match="which is committed"):
            world.open().publish(0)
    assert keys(world) == []
    world.run()
    assert keys(world) == KEYS
    assert clean(world.open())


# not filled


def test_versions_that_are_no_longer_kept_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    without_sink(tmp_path).open().maintain(keep_versions=1)
    world = World(tmp_path, counting(plain))
    with caplog.at_level(logging.WARNING):
        assert world.open().publish(0) == [2]
    assert (
        "sink `counts` cannot be filled with versions 0–1: the outputs of `counts` are no longer kept; `tidemill "
        "replay` makes these rows again, and a promotion of its branch publishes them"
    ) in caplog.text
    assert keys(world) == KEYS[3:]


def test_a_sink_with_other_columns_is_not_filled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def doubled(counts: tm.Stream, world: World) -> None:
        counts.sql("SELECT k, n * 2 AS twice FROM rows").write(tm.Json(world.out), "doubled")

    without_sink(tmp_path)
    world = World(tmp_path, counting(doubled))
    with caplog.at_level(logging.WARNING):
        assert world.open().publish(0) == []
    assert "sink `doubled` cannot be filled with versions 0–2: no output of its stream was recorded" in caplog.text


# corrected


def test_a_rewind_to_before_the_fill_leaves_the_rows_of_what_stays(tmp_path: Path) -> None:
    calls: Calls = []
    world = without_sink(tmp_path).but(counting(plain, function(calls)))
    world.open().publish(0)
    world.open().publish(0, sink="call")
    calls.clear()
    world.open().rewind(1, reason="a test")
    assert keys(world) == KEYS[:3]
    assert calls == [(5, [0, 1, 1], [4])]
    assert clean(world.open())
    assert world.run() == [6]
    assert [key for _, key in keys(world)] == [key for _, key in KEYS]


@pytest.mark.parametrize("compact", [False, True])
def test_a_promotion_and_a_rewind_past_it_know_what_was_filled(tmp_path: Path, compact: bool) -> None:
    calls: Calls = []
    world = without_sink(tmp_path).but(counting(plain, function(calls)))
    world.open().publish(0)
    world.open().publish(0, sink="call")
    world.arrive("d,1\n")
    world.run()
    if compact:
        world.open().maintain(compact_sinks=True)
    target = world.open().head.version
    world.open().replay(2, into="fix", engine="local")
    world.open().promote("fix", reason="a test")
    assert [key for _, key in keys(world)] == ["a", "a", "b", "a", "d"]
    assert clean(world.open())
    calls.clear()
    world.open().rewind(target, reason="a test")
    assert keys(world) == [*KEYS, (5, "d")]
    assert sorted(calls[0][1]) == [0, 1, 1, 2, 5]
    assert clean(world.open())
    assert run(world.open()) == []


def test_a_key_is_forgotten_in_what_was_filled(tmp_path: Path) -> None:
    world = without_sink(tmp_path).but(counting(plain))
    world.open().publish(0)
    world.open().forget("counts", keys=["a"], reason="a test", columns={"counts": ["k"]})
    assert keys(world) == [(1, "b")]
    assert clean(world.open())
