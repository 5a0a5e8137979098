"""A small pipeline with a sink, for tests of publishing: files in, counts out, and what a plain reader finds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import duckdb

import tidemill as tm
from tidemill.protocol.codec import checksum_of, encode
from tidemill.protocol.records import Commit
from tidemill.protocol.successor import successor


def opened(folder: Path, root: str = "root", sink: Any = None, **agg: Any) -> tm.Repository:
    """A pipeline from `in` to the sink, by default `out`, one file a batch."""
    (folder / "in").mkdir(exist_ok=True)
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))
    made = rows.groupBy("k").agg(**(agg or {"n": tm.count()}), name="counts")
    if sink is not False:
        made.write(tm.Json(str(folder / "out")) if sink is None else sink)
    r = tm.open(p, root=root if "://" in root else str(folder / root))
    r.init()
    return r


def arrive(folder: Path, *names: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for name in names:
        (folder / "in" / f"{name}.csv").write_text(f"{name},1\n")


def run(r: tm.Repository, **options: Any) -> list[int]:
    return [one.version for one in r.run(engine="local", **options)]


def published(folder: Path) -> list[dict[str, Any]]:
    """The rows that a plain reader finds in the sink."""
    found = duckdb.sql(f"SELECT k, n, _batch_id FROM read_json('{folder}/out/**/*.json') ORDER BY _batch_id, k")
    return [dict(zip(("k", "n", "version"), row, strict=True)) for row in found.fetchall()]


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
