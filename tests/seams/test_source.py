"""A source from outside of the package that inherits nothing, is no folder, and is remembered by a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.seams.journal import Journal
from tests.seams.table import Table
from tests.world import Build, World, state
from tidemill.errors import InvalidInput
from tidemill.run import execute as executing
from tidemill.run import plan as planning


def counted(name: str = "journal", source: Any = None, factor: int = 1) -> Build:
    """Count what a journal has, by default that of the world, into the world's table."""

    def build(p: tm.Pipeline, world: Counts) -> None:
        rows = p.read(source or world.journal, name=name)
        if factor != 1:
            rows = rows.sql(f"SELECT k, n * {factor} AS n FROM rows")
        rows.groupBy("k").agg(n=tm.sum("n"), name="counted").write(world.table, name="table")

    return build


class Counts(World):
    """A pipeline that counts what a journal has, into a table."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, counted())
        self.journal, self.table = Journal(str(folder / "in.db")), Table(str(folder / "out.db"))
        self.journal.append(("a", 1), ("b", 1), ("a", 2))

    def three(self) -> tm.Repository:
        for rows in ((), (("b", 3), ("c", 4)), (("a", 5),)):
            self.journal.append(*rows)
            self.run()
        return self.open()


@pytest.fixture
def world(tmp_path: Path) -> Counts:
    return Counts(tmp_path)


def test_each_commit_has_the_position_and_the_ledger_stays_empty(world: Counts) -> None:
    r = world.three()
    assert [r.commit(version).positions for version in range(3)] == [
        {"journal": "3"},
        {"journal": "5"},
        {"journal": "6"},
    ]
    assert [len(r.opened.log.plan(version).splits) for version in range(3)] == [2, 1, 1]
    assert r.commit(2).ledger == [] and state(r, "counted") == {"a": 8, "b": 4, "c": 4}
    assert r.run(engine="local") == [] and world.journal.looks[-1] == "6"
    assert r.verify(deep=True).problems == []


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_cap_makes_several_batches_of_one_look(world: Counts, tasks: int) -> None:
    world.journal.max_parts = 1
    world.journal.append(("b", 3), ("c", 4))
    assert world.run(**({"tasks": tasks} if tasks > 1 else {})) == [0, 1, 2]
    assert world.journal.looks == [None]
    assert state(world.open(), "counted") == {"a": 3, "b": 4, "c": 4}


def test_a_killed_run_reads_the_same_rows_again(world: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(executing, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.run()
    world.journal.append(("z", 1))
    r = world.open()
    r.run(engine="local")
    assert [r.commit(version).positions["journal"] for version in (0, 1)] == ["3", "4"]
    assert state(r, "counted", 0) == {"a": 3, "b": 1} and state(r, "counted") == {"a": 3, "b": 1, "z": 1}


def test_a_rewind_takes_the_position_back(world: Counts) -> None:
    r = world.three()
    r.rewind(0, "wrong")
    assert r.head.positions == {"journal": "3"}
    world.run()
    assert state(world.open(), "counted") == {"a": 8, "b": 4, "c": 4}
    r = world.open()
    r.rewind(-1, "all of it")
    assert r.head.positions == {}
    world.run()
    assert state(world.open(), "counted") == {"a": 8, "b": 4, "c": 4}


def test_a_rewind_during_a_drain_loses_nothing(world: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    world.three()
    world.journal.append(("c", 1), ("c", 2), ("c", 3))
    world.journal.max_parts = 1
    execute, todo = planning._draft, [lambda: world.open().rewind(0, "meanwhile")]

    def drafted(*given: Any) -> Any:
        if todo:
            todo.pop()()
        return execute(*given)

    monkeypatch.setattr(planning, "_draft", drafted)
    for _ in range(2):
        try:
            world.run()
        except tm.Fenced:
            continue
    assert state(world.open(), "counted") == {"a": 8, "b": 4, "c": 10}


def test_it_is_replayed_and_promoted(world: Counts) -> None:
    r = world.three()
    r.branch("double", at=0)
    after = world.but(counted(factor=2))
    double = after.open()
    double.replay(1, into="double", engine="local")
    branch = after.open("double")
    assert branch.head.positions == {"journal": "6"} and state(branch, "counted") == {"a": 13, "b": 7, "c": 8}
    double.promote("double", reason="n was half of it")
    assert double.head.positions == {"journal": "6"} and state(double, "counted") == {"a": 13, "b": 7, "c": 8}
    world.journal.append(("c", 1))
    after.run(accept_output_change=True)
    assert state(after.open(), "counted") == {"a": 13, "b": 7, "c": 10}


def test_a_branch_that_is_behind_is_not_promoted(world: Counts) -> None:
    r = world.three()
    r.branch("behind", at=0)
    r.replay(1, 1, into="behind", engine="local")
    with pytest.raises(InvalidInput, match="has not read source `journal` up to position `6`"):
        r.promote("behind", reason="too early")
    r.promote("behind", reason="now", catch_up=True, engine="local")
    assert state(world.open(), "counted") == {"a": 8, "b": 4, "c": 4}


def test_a_branch_that_passed_a_position_by_itself_has_to_begin_again(world: Counts) -> None:
    r = world.open()
    r.run(engine="local")
    r.branch("alone", at=0)
    world.journal.append(("b", 3))
    world.run()
    world.journal.append(("c", 4))
    world.open("alone").run(engine="local")
    with pytest.raises(InvalidInput, match="up to position `4`.*own position is `5`") as refused:
        world.open().promote("alone", reason="too far")
    assert refused.value.hint == "replay into a new branch, because this one has read by itself"
    with pytest.raises(InvalidInput, match="repeats none of branch"):
        world.open().promote("alone", reason="too far", catch_up=True, engine="local")


def test_rows_that_are_gone_end_a_replay_with_their_name(world: Counts) -> None:
    r = world.three()
    world.journal.remove(4)
    r.branch("again", at=0)
    with pytest.raises(InvalidInput, match="some of its rows are gone"):
        r.replay(1, into="again", engine="local")


def test_a_renamed_or_moved_source_is_refused(world: Counts) -> None:
    world.three()
    world.journal.append(("c", 1))
    with pytest.raises(InvalidInput, match="you renamed the source"):
        world.but(counted(name="other")).run()
    other = Journal(str(world.folder / "copy.db"))
    other.append(("x", 1), *[("y", 1)] * 9)
    moved = world.but(counted(source=other))
    with pytest.raises(InvalidInput, match="to which that position need not belong"):
        moved.run()
    r = moved.open()
    r.adopt(sources=["journal"], reason="it moved")
    r.run(engine="local")
    assert state(r, "counted") == {"a": 8, "b": 4, "c": 4, "y": 4}


def test_previews_status_and_skips_say_what_they_can(world: Counts) -> None:
    r = world.three()
    assert r.opened.pipeline.preview(10)["journal"].num_rows == 6
    with pytest.raises(InvalidInput, match="nothing before it can be left out"):
        r.skip("rows/1-2", "wrong")
    world.journal.append(("c", 1))
    assert r.status().waiting_files == {"journal": 1}
