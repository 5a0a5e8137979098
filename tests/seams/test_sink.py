"""A sink from outside of the package that inherits nothing and is no folder: everything that sinks go through."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.seams.table import Table
from tests.world import Build, World
from tidemill.errors import InvalidInput
from tidemill.protocol.records import VersionOf
from tidemill.publishing import publish as publishing


def counted(sink: bool = True, factor: int = 1) -> Build:
    """Count keys into the world's table."""

    def build(p: tm.Pipeline, world: Counts) -> None:
        rows = world.read(p)
        if factor != 1:
            rows = rows.sql(f"SELECT k, n * {factor} AS n FROM rows")
        made = rows.groupBy("k").agg(n=tm.sum("n"), name="counted")
        if sink:
            made.write(world.table, name="table")

    return build


class Counts(World):
    """A pipeline that counts keys into a table."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, counted(), schema="k string, n int", maxFilesPerTrigger=None)
        self.table = Table(str(folder / "out.db"))

    def batch(self, *rows: tuple[str, int]) -> None:
        self.arrive(rows)
        self.run()

    def three(self) -> tm.Repository:
        self.batch(("a", 1), ("b", 1))
        self.batch(("a", 2))
        self.batch(("b", 3), ("c", 4))
        return self.open()

    def shown(self) -> list[tuple[str, int]]:
        return sorted((row["k"], row["n"]) for row in self.table.rows())


@pytest.fixture
def world(tmp_path: Path) -> Counts:
    return Counts(tmp_path)


FIRST = [("a", 1), ("b", 1)]
ALL = sorted([*FIRST, ("a", 3), ("b", 4), ("c", 4)])


def outputs(r: tm.Repository) -> list[tuple[str, int]]:
    return sorted((row["k"], row["n"]) for row in r.outputs(sink="table").to_pylist())


def test_each_version_is_one_transaction_that_its_record_names(world: Counts) -> None:
    r = world.three()
    assert world.shown() == ALL == outputs(r)
    assert r.commit(1).sinks["table"]["kind"] == "test-table"
    record = publishing.read_record(r.opened, VersionOf(r.opened.branch, 1), "table")
    assert record is not None and (record.position, record.files) == ("transaction 1", [])
    assert r.verify(deep=True).problems == []


def test_a_run_that_dies_before_the_record_adds_nothing_twice(world: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    world.batch(*FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "claim", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.batch(("a", 2))
    assert world.shown() == [("a", 1), ("a", 3), ("b", 1)]
    world.batch(("b", 3), ("c", 4))
    assert world.shown() == ALL


def test_it_is_rewound_and_a_rewind_can_be_undone(world: Counts) -> None:
    r = world.three()
    r.rewind(0, "wrong")
    assert world.shown() == FIRST == outputs(r)
    r.rewind(2, "right after all")
    assert world.shown() == ALL == outputs(r)
    assert r.verify(deep=True).problems == []


def test_a_process_that_stalled_adds_no_version_that_was_withdrawn(world: Counts) -> None:
    r = world.three()
    [stalled] = publishing.works(r.opened, r.commit(2))
    r.rewind(1, "wrong")
    before = world.shown()
    publishing.publish_work(world.open().opened, stalled)
    assert world.shown() == before == [("a", 1), ("a", 3), ("b", 1)]


def test_a_branch_is_replayed_and_promoted(world: Counts) -> None:
    r = world.three()
    r.branch("double", at=0)
    double = world.but(counted(factor=2)).open()
    double.replay(1, into="double", engine="local")
    assert world.shown() == ALL
    double.promote("double", reason="n was half of it")
    assert world.shown() == sorted([*FIRST, ("a", 5), ("b", 7), ("c", 8)]) == outputs(double)
    assert double.verify(deep=True).problems == []
    double.rewind(2, "it was right")
    assert world.shown() == ALL


def test_a_key_is_forgotten_and_stays_forgotten(world: Counts) -> None:
    r = world.three()
    said = r.forget("counted", ["b"], reason="asked", columns={"table": "k"})
    assert world.shown() == [("a", 1), ("a", 3), ("c", 4)]
    assert not [line for line in said.left if "table" in line]
    assert r.verify(deep=True).problems == []
    world.batch(("c", 1))
    assert world.shown() == [("a", 1), ("a", 3), ("c", 4), ("c", 5)]


def test_a_person_is_forgotten_there_too_unless_the_code_no_longer_has_the_table(world: Counts) -> None:
    r = world.three()
    assert r.forget({"k": ["b"]}, reason="asked").sinks == {"table": 2}
    assert world.shown() == [("a", 1), ("a", 3), ("c", 4)]
    assert r.verify(deep=True, forgotten=True).problems == []
    without = world.but(counted(sink=False)).open()
    [problem] = without.verify(forgotten=True).problems
    assert problem.what == "not looked into: this code does not have sink `table` at this place"
    with pytest.raises(tm.InvalidInput, match="sink `table` .it is no folder, and this code does not have it"):
        without.forget({"k": ["a"]}, reason="asked")


def test_a_table_that_was_lost_is_filled_again_on_request(world: Counts) -> None:
    r = world.three()
    Path(world.table.path).unlink()
    r.publish(0)
    assert world.shown() == ALL


def test_verify_finds_versions_that_are_not_of_this_history(world: Counts) -> None:
    r = world.three()
    r.rewind(1, "wrong")
    uuid = r.opened.initialised().uuid
    with sqlite3.connect(world.table.path) as table:
        table.executemany("INSERT INTO rows VALUES (?, 'table', ?, '{}')", [(uuid, 2), (uuid, 99)])
    found = sorted((one.object.rpartition("/")[2], one.what) for one in r.verify().problems)
    assert found == [
        ("version 2", "version 3 withdrew it, but it is there"),
        ("version 99", "this repository published it as version 99, but has commits up to 3 only"),
    ]


def test_a_table_of_another_repository_is_refused_kept_but_never_emptied(world: Counts) -> None:
    world.three()
    other = world.but(root="other").open()
    with pytest.raises(InvalidInput, match="another repository"):
        other.run(engine="local")
    with pytest.raises(InvalidInput, match="can be deleted only from a folder of files"):
        other.run(engine="local", replace_sink=True)
    assert world.shown() == ALL
    other.run(engine="local", adopt_sink=True)
    assert len(world.shown()) == len(ALL) + 3


def test_files_are_not_joined_and_nothing_is_withdrawn_without_the_code(world: Counts) -> None:
    r = world.three()
    assert r.maintain(compact_sinks=True).compacted == []
    gone = world.but(counted(sink=False)).open()
    gone.run(engine="local", accept_output_change=True)
    with pytest.raises(InvalidInput, match="only code can withdraw from a sink of kind `test-table`"):
        gone.rewind(0, "wrong")
    assert world.shown() == ALL


def test_what_it_cannot_do_is_said_before_anything_is_written(world: Counts) -> None:
    r = world.three()
    with pytest.raises(InvalidInput, match="cannot write to another place"):
        r.branch("elsewhere", publish_to=str(world.folder / "branch"))
    rows = tm.Pipeline("binary").read(tm.Files(str(world.inbox), schema="k string, b binary"))
    with pytest.raises(InvalidInput, match="holds no binary values"):
        rows.write(world.table)


def test_without_a_place_it_is_called_for_every_batch_of_main(world: Counts) -> None:
    calls: list[tuple[int, int, list[int]]] = []

    class Called(Table):
        uri = ""

        def apply(self, change: Any, at: Any) -> Any:
            calls.append(
                (change.version, sum(file.rows for _, file in change.adds), [w.version for w in change.withdraws])
            )
            return publishing.Applied()

    world.table = Called("")
    world.three().rewind(1, "wrong")
    assert calls == [(0, 2, []), (1, 1, []), (2, 2, []), (3, 0, [2])]
