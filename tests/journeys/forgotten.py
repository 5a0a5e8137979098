"""A pipeline whose sink, quarantine and state have keys to forget, and what then still has them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm

ALICE, BOB = "alice-7391", "bob-5512"
ROWS = ((ALICE, 1), (BOB, 2), (ALICE, 3), ("carol", 4), (BOB, 5), (None, 6))
SINKS: dict[str, Any] = {
    "parquet": lambda folder: tm.Parquet(str(folder / "out")),
    "json": lambda folder: tm.Json(str(folder / "out")),
    "parquet by key": lambda folder: tm.Parquet(str(folder / "out"), partitionBy=["who"]),
    "json by key": lambda folder: tm.Json(str(folder / "out"), partitionBy=["who"]),
    "parquet by another column": lambda folder: tm.Parquet(str(folder / "out"), partitionBy=["total"]),
}


def pipeline(folder: Path, sink: Any = None, schema: str = "who string, n int", **read: Any) -> tm.Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(folder / "in"), format="json", schema=schema, maxFilesPerTrigger=1, **read))
    made = rows.groupBy("who").agg(total=tm.sum("n"), name="spend")
    made.write(tm.Parquet(str(folder / "out")) if sink is None else sink)
    return p


def opened(folder: Path, **options: Any) -> tm.Repository:
    r = tm.open(pipeline(folder, **options), root=str(folder / "root"))
    r.init()
    return r


def arrive(folder: Path, *rows: tuple[Any, int], name: str = "") -> None:
    (folder / "in").mkdir(exist_ok=True)
    number = len(list((folder / "in").iterdir()))
    lines = [json.dumps({"who": who, "n": n}) for who, n in rows]
    (folder / "in" / f"{number:03d}{name}.json").write_text("\n".join(lines) + "\n")


def run(r: tm.Repository, **options: Any) -> list[int]:
    return [one.version for one in r.run(engine="local", **options)]


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
    table = r.state("spend")
    return dict(zip(table["who"].to_pylist(), table["total"].to_pylist(), strict=True))


def is_clean(r: tm.Repository) -> bool:
    return r.verify(deep=True, forgotten=True).problems == []


def _same(found: dict[str, str], before: dict[str, str]) -> bool:
    return {name: text for name, text in found.items() if "/.tmp/" not in name and "_probe" not in name} == {
        name: text for name, text in before.items() if "/.tmp/" not in name and "_probe" not in name
    }
