"""`World`: files in a folder, a pipeline that reads them, its repository and its sinks. Tests of every level use it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import duckdb

import tidemill as tm

Build = Callable[[tm.Pipeline, "World"], Any]


def counts(p: tm.Pipeline, world: World) -> None:
    """Count the rows of each key, and publish the counts as JSON."""
    world.read(p).groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(world.out))


def over(*operators: Callable[[tm.Stream], Any]) -> Build:
    """Return a build that applies each of these to the one source."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        for operator in operators:
            operator(rows)

    return build


class World:
    """A folder with `in`, `root` and `out`: what arrives, what is kept, what is published.

    `build` gets a new pipeline and this world, and says what the pipeline does; by default it counts rows by key. Each
    `open` builds the pipeline again, as another process would. A file is a batch, unless `read` says otherwise.
    """

    def __init__(
        self, folder: Path, build: Build = counts, *, name: str = "shop", root: str = "root",
        conf: Mapping[str, Any] | None = None, **read: Any,
    ) -> None:  # fmt: skip
        self.folder, self.build, self.name, self.conf = folder, build, name, conf
        self.root = self._place(root)
        self.options = {"format": "csv", "schema": "k string, v int", "maxFilesPerTrigger": 1, **read}
        self.inbox = folder / "in"
        self.inbox.mkdir(parents=True, exist_ok=True)

    def but(self, build: Build | None = None, *, root: str | None = None, **read: Any) -> Self:
        """Return the same folder with another pipeline, another root, or other options of its source."""
        world = copy.copy(self)
        world.build, world.options = build or self.build, {**self.options, **read}
        world.root = self.root if root is None else self._place(root)
        return world

    def _place(self, root: str) -> str:
        return root if "://" in root else str(self.folder / root)

    @property
    def out(self) -> str:
        """Where the only sink writes; `sink` names others."""
        return self.sink("out")

    def sink(self, name: str) -> str:
        return str(self.folder / name)

    def read(self, p: tm.Pipeline, source: str = "source", inbox: str = "in", **options: Any) -> tm.Stream:
        """Read the files of a folder: `in`, or for a pipeline with several sources another one."""
        (self.folder / inbox).mkdir(parents=True, exist_ok=True)
        return p.read(tm.Files(str(self.folder / inbox), **{**self.options, **options}), name=source)

    def pipeline(self) -> tm.Pipeline:
        p = tm.Pipeline(self.name)
        self.build(p, self)
        return p

    def open(self, branch: str = "main", *, init: bool = True, conf: Mapping[str, Any] | None = None) -> tm.Repository:
        """Open the repository as a new process would. `init` makes it, and records operators that are new."""
        r = tm.open(self.pipeline(), root=self.root, branch=branch, conf=self.conf if conf is None else conf)
        if init and branch == "main":
            r.init()
        return r

    def arrive(self, *files: str | Iterable[Any], inbox: str = "in") -> list[Path]:
        """Write a file each, named in their order: its text, or its rows (tuples as CSV, dicts as JSON)."""
        folder = self.folder / inbox
        return [self.put(f"{len(list(folder.glob('*'))):04d}", content, inbox) for content in files]

    def put(self, name: str, content: str | bytes | Iterable[Any] = "", inbox: str = "in") -> Path:
        """Write a file of this name. It gets the suffix of the format if it has none."""
        path = self.folder / inbox / (name if "." in name else f"{name}.{self.options['format']}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else _text(content).encode())
        return path

    def run(self, **options: Any) -> list[int]:
        """Open the repository, run the batches that wait on the local engine, and return their versions."""
        return run(self.open(), **options)

    def published(self, sink: str = "out") -> list[dict[str, Any]]:
        """Return the rows that a plain reader finds in a sink of JSON files, in the order of their versions."""
        if not any(Path(self.sink(sink)).rglob("*.json")):
            return []
        found = duckdb.sql(f"SELECT * FROM read_json('{self.sink(sink)}/**/*.json', union_by_name = true)")
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        return sorted(rows, key=lambda row: (row["_batch_id"], str(row)))


def _text(content: str | Iterable[Any]) -> str:
    return content if isinstance(content, str) else "".join(f"{_line(row)}\n" for row in content)


def _line(row: Any) -> str:
    if isinstance(row, Mapping):
        return json.dumps(row)
    return ",".join("" if value is None else str(value) for value in row)


def run(r: tm.Repository, **options: Any) -> list[int]:
    """Run the batches that wait on the local engine, and return their versions."""
    return [one.version for one in r.run(engine="local", **options)]


def state(r: tm.Repository, operator: str, version: int | str | None = None) -> dict[Any, Any]:
    """Return the first column of an operator's state with the second one."""
    table = r.state(operator, version=version)
    return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
