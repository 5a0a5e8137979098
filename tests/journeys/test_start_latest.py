"""Planning: which files a source with `start="latest"` takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World, over, run, state
from tidemill.run.plan import waiting


def by_value(rows: tm.Stream) -> tm.Stream:
    return rows.groupBy("v").agg(n=tm.count(), name="n")


def test_latest_leaves_out_the_files_that_are_there_at_init_whatever_their_times(tmp_path: Path) -> None:
    world = World(tmp_path, over(by_value), schema="v int", start="latest")
    world.put("there", "1\n")
    repository = world.open()
    os.utime(world.put("moved", "2\n"), (1, 1))  # written long before `init`, moved in after it
    assert [file.path for file in waiting(repository.opened, None).all] == ["moved.csv"]
    run(repository)
    assert state(repository, "n") == {2: 1}
    assert repository.head.rows["_ledger"] == {"files": 2}


@pytest.mark.parametrize(("overwritten", "grown"), [("error", None), ("new", ["there.csv"]), ("ignore", [])])
def test_a_file_that_latest_left_out_stays_left_out_as_long_as_its_size_does_not_change(
    overwritten: str, grown: list[str] | None, tmp_path: Path
) -> None:
    world = World(tmp_path, over(by_value), schema="v int", start="latest", overwritten=overwritten)
    there = world.put("there", "1\n")
    repository = world.open()
    os.utime(there, (9, 9))
    assert run(repository) == []
    with pytest.raises(tm.InvalidInput, match='skip `there.csv`: start="latest" leaves it out already'):
        repository.skip("there.csv", reason="a test")
    world.put("new", "2\n")
    run(repository)
    assert state(repository, "n") == {2: 1}
    there.write_text("1\n3\n")
    if grown is None:
        with pytest.raises(tm.InvalidInput, match='modified after it was left out by start="latest": found 4 bytes'):
            run(repository)
    else:
        assert [file.path for file in waiting(repository.opened, repository.head).all] == grown


def test_latest_is_refused_for_a_source_that_init_did_not_list(tmp_path: Path) -> None:
    def with_two(start: str) -> World:
        def build(p: tm.Pipeline, world: World) -> None:
            by_value(world.read(p, "one", "one").unionByName(world.read(p, "two", "two", start=start)))

        return one.but(build)

    one = World(tmp_path, lambda p, world: by_value(world.read(p, "one", "one")), schema="v int")
    for name in ("one", "two"):
        one.arrive("1\n", inbox=name)
    assert one.run() == [0]
    latest = with_two("latest").open()
    with pytest.raises(tm.InvalidInput, match='source `two` has start="latest", but was added after `init`'):
        run(latest)
    run(with_two("2000-01-01").open(init=False))
    assert state(with_two("2000-01-01").open(init=False), "n") == {1: 2}
