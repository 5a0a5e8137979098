"""Rows that were requeued, and a replay by code that takes them where the recorded version had quarantined them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World, run, state

SCHEMA = "k string, n int, at timestamp"
FILES = [
    [("ann", 100, "2026-01-01T00:00:10"), ("ann", -5, "2026-01-01T00:00:11"), ("bob", 1, "2026-01-01T00:00:12")],
    [("ann", 7, "2026-01-01T00:00:20"), ("bob", -2, "2026-01-01T00:00:00"), ("cy", -9, "2026-01-01T00:00:21")],
]


def spent(least: int, late: str = "drop", *, behind: bool = False) -> Build:
    """Sums by key that fail for values below `least`."""

    def total(key: Any, row: Any, kept: Any) -> Any:
        if row.n < least:
            raise ValueError("too little")
        kept.update((kept.getOption or 0) + row.n)
        return (row.k, kept.get)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).withWatermark("at", "1 minute", late=late)
        if behind:
            rows = rows.dropDuplicates(["k", "n", "at"], name="once")
        spec = tm.StateSpec.function(total).timeout("100 days", clock="event")
        made = rows.groupBy("k").mapWithState(spec, "long", "k string, total long", name="spent", on_error="quarantine")
        made.write(tm.Json(world.out), name="spent")

    return build


def requeued(folder: Path, behind: bool = False) -> World:
    """Two versions with failed rows, whose rows came back in a later version, once all work."""
    world = World(folder, spent(-3, behind=behind), schema=SCHEMA)
    world.arrive(*FILES)
    assert world.run() == [0, 1]
    fixed = world.but(spent(-100, behind=behind))
    r = fixed.open()
    for version in (0, 1):
        r.requeue(version, reason="fixed")
    run(r)
    return fixed


@pytest.mark.parametrize("behind", [False, True])
def test_a_row_that_the_replay_takes_does_not_come_back_again(behind: bool, tmp_path: Path) -> None:
    fixed = requeued(tmp_path, behind)
    r = fixed.open()
    wanted = state(r, "spent")
    assert wanted == {"ann": 102, "bob": -1, "cy": -9}
    r.replay(0, into="again", engine="local")
    branch = fixed.open("again")
    assert state(branch, "spent") == wanted
    assert branch.quarantine().num_rows == 0
    assert branch.verify(deep=True).problems == []
    fixed.arrive([("ann", 1, "2026-01-01T00:00:30")])
    run(r)
    r.promote("again", reason="the same", catch_up=True)
    assert state(fixed.open(), "spent") == wanted | {"ann": 103}
    published = {row["k"]: row["total"] for row in fixed.published("out")}
    assert published == wanted | {"ann": 103}


def test_a_row_that_fails_in_the_replay_comes_back_as_it_did(tmp_path: Path) -> None:
    fixed = requeued(tmp_path)
    wanted = state(fixed.open(), "spent")
    half = fixed.but(spent(-8))  # the row of `cy` still fails
    half.open().replay(0, into="half", engine="local")
    assert state(half.open("half"), "spent") == {"ann": 102, "bob": -1}
    assert [row["text"][:11] for row in half.open("half").quarantine().to_pylist()] == ['{"k": "cy",'] * 2
    as_before = fixed.but(spent(-3))
    as_before.open().replay(0, into="before", engine="local")
    assert state(as_before.open("before"), "spent") == {"bob": -1, "ann": 7}, "they fail twice"
    assert wanted


def test_late_rows_that_the_replay_keeps_do_not_come_back_again(tmp_path: Path) -> None:
    world = World(tmp_path, spent(-100, "quarantine"), schema=SCHEMA)
    world.arrive([("ann", 100, "2026-01-01T00:10:00")], [("ann", 7, "2026-01-01T00:00:00")])
    assert world.run() == [0, 1]
    kept = world.but(spent(-100, "keep"))
    r = kept.open()
    r.requeue(1, reason="kept")
    run(r)
    assert state(r, "spent") == {"ann": 107}
    r.replay(0, into="again", engine="local")
    assert state(kept.open("again"), "spent") == {"ann": 107}
    r.replay(1, into="later", engine="local")
    assert state(kept.open("later"), "spent") == {"ann": 107}


def test_rows_of_a_version_that_the_branch_shares_come_back(tmp_path: Path) -> None:
    fixed = requeued(tmp_path)
    r = fixed.open()
    r.replay(1, into="shared", engine="local")
    assert state(fixed.open("shared"), "spent") == state(r, "spent")
