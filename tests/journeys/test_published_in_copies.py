"""`publish --from` in a copy of a repository that keeps the files of its original: it makes only what is not there."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World


def by_key(p: tm.Pipeline, world: World) -> None:
    """Count the rows of each key, in a folder for each key."""
    counts = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
    counts.write(tm.Json(world.sink("out"), partitionBy=["k"]))


@pytest.fixture
def copy(tmp_path: Path) -> World:
    """A copy that keeps the files of its original, and has a version of its own."""
    world = World(tmp_path, by_key)
    world.arrive("a,1\nb,1\n")
    world.run()
    shutil.copytree(world.root, f"{world.root}-copy")
    copy = World(world.folder, by_key, root="root-copy")
    copy.open(init=False).adopt("a test", copy=True)
    copy.arrive("c,1\n")
    copy.open().run(engine="local", adopt_sink=True)
    return copy


def rows(world: World) -> Counter[str]:
    found = sorted(Path(world.sink("out")).rglob("*.json"))
    return Counter(f"{file.parent.name} {line}" for file in found for line in file.read_text().splitlines())


def test_only_the_file_that_was_lost_is_made_again(copy: World) -> None:
    before = rows(copy)
    [lost] = (Path(copy.sink("out")) / "k=a").glob("*.json")
    lost.unlink()
    copy.open().publish(0)
    assert rows(copy) == before
    copy.open().publish(0)
    assert rows(copy) == before


def test_what_is_all_there_is_not_made_again(copy: World) -> None:
    before = rows(copy)
    copy.open().publish(0)
    assert rows(copy) == before
