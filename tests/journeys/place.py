"""A folder with input files, a repository and a naive model, for tests of replays, branches and promotions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import tidemill as tm
from tests.world import run

PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent

twice = tm.Pipeline("shop")
rows = twice.read(tm.Files(str(here / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE"))
doubled = rows.sql("SELECT k, n * 2 AS n FROM rows")
doubled.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(here / "out")))
"""


class Place:
    """A folder with input files, a repository, and a naive model of what each file has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        (folder / "shop.py").write_text(PIPELINE)
        self.files: dict[str, list[tuple[str, int]]] = {}
        self.open().init()

    def make(self, factor: int = 1, extra: bool = False) -> tm.Pipeline:
        p = tm.Pipeline("shop")
        files = tm.Files(
            str(self.folder / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE", maxFilesPerTrigger=2
        )
        rows = p.read(files)
        scaled = rows.sql(f"SELECT k, n * {factor} AS n FROM rows")
        scaled.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(self.folder / "out")))
        if extra:
            rows.groupBy("k").agg(c=tm.count(), name="extra")
        return p

    def open(self, branch: str = "main", **code: Any) -> tm.Repository:
        return tm.open(self.make(**code), root=str(self.folder / "root"), branch=branch)

    def arrive(self, *names: str) -> None:
        for name in names:
            rows = [(f"k{j % 3}", int(name) + j) for j in range(int(name) + 1)]
            self.files[name] = rows
            text = "".join(f"{k},{n}\n" for k, n in rows)
            (self.folder / "in" / f"{name}.csv").write_text(text + "bad\n")

    def sums(self, factor: int = 1, without: tuple[str, ...] = ()) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name, rows in self.files.items():
            for key, n in rows if name not in without else ():
                found[key] += n * factor
        return dict(found)

    def published(self) -> list[tuple[int, str, int]]:
        """The rows that a plain reader finds in the sink."""
        texts = (path.read_text() for path in sorted((self.folder / "out").glob("*.json")))
        lines = (line for text in texts for line in text.splitlines())
        rows = map(json.loads, lines)
        return sorted((row["_batch_id"], row["k"], row["n"]) for row in rows)


def placed(folder: Path) -> Place:
    """Three versions from five files, each with a row that cannot be read."""
    made = Place(folder)
    made.arrive("1", "2", "3", "4", "5")
    assert run(made.open()) == [0, 1, 2]
    return made


def sums(r: tm.Repository, operator: str = "sums") -> dict[str, int]:
    table = r.state(operator)
    return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


def rows(r: tm.Repository) -> list[tuple[Any, ...]]:
    table = r.outputs(sink="sums")
    return [tuple(row.values()) for row in table.to_pylist()]


def bag(table: Any) -> Counter[str]:
    return Counter(map(str, table.drop_columns(["version"]).to_pylist()))
