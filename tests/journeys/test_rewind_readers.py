"""The dry run of a rewind names the pipelines under the same root that read what it deletes."""

from __future__ import annotations

from pathlib import Path

import tidemill as tm
from tests.world import World


def reader(folder: Path, name: str, inbox: str, root: str = "root") -> None:
    """Run another pipeline that counts what it reads in a folder."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = p.read(tm.Files(world.sink(inbox), format="json", schema="k string, n bigint"), name="changes")
        rows.groupBy("k").agg(n=tm.count(), name="seen")

    World(folder, build, name=name, root=root).run()


def test_the_dry_run_names_the_readers_of_what_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.arrive("a,1\n", "b,1\n")
    world.run()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out-too").mkdir()
    reader(tmp_path, "totals", "out")
    reader(tmp_path, "apart", "elsewhere")
    reader(tmp_path, "beside", "out-too")
    reader(tmp_path, "far", "out", root="other-root")
    plan = world.open().rewind(0, reason="a test", dry_run=True)
    assert plan.as_dict()["readers"] == [["totals", "changes", "counts"]]
    [line] = [one for one in plan.lines() if "pipeline `" in one]
    assert line.startswith("pipeline `totals` reads sink `counts` as source `changes`: it keeps what it has read")


def test_a_rewind_that_deletes_nothing_names_no_reader(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.arrive("a,1\n")
    world.run()
    reader(tmp_path, "totals", "out")
    world.open().skip(world.put("b", "b,1\n").name, reason="a test")
    assert world.open().rewind(0, reason="a test", dry_run=True).as_dict()["readers"] == []


def test_a_damaged_neighbour_does_not_block_a_rewind(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.arrive("a,1\n", "b,1\n")
    world.run()
    reader(tmp_path, "totals", "out")
    for path in (tmp_path / "root" / "totals" / "refs").iterdir():
        path.write_text("{")
    assert world.open().rewind(0, reason="a test").version == 2
