"""A folder with input files, a repository and a naive model, for tests of replays, branches and promotions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tidemill as tm
from tests.world import Build, World, run, state

PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent

twice = tm.Pipeline("shop")
rows = twice.read(tm.Files(str(here / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE"))
doubled = rows.sql("SELECT k, n * 2 AS n FROM rows")
doubled.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(here / "out")))
"""


def scaled(factor: int = 1, extra: bool = False) -> Build:
    """The sums of a key, times a factor; and with another operator, how many rows the key has."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        made = rows.sql(f"SELECT k, n * {factor} AS n FROM rows")
        made.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(world.out))
        if extra:
            rows.groupBy("k").agg(c=tm.count(), name="extra")

    return build


def with_keys(factor: int = 1) -> Build:
    """Has a sink of all keys, too, which come from another source of the same files."""

    def build(p: tm.Pipeline, world: World) -> None:
        scaled(factor)(p, world)
        rows = world.read(p, "more", maxFilesPerTrigger=None)
        rows.sql("SELECT k FROM rows").write(tm.Json(world.sink("keys")), name="keys")

    return build


class Place(World):
    """A folder with input files, a repository, and a naive model of what each file has."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, scaled(), schema="k string, n int", mode="PERMISSIVE", maxFilesPerTrigger=2)
        (folder / "shop.py").write_text(PIPELINE)
        self.files: dict[str, list[tuple[str, int]]] = {}
        self.open(init=True)

    def open(
        self, branch: str = "main", *, init: bool = False, conf: Mapping[str, Any] | None = None, **code: Any
    ) -> tm.Repository:
        """Open the repository with this code, or with what `scaled` makes of `code`. It is made once, without it."""
        return World.open(self.but(scaled(**code)) if code else self, branch, init=init, conf=conf)

    def arrive(self, *names: Any, inbox: str = "in") -> list[Path]:
        """Write a file of each name, a number, with rows that follow from the number."""
        for name in names:
            self.files[name] = [(f"k{j % 3}", int(name) + j) for j in range(int(name) + 1)]
        return [self.put(name, [*self.files[name], ("bad",)], inbox) for name in names]

    def sums(self, factor: int = 1, without: tuple[str, ...] = ()) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name, rows in self.files.items():
            for key, n in rows if name not in without else ():
                found[key] += n * factor
        return dict(found)

    def lines(self) -> list[tuple[int, str, int]]:
        """The rows that a plain reader finds in the sink."""
        return sorted((row["_batch_id"], row["k"], row["n"]) for row in self.published())


def placed(folder: Path) -> Place:
    """Three versions from five files, each with a row that cannot be read."""
    made = Place(folder)
    made.arrive("1", "2", "3", "4", "5")
    assert run(made.open()) == [0, 1, 2]
    return made


def sums(r: tm.Repository, operator: str = "sums") -> dict[str, int]:
    return state(r, operator)


def rows(r: tm.Repository) -> list[tuple[Any, ...]]:
    table = r.outputs(sink="sums")
    return [tuple(row.values()) for row in table.to_pylist()]


def bag(table: Any) -> Counter[str]:
    return Counter(map(str, table.drop_columns(["version"]).to_pylist()))
