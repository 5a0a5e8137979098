"""A pipeline that reads the sink of another one, for tests of what is withdrawn after it was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, state


def totals(folder: Path, inbox: str = "out", name: str = "totals", root: str = "root", **read: Any) -> World:
    """Return a pipeline that counts the changes of each key in a sink of another one."""
    (folder / inbox).mkdir(parents=True, exist_ok=True)

    def build(p: tm.Pipeline, world: World) -> None:
        schema = "k string, n bigint"
        files = tm.Files(str(folder / inbox), format="json", schema=schema, recursiveFileLookup=True, **read)
        p.read(files, name="changes").groupBy("k").agg(rows=tm.count(), name="seen")

    return World(folder, build, name=name, root=root)


def seen(reader: World) -> dict[str, int]:
    return state(reader.open(), "seen")


def error_of(reader: World) -> tm.InvalidInput:
    """Return the error with which a run fails."""
    with pytest.raises(tm.InvalidInput) as found:
        reader.run()
    return found.value


def read_shop(folder: Path) -> World:
    """Return a pipeline with versions 0 and 1, which `totals` has read by its versions 0 and 1."""
    world = World(folder)
    for row in ("a,1\n", "b,1\n"):
        world.arrive(row)
        world.run()
        totals(folder).run()
    return world
