"""A shop whose state has several layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over, run, state
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


def users(name: str = "users") -> Callable[[tm.Stream], Any]:
    spec = tm.StateSpec.function(total)
    return lambda s: s.groupBy("user").mapWithState(
        spec, stateSchema="long", outputSchema="user string, n long", name=name
    )


class Shop(World):
    """A pipeline that sums by user; a negative number removes the user. A dict has the same sums."""

    def __init__(self, folder: Path) -> None:
        conf = {"tidemill.disk_cache_bytes": 0}
        super().__init__(folder, over(users()), schema="user string, n int", conf=conf)
        self.model: dict[str, int] = {}
        self.repository = self.open()

    def batch(self, rows: list[tuple[str, int]], tasks: int = 1) -> None:
        self.arrive(rows)
        run(self.repository, tasks=tasks)
        for user, n in rows:
            if n < 0:
                self.model.pop(user, None)
            else:
                self.model[user] = self.model.get(user, 0) + n

    def seen(self, version: int | None = None) -> dict[str, int]:
        return state(self.open(), "users", version)

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
