"""A small pipeline with a sink, for tests of publishing: files in, counts out, and what a plain reader finds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import tidemill as tm
from tests.world import World, state
from tidemill.protocol.codec import checksum_of, encode
from tidemill.protocol.records import Commit
from tidemill.protocol.successor import successor

PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent
p = tm.Pipeline("shop")
rows = p.read(tm.Files(str(here / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))
rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(str(here / "out")))
"""


def world(folder: Path, root: str = "root", sink: Any = None, **agg: Any) -> World:
    """A pipeline from `in` to the sink, by default `out`, one file a batch."""

    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("k").agg(**(agg or {"n": tm.count()}), name="counts")
        if sink is not False:
            made.write(tm.Json(world.out) if sink is None else sink)

    return World(folder, build, root=root)


def opened(folder: Path, root: str = "root", sink: Any = None, **agg: Any) -> tm.Repository:
    return world(folder, root, sink, **agg).open()


def totals(r: tm.Repository, version: int | str | None = None) -> dict[str, int]:
    return state(r, "counts", version)


def arrive(folder: Path, *names: str) -> None:
    """Write a file each, with a row whose key is the name of the file."""
    for name in names:
        world(folder).put(name, f"{name},1\n")


def published(folder: Path) -> list[dict[str, Any]]:
    """The rows that a plain reader finds in the sink."""
    rows = world(folder).published()
    return [{"k": row["k"], "n": row["n"], "version": row["_batch_id"]} for row in rows]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "out").rglob("*") if path.is_file())


def record(folder: Path, version: int, root: str = "root") -> dict[str, Any]:
    return json.loads((folder / root / "shop" / "published" / "main" / "counts" / f"{version:010d}.json").read_text())


def corrected(r: tm.Repository, **changes: Any) -> Commit:
    """Commit a correction that withdraws or adds, as rewind and promote will."""
    origin = r.opened.origin(r.head)
    void = successor(origin, "void", {"attempt": "0" * 12, "reason": "a test", "published_through": origin.number - 1})
    made = dataclasses.replace(void, **changes)
    return r.opened.log.create_commit(dataclasses.replace(made, checksum=checksum_of(encode(made)))).commit
