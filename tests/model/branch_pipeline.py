"""The pipeline of random games with branches, and its rows and states as the naive model has them.

It has two sources, four operators (one of them after another), sinks of each kind, late and unreadable rows.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tidemill as tm
from tests.model.branches import OPERATORS, Code, Version

EPOCH = datetime.datetime(1970, 1, 1)
SCHEMA = "k string, v int, ts timestamp"


def by_name(plan: Any) -> int:
    """The batch time: a second a file."""
    return 1000 * max(number_of(split.path) for split in plan.splits)


def number_of(path: str) -> int:
    return int(re.sub(r"\D", "", Path(path).stem))


CALLS: dict[str, dict[int, list[dict[str, Any]]]] = {}
"""What `foreachBatch` was called with, by folder and version. It is no field of the function, because it is no code."""


class Functions:
    """The functions of the pipeline."""

    def __init__(self, folder: str, code: Code) -> None:
        self.folder, self.code = folder, code

    def seen(self, key: Any, row: Any, state: Any) -> Any:
        if state.isTimingOut:
            return (key, state.get, True)
        state.update((state.getOption or 0) + row.v + self.code.bonus)
        return (key, state.get, False)

    def call(self, table: Any, batch_id: int, withdrawn: Sequence[int] = ()) -> None:
        for gone in (*withdrawn, batch_id):
            CALLS[self.folder].pop(gone, None)
        CALLS[self.folder][batch_id] = table.to_pylist()


def pipeline(folder: Path, code: Code) -> tm.Pipeline:
    p, functions = tm.Pipeline("game"), Functions(str(folder), code)
    CALLS.setdefault(str(folder), {})
    p.batch_time(by_name)
    raw = [
        p.read(
            tm.Files(str(folder / name), format="csv", schema=SCHEMA, mode="PERMISSIVE", maxFilesPerTrigger=1),
            name=name,
        )
        for name in ("a", "b")
    ]
    a = raw[0].withWatermark("ts", "3 seconds", late="quarantine")
    both = raw[0].unionByName(raw[1]).sql(f"SELECT k, v * {code.factor} AS v FROM rows")
    totals = both.groupBy("k").agg(total=tm.sum("v"), name="totals")
    totals.write(tm.Json(str(folder / "out/totals")))
    totals.foreachBatch(functions.call, name="calls")
    if code.more:
        totals.write(tm.Parquet(str(folder / "out/more"), partitionBy=["k"]), name="more")
    levels = totals.sql("SELECT total % 3 AS level FROM rows").groupBy("level").agg(n=tm.count(), name="levels")
    levels.write(tm.Json(str(folder / "out/levels")))
    spec = tm.StateSpec.function(functions.seen).timeout("4500 milliseconds", clock="batch")
    raw[0].groupBy("k").mapWithState(
        spec, stateSchema="int", outputSchema="k string, total int, closed boolean", name="seen"
    ).write(tm.Parquet(str(folder / "out/seen"), partitionBy=["k"]))
    hours = a.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), name="hours", outputMode="update")
    hours.write(tm.Parquet(str(folder / "out/hours")))
    return p


def cells(sink: str, row: dict[str, Any]) -> tuple[Any, ...]:
    if sink in ("totals", "more"):
        return (row["k"], row["total"])
    if sink == "levels":
        return (row["level"], row["n"])
    if sink == "seen":
        return (row["k"], row["total"], row["closed"])
    start = row["window"]["start"]
    return (round((start.replace(tzinfo=None) - EPOCH).total_seconds() * 1000), row["n"])


def state(r: tm.Repository, number: int) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    for name in OPERATORS:
        table = r.state(name, number).to_pylist()
        if name == "totals":
            found[name] = {row["k"]: row["total"] for row in table}
        elif name == "levels":
            found[name] = {row["level"]: row["n"] for row in table}
        elif name == "seen":
            found[name] = {row["k"]: row["state"] for row in table}
        else:
            found[name] = {cells("hours", row)[0]: row["n"] for row in table}
    return found


def plain(version: Version) -> dict[str, dict[Any, Any]]:
    return {**version.state, "seen": {key: total for key, (total, _) in version.state["seen"].items()}}


@contextmanager
def keeps_names(folder: Path) -> Iterator[None]:
    """Check that published files with the content of files before have their names."""
    before = _published(folder)
    yield
    after = _published(folder)
    assert {content: after[content] for content in before.keys() & after.keys()}.items() <= before.items()


def _published(folder: Path) -> dict[tuple[str, bytes], str]:
    """Return the names of published files, by folder and content."""
    found = (path for path in (folder / "out").rglob("*") if path.is_file())
    return {(str(path.parent), path.read_bytes()): path.name for path in found}
