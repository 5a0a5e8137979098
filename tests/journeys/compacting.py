"""A sink with six small files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm
from tests.journeys.shop import arrive, opened, world
from tests.world import run

NAMES = "abcdef"


def sink_of(folder: Path, kind: str) -> Any:
    place, by = str(folder / "out"), {"partitionBy": "k"} if "folders" in kind else {}
    return tm.Json(place, **by) if kind.startswith("json") else tm.Parquet(place, **by)


def six(folder: Path, kind: str = "json") -> tm.Repository:
    """Six batches; with partition folders, of two folders in turn."""
    r = opened(folder, sink=sink_of(folder, kind))
    for number, name in enumerate(NAMES):
        arrive(folder, name)
        if "folders" in kind:
            world(folder).put(name, f"{'xy'[number % 2]} z,1\n")
        run(r)
    return r
