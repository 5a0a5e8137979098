"""Pipelines before and after a migration, and a place where they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tests.world import World, over

Build = Callable[[tm.Stream], Any]
USERS = 200


def keep_sum(row: Any, state: Any) -> None:
    if row is not None:
        state.update((state.getOption or 0) + row.cents)


def keep_euros(row: Any, state: Any) -> None:
    if row is not None:
        state.update(((state.getOption.euros if state.exists else 0.0) + row.cents / 100,))


def to_euros(table: pa.Table) -> pa.Table:
    return pa.table({"user": table["user"], "euros": pc.divide(table["state"].cast("double"), 100)})


def sums(kind: str = "bigint", name: str = "sums", function: Any = keep_sum, timeout: Any = None) -> Build:
    spec = tm.StateSpec.function(function)
    spec = spec if timeout is None else spec.timeout(**timeout)
    return lambda s: s.groupBy("user").mapWithState(spec, kind, "string", name=name)


def euros(name: str = "sums", timeout: Any = None) -> Build:
    return sums("euros double", name, keep_euros, timeout)


class Place(World):
    """A repository of users' cents, for pipelines that differ. The batch time follows the number of the file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="bank", schema="user string, cents bigint")

    def pipeline(self) -> tm.Pipeline:
        return super().pipeline().batch_time(lambda plan: 1000 * (1 + int(Path(plan.splits[0].path).stem)))

    def opened(self, *builds: Build) -> tm.Repository:
        return self.but(over(*builds)).open(init=False)

    def begun(self, *builds: Build, users: int = USERS) -> tm.Repository:
        """A repository with one batch: user `u7` has 7 cents."""
        r = self.but(over(*builds)).open()
        self.arrive((f"u{n}", n) for n in range(users))
        r.run(engine="local")
        return r

    def segments(self, operator: str = "sums") -> set[str]:
        return {path.name for path in Path(self.root, "bank/state", operator).rglob("*.parquet")}


def values(r: tm.Repository, operator: str = "sums", **arguments: Any) -> dict[Any, Any]:
    rows = r.state(operator, **arguments).drop_columns(["updated_at", "deadline"]).to_pylist()
    return dict(tuple(row.values())[:2] for row in rows)


def ms(r: tm.Repository, column: str, operator: str = "sums") -> set[int | None]:
    times = r.state(operator).column(column).cast("int64").to_pylist()
    return set(times)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(tm.InvalidInput) as caught:
        call()
    return caught.value.first_line
