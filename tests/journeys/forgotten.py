"""A pipeline whose sink, quarantine and state have keys to forget, and what then still has them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm
from tests.world import World, run, state

ALICE, BOB = "alice-7391", "bob-5512"
ROWS = ((ALICE, 1), (BOB, 2), (ALICE, 3), ("carol", 4), (BOB, 5), (None, 6))
SINKS: dict[str, Any] = {
    "parquet": lambda folder: tm.Parquet(str(folder / "out")),
    "json": lambda folder: tm.Json(str(folder / "out")),
    "parquet by key": lambda folder: tm.Parquet(str(folder / "out"), partitionBy=["who"]),
    "json by key": lambda folder: tm.Json(str(folder / "out"), partitionBy=["who"]),
    "parquet by another column": lambda folder: tm.Parquet(str(folder / "out"), partitionBy=["total"]),
}


def world(folder: Path, sink: Any = None, schema: str = "who string, n int", **read: Any) -> World:
    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("who").agg(total=tm.sum("n"), name="spend")
        made.write(tm.Parquet(world.out) if sink is None else sink)

    return World(folder, build, format="json", schema=schema, **read)


def opened(folder: Path, **options: Any) -> tm.Repository:
    return world(folder, **options).open()


def arrive(folder: Path, *rows: tuple[Any, int]) -> None:
    world(folder).arrive([{"who": who, "n": n} for who, n in rows])


def shop(folder: Path, **options: Any) -> tm.Repository:
    """Two batches; the second one has three of the keys again."""
    arrive(folder, *ROWS)
    arrive(folder, (ALICE, 10), ("carol", 20), (None, 30))
    r = opened(folder, **options)
    run(r)
    return r


def objects(*folders: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the decoded content of every file below folders."""
    for path in sorted(one for folder in folders for one in folder.rglob("*") if one.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            yield str(path), str(pq.ParquetFile(io.BytesIO(data)).read().to_pylist())
        else:
            yield str(path), data.decode()


def holding(folder: Path, text: str) -> list[str]:
    """Return the files below the root and the sink that have a text in their content."""
    return [name for name, content in objects(folder / "root", folder / "out") if text in content]


def totals(r: tm.Repository) -> dict[Any, int]:
    return state(r, "spend")


def is_clean(r: tm.Repository) -> bool:
    return r.verify(deep=True, forgotten=True).problems == []


def _same(found: dict[str, str], before: dict[str, str]) -> bool:
    return {name: text for name, text in found.items() if "/.tmp/" not in name and "_probe" not in name} == {
        name: text for name, text in before.items() if "/.tmp/" not in name and "_probe" not in name
    }
