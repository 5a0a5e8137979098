"""Sources and sinks from outside of the package that do not keep to their protocols, or that change: one clear error.

Nothing is written that no record could hold, and nothing is read twice or left out.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.seams.journal import Journal
from tests.seams.table import Table
from tests.seams.test_source import Counts, counted
from tests.world import Build, World, run, state
from tidemill.errors import InvalidInput, StoreUnavailable
from tidemill.sinks.contract import Applied


@pytest.fixture
def world(tmp_path: Path) -> Counts:
    return Counts(tmp_path)


def with_look(world: Counts, change: Callable[[Any], Any]) -> Journal:
    """A journal of which `look` returns something else."""

    class Other(Journal):
        def look(self, *given: Any, **named: Any) -> Any:
            return change(super().look(*given, **named))

    return Other(world.journal.path)


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "a number as position": lambda found: [dataclasses.replace(one, position=1) for one in found],
    "no position": lambda found: [dataclasses.replace(one, position="") for one in found],
    "one position twice": lambda found: [dataclasses.replace(one, position="1") for one in found],
    "a size below 0": lambda found: [dataclasses.replace(one, size=-1) for one in found],
    "a part of a millisecond": lambda found: [dataclasses.replace(one, modified_ms=1.5) for one in found],
    "the file of another source": lambda found: [dataclasses.replace(one, source="x") for one in found],
    "texts": lambda found: [one.path for one in found],
    "nothing that has files": lambda _: None,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_look_may_not_return_is_refused_before_a_plan_is_written(world: Counts, mistake: str) -> None:
    r = world.but(counted(source=with_look(world, MISTAKES[mistake]))).open()
    with pytest.raises(InvalidInput, match="^source `journal`: look "):
        run(r)
    assert r.opened.log.plan(0) is None
    world.run()
    assert state(world.open(), "counted") == {"a": 3, "b": 1}


def test_the_position_after_which_a_source_looked_is_not_reached_again(world: Counts) -> None:
    world.run()
    world.journal.append(("b", 1))
    again = with_look(world, lambda found: [dataclasses.replace(one, position="3") for one in found])
    with pytest.raises(InvalidInput, match="returned a position twice, or the one after which it looked"):
        world.but(counted(source=again)).run()


def test_an_error_of_another_system_may_pass(world: Counts) -> None:
    def locked(_: Any) -> Any:
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(StoreUnavailable, match="look raised `OperationalError: database is locked`"):
        world.but(counted(source=with_look(world, locked))).run()
    for what in ("seen", "apply"):
        world.table = type("Locked", (Table,), {what: lambda *_: locked(None)})(world.table.path)
        with pytest.raises(StoreUnavailable, match=f"{what} raised `OperationalError: database is locked`"):
            world.run()
        world.table = Table(world.table.path)
    world.run()
    assert len(world.table.rows()) == 2


def test_a_position_needs_a_place_and_no_other_start(world: Counts) -> None:
    nowhere = type("Nowhere", (Journal,), {"place": None})(world.journal.path)
    with pytest.raises(InvalidInput, match="has a position but no place"):
        world.but(counted(source=nowhere)).run()
    latest = type("Latest", (Journal,), {"intake": tm.Files("x", schema="k int", start="latest").intake})
    with pytest.raises(InvalidInput, match='has start="latest", but commits remember its position'):
        world.but(counted(source=latest(world.journal.path))).run()


def other_place(world: Counts) -> Journal:
    other = Journal(str(world.folder / "other.db"))
    other.append(("x", 1), ("x", 2), ("x", 3), ("y", 5))
    return other


def with_files(world: Counts, *sources: tuple[str, Journal]) -> tm.Repository:
    """The pipeline with a folder of files beside some journals. One new file arrives."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "files", schema="k string, n bigint", maxFilesPerTrigger=None)
        for name, source in sources:
            rows = rows.unionByName(p.read(source, name=name))
        rows.groupBy("k").agg(n=tm.sum("n"), name="counted")

    world.arrive("f,1\n")
    return world.but(build).open()


def test_another_place_is_refused_also_while_nothing_is_new_there(world: Counts) -> None:
    run(with_files(world, ("journal", world.journal)))
    empty = Journal(str(world.folder / "empty.db"))
    empty.append()
    for other in (empty, other_place(world)):
        with pytest.raises(InvalidInput, match="to which that position need not belong"):
            run(with_files(world, ("journal", other)))


def test_a_position_outlives_the_time_without_its_source(world: Counts) -> None:
    run(with_files(world, ("journal", world.journal)))
    run(with_files(world))
    with pytest.raises(InvalidInput, match="it was read as `journal`; you renamed the source"):
        run(with_files(world, ("again", world.journal)))
    with pytest.raises(InvalidInput, match="to which that position need not belong"):
        run(with_files(world, ("journal", other_place(world))))
    world.journal.append(("a", 5))
    r = with_files(world, ("journal", world.journal))
    run(r)
    assert state(r, "counted") == {"a": 8, "b": 1, "f": 5}


def test_a_ledger_does_not_take_the_place_of_a_position_or_the_other_way_round(world: Counts) -> None:
    by_ledger = type("ByLedger", (Journal,), {"is_positioned": False})(world.journal.path)
    run(with_files(world, ("journal", world.journal), ("known", by_ledger)))
    with pytest.raises(InvalidInput, match="was remembered by a position, this code remembers it by the ledger"):
        run(with_files(world, ("journal", by_ledger), ("known", by_ledger)))
    with pytest.raises(InvalidInput, match="by the ledger of files, this code remembers it by a position"):
        run(with_files(world, ("journal", world.journal), ("known", world.journal)))


def test_only_folders_are_watched_for_new_files(world: Counts) -> None:
    from tidemill.reading.arrivals import watched

    by_ledger = type("ByLedger", (Journal,), {"is_positioned": False})(world.journal.path)
    r = with_files(world, ("journal", world.journal), ("known", by_ledger))
    run(r)
    assert [one.source for one in watched(r.opened, r.head)] == ["files"]


def test_a_part_that_cannot_be_read_can_neither_be_skipped_nor_left_out(world: Counts) -> None:
    world.journal.append(("a", 1), ("a", 1))
    world.journal.remove(1)
    with pytest.raises(InvalidInput, match="some of its rows are gone"):
        world.run()
    with pytest.raises(InvalidInput, match="so nothing before it can be left out"):
        world.open().skip("rows/1-2", "broken")
    world.open().replan("read what is left")
    passed = with_look(world, lambda found: found[1:])
    world.but(counted(source=passed)).run()
    assert state(world.open(), "counted") == {"a": 4}
    with pytest.raises(InvalidInput, match="so nothing before it can be left out"):
        world.open().rewind(-1, "wrong", without=["rows/3-4"])


def test_quarantined_rows_come_back_unless_they_wait_again(world: Counts) -> None:
    def tracked(unlucky: str) -> Build:
        def track(key: str, value: Any, state: Any) -> None:
            if key == unlucky:
                raise ValueError("not today")
            state.update((state.getOption or 0) + value)

        def build(p: tm.Pipeline, world: Counts) -> None:
            rows = p.read(world.journal, name="journal").groupBy("k")
            spec = tm.StateSpec.function(track)
            rows.mapWithState(spec, "bigint", "k string", value="n", on_error="quarantine", name="t")

        return build

    world.but(tracked("b")).run()
    lucky = world.but(tracked(""))
    assert lucky.open().quarantine().num_rows == 1
    lucky.open().requeue(0, reason="corrected")
    lucky.run()
    assert state(lucky.open(), "t").keys() == {"a", "b"}
    lucky.open().rewind(-1, "all of it")
    with pytest.raises(InvalidInput, match="waits again|no quarantined|rewound"):
        lucky.open().requeue(0, reason="again")


@pytest.mark.parametrize("made", ["no file", "too few rows", "another extension"])
def test_a_batch_fails_if_its_files_cannot_have_all_rows(world: Counts, made: str) -> None:
    class Wrong(Table):
        def stage(self, rows: Any) -> Any:
            found = super().stage(rows)
            if made == "no file":
                return []
            change = {"rows": 1} if made == "too few rows" else {"extension": ".csv"}
            return [dataclasses.replace(one, **change) for one in found]

    world.table = Wrong(world.table.path)
    r = world.open()
    with pytest.raises(InvalidInput, match="sink `table`: stage returned .*, expected 2 rows in files"):
        run(r)
    assert r.opened.head() is None


def test_a_result_that_no_record_can_hold_is_named(world: Counts) -> None:
    world.table = type("Wrong", (Table,), {"apply": lambda *_: Applied(position=7)})(world.table.path)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="expected an Applied whose position is a text"):
        world.run()
    world.table = Table(world.table.path)
    world.run()
    assert len(world.table.rows()) == 2


def sink_of(kind: str, folder: Path) -> Any:
    return {
        "json": lambda: tm.Json(str(folder / "json")),
        "partitioned": lambda: tm.Parquet(str(folder / "parquet"), partitionBy="k"),
        "table": lambda: Table(str(folder / "out.db")),
    }[kind]()


@pytest.mark.parametrize("kind", ["json", "partitioned"])
@pytest.mark.parametrize("called", [True, False])
def test_rows_that_another_sink_has_staged_reach_a_table_and_a_function(world: Counts, kind: str, called: bool) -> None:
    calls: list[list[dict[str, Any]]] = []

    def into(sink: Any) -> World:
        def build(p: tm.Pipeline, world: Counts) -> None:
            made = p.read(world.journal, name="journal").groupBy("k").agg(n=tm.sum("n"), name="counted")
            if sink is None:
                made.foreachBatch(lambda table, _, withdrawn=(): calls.append(table.to_pylist()), name="out")
            else:
                made.write(sink, name="out")

        return world.but(build)

    for rows in ((), (("b", 3), ("c", 4))):
        world.journal.append(*rows)
        into(sink_of(kind, world.folder)).run()
    now = into(None if called else world.table)
    world.journal.append(("a", 5))
    now.run(accept_output_change=True)
    now.open().rewind(0, "wrong")
    now.open().rewind(2, "right after all")
    shown = calls[-1] if called else [{"k": row["k"], "n": row["n"]} for row in world.table.rows()]
    assert sorted((row["k"], row["n"]) for row in shown) == [("a", 8), ("b", 4), ("c", 4)]
    assert now.run() == []


def test_a_key_is_not_said_to_be_forgotten_where_the_rows_are_not_known_any_more(world: Counts) -> None:
    r = world.three()
    r.forget("counted", ["b"], reason="asked", columns={"table": "k"})
    before = world.table.rows()
    with pytest.raises(InvalidInput, match="but the repository does not keep them any more"):
        world.open().forget("counted", ["a"], reason="asked", columns={"table": "k"})
    assert world.table.rows() == before
    left = world.open().forget("counted", ["a"], reason="asked").left
    assert "sink `table`: its files were not looked at, because no column was given for it" in left


def test_the_tester_keeps_the_rows_of_a_sink_that_cannot_be_moved(world: Counts) -> None:
    t = tm.testing.Tester(world.open().opened.pipeline)
    assert t.batch([("a", 1)]).rows == [{"k": "a", "n": 1}]
    assert not Path(world.table.path).exists()
