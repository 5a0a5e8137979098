"""Rows that an operator emitted and on which a function behind it failed, given back to that function's operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run, state

SCHEMA = "k string, g string, n int"
ROWS = [("a", "x", 1), ("b", "y", 2), ("a", "y", 3), ("c", "x", 4), ("b", "x", 5), ("a", "x", 1)]
MORE = [("d", "x", 7), ("a", "y", 8)]


def chain(bad: set[str]) -> Any:
    """Duplicates are removed, a filter follows, then a sum by `g` that fails for some `g`, then a count of sums."""

    def total(key: Any, row: Any, kept: Any) -> Any:
        if key in bad:
            raise ValueError(f"no {key} today")
        kept.update((kept.getOption or 0) + row.n)
        return (key, kept.get)

    def build(p: tm.Pipeline, world: World) -> None:
        once = world.read(p).dropDuplicates(["k", "n"], name="once").sql("SELECT g, n * 10 AS n FROM rows WHERE n <> 4")
        once.write(tm.Json(world.out), name="seen")
        spec = tm.StateSpec.function(total)
        sums = once.groupBy("g").mapWithState(spec, "long", "g string, total long", name="sums", on_error="quarantine")
        sums.groupBy("g").agg(n=tm.count(), last=tm.last("total"), name="counts")

    return build


def begin(folder: Path, bad: set[str], tasks: int = 1) -> World:
    world = World(folder, chain(bad), schema=SCHEMA)
    world.arrive(ROWS)
    assert world.run(tasks=tasks) == [0]
    return world


@pytest.mark.parametrize("tasks", [1, 3])
def test_failed_rows_of_a_chain_go_back_to_the_operator_that_failed(tasks: int, tmp_path: Path) -> None:
    world = begin(tmp_path, {"x", "y"}, tasks)
    r = world.open()
    rows = sorted(r.quarantine().to_pylist(), key=lambda row: row["row"])
    assert [(row["source"], row["file"], row["row"], row["operator"]) for row in rows] == [
        ("source", "0000.csv", number, "sums") for number in (1, 2, 3, 5)
    ]
    assert state(r, "once") and state(r, "sums") == {}
    seen = r.outputs(sink="seen").num_rows

    fixed = world.but(chain(set())).open()
    planned = fixed.requeue(0, reason="the function is fixed", dry_run=True)
    assert planned.lines() == [
        "4 rows that `sums` got from another operator and that version 0 quarantined (failed) will be read again by "
        "operator `sums`"
    ]
    fixed.requeue(0, reason="the function is fixed", expect=planned)
    assert run(fixed, tasks=tasks) == [2]
    assert state(fixed, "sums") == {"x": 60, "y": 50}
    assert fixed.state("counts").select(["g", "n", "last"]).sort_by("g").to_pylist() == [
        {"g": "x", "n": 2, "last": 60}, {"g": "y", "n": 2, "last": 50},
    ]  # fmt: skip
    assert fixed.outputs(sink="seen").num_rows == seen, "the operator before has emitted them already"
    with pytest.raises(tm.InvalidInput, match="was requeued already by version 1"):
        fixed.requeue(0, reason="again")
    world.arrive(MORE)
    assert run(fixed, tasks=tasks) == [3]
    assert state(fixed, "sums") == {"x": 130, "y": 130}
    assert fixed.verify(deep=True).problems == []


def test_rows_that_fail_again_can_come_back_again(tmp_path: Path) -> None:
    world = begin(tmp_path, {"x", "y"})
    half = world.but(chain({"x"})).open()
    half.requeue(0, reason="y is fixed")
    assert run(half) == [2]
    assert state(half, "sums") == {"y": 50}
    again = half.quarantine(2).to_pylist()
    assert [row["text"] for row in again] == ['{"g": "x", "n": 10}', '{"g": "x", "n": 50}']
    assert [(row["file"], row["row"]) for row in again] == [("0000.csv", 1), ("0000.csv", 5)]
    fixed = world.but(chain(set())).open()
    fixed.requeue(2, reason="x is fixed")
    assert run(fixed) == [4]
    assert state(fixed, "sums") == {"x": 60, "y": 50}


def test_the_dry_run_names_columns_that_are_new_since(tmp_path: Path) -> None:
    world = begin(tmp_path, {"x"})

    def wider(p: tm.Pipeline, world: World) -> None:
        once = world.read(p).dropDuplicates(["k", "n"], name="once").sql("SELECT g, n, 1 AS new, g AS by FROM rows")
        spec = tm.StateSpec.function(lambda key, row, kept: (key, row.n))
        once.groupBy("g").mapWithState(spec, "long", "g string, total long", name="sums", on_error="quarantine")

    [line] = world.but(wider).open(init=False).requeue(0, reason="a test", dry_run=True).lines()
    assert line.endswith("by operator `sums`; columns `new` and `by` are new since, and null in them")


def test_a_rewind_lets_them_wait_again_and_a_replay_gives_the_same(tmp_path: Path) -> None:
    world = begin(tmp_path, {"x"})
    fixed = world.but(chain(set())).open()
    fixed.requeue(0, reason="fixed")
    assert run(fixed) == [2]
    wanted = state(fixed, "sums")
    fixed.rewind(1, reason="see it again")
    assert run(fixed) == [4]
    assert state(fixed, "sums") == wanted == {"x": 60, "y": 50}
    replayed = fixed.replay(1, into="copy", engine="local")
    assert replayed.versions, "the requeue and its batch are made again"
    assert state(world.but(chain(set())).open("copy"), "sums") == wanted


def test_some_of_them_come_back_by_hand_as_they_are(tmp_path: Path) -> None:
    world = begin(tmp_path, {"x"})
    r = world.open()
    table = r.quarantine(0, export=True)
    assert {"_row_id", "_text", "_operator"} <= set(table.column_names)
    filled = table.set_column(table.column_names.index("k"), "k", [["z"] * table.num_rows])
    with pytest.raises(tm.InvalidInput, match="an operator emitted it, so it comes back as it was"):
        r.requeue(0, rows=filled, reason="by hand")
    texts = [text.replace("10", "11") for text in table.column("_text").to_pylist()]
    other = table.set_column(table.column_names.index("_text"), "_text", [texts])
    with pytest.raises(tm.InvalidInput, match="cannot be corrected"):
        r.requeue(0, rows=other, reason="by hand")
    one = table.slice(0, 1)
    fixed = world.but(chain(set())).open()
    fixed.requeue(0, rows=one, reason="only the first")
    assert run(fixed) == [2]
    assert state(fixed, "sums") == {"x": 10, "y": 50}


def test_an_operator_that_was_removed_is_named(tmp_path: Path) -> None:
    world = begin(tmp_path, {"x"})

    def without(p: tm.Pipeline, world: World) -> None:
        world.read(p).dropDuplicates(["k", "n"], name="once")

    r = world.but(without).open(init=False)
    with pytest.raises(tm.InvalidInput, match="this code has no operator `sums`"):
        r.requeue(0, reason="too late")


def test_a_late_row_of_another_operator_is_refused_at_once(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, schema="k string, at timestamp").withWatermark("at", "1 day")
        once = rows.dropDuplicates(["k", "at"], name="once").withWatermark("at", "1 second", late="quarantine")
        window = tm.window("at", "1 second")
        once.groupBy(window).agg(last=tm.last("k"), outputMode="append", name="by-second")

    world = World(tmp_path, build)
    world.arrive([("a", "2026-01-01T00:10:00")], [("b", "2026-01-01T00:00:00")])
    r = world.open()
    run(r)
    (row,) = r.quarantine().to_pylist()
    assert (row["file"], row["row"], row["kind"]) == ("0001.csv", 1, "late")
    with pytest.raises(tm.InvalidInput, match="got it from another operator, and only rows that failed can be given"):
        r.requeue(1, reason="late")
