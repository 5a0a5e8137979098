"""A shop whose state has several layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.engines.local import LocalEngine
from tidemill.repo.operators import committed_state
from tidemill.upkeep.merge_choice import MergeRule

ALL = MergeRule(ratio=1 << 40, least_rows=0)
"""Merge every range with more than one layer."""
RANGES = MergeRule(ratio=1 << 40, least_rows=0, range_rows=8)
"""The same in several key ranges."""


def total(batch_time, user, row, state):
    if row.n < 0:
        state.remove()
        return (user, None)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get)


class Shop:
    """A pipeline that sums by user; a negative number removes the user."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "in").mkdir()
        self.model: dict[str, int] = {}
        self.files = 0
        self.repository = self.open()
        self.repository.init()

    def open(self) -> tm.Repository:
        p = tm.Pipeline("shop")
        p.read(tm.Files(str(self.base / "in"), format="json", schema="user string, n int")).groupBy(
            "user"
        ).mapWithState(
            tm.StateSpec.function(total), stateSchema="long", outputSchema="user string, n long", name="users"
        )
        return tm.open(p, root=str(self.base / "root"), conf={"tidemill.disk_cache_bytes": 0})

    def write(self, rows: list[tuple[str, int]]) -> None:
        lines = "".join(json.dumps({"user": user, "n": n}) + "\n" for user, n in rows)
        (self.base / "in" / f"{self.files:05d}.json").write_text(lines)
        self.files += 1
        for user, n in rows:
            if n < 0:
                self.model.pop(user, None)
            else:
                self.model[user] = self.model.get(user, 0) + n

    def run(self, rows: list[tuple[str, int]], tasks: int = 1) -> None:
        self.write(rows)
        self.repository.run(engine="local", tasks=tasks)

    def seen(self, version: int | None = None) -> dict[str, int]:
        table = self.open().state("users", version=version)
        return dict(zip(*(column.to_pylist() for column in table.columns[:2]), strict=True))

    def check(self) -> None:
        assert self.seen() == self.model
        assert self.open().verify(deep=True).problems == []

    @property
    def live(self) -> list:
        context = self.open().opened
        return committed_state(context, context.head())["users"]["state"]

    def files_of_bases(self) -> set[str]:
        return {e.name for e in self.repository.opened.store.list("state/") if e.name.endswith("-base.parquet")}


HERE_OR_IN_TASKS = pytest.mark.parametrize("engine", [None, lambda: LocalEngine(3)], ids=["here", "in tasks"])
