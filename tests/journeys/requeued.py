"""A shop whose files have invalid rows, for tests of `requeue`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import tidemill as tm
from tests.world import Build, World, run

SCHEMA = "id int, k string, n int, ts timestamp"
BROKEN = {1: "id,k,n,ts\n1,a,10,2024-01-01T00:00:01\n2,b,oops,2024-01-01T00:00:02\n3,a,x,2024-01-01T00:00:03\n"}
GOOD = "id,k,n,ts\n4,a,1,2024-01-01T00:00:04\n5,c,2,2024-01-01T00:00:05\n"


def add(key: Any, row: Any, state: Any) -> Any:
    state.update((state.getOption or 0) + row.n)
    return (key, state.get)


def fails_for_b(key: Any, row: Any, state: Any) -> Any:
    if key == "b":
        raise ValueError("no b today")
    return add(key, row, state)


def tracked(function: Any = add, on_error: str = "fail") -> Build:
    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        return function(key, row, state)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "shop")
        rows.groupBy("k").mapWithState(
            tm.StateSpec.function(track), "bigint", "k string, total bigint", name="totals", on_error=on_error
        )
        rows.groupBy("k").agg(rows=tm.count(), n=tm.sum("n"), name="counts")
        rows.select("id", "n").write(tm.Json(world.sink("plain")), name="plain")

    return build


class Shop(World):
    """A folder with files, and a repository beside it. Batches have `tasks` tasks."""

    def __init__(self, folder: Path, tasks: int = 1) -> None:
        super().__init__(folder, tracked(), schema=SCHEMA, header=True, mode="PERMISSIVE", maxFilesPerTrigger=None)
        self.tasks = tasks

    def having(self, function: Any = add, on_error: str = "fail", **read: Any) -> Shop:
        """Return the same shop with another function."""
        return self.but(tracked(function, on_error), **read)

    def run(self, **options: Any) -> list[int]:
        return run(self.open(init=False), tasks=self.tasks, **options)

    def seen(self) -> dict[str, Any]:
        r = self.open(init=False)
        return {
            **{name: {row["k"]: tuple(row[c] for c in row if c not in ("k", "updated_at", "deadline"))
                      for row in r.state(name).to_pylist()} for name in ("totals", "counts")},
            "plain": sorted((row["id"], row["n"]) for row in r.outputs(sink="plain").to_pylist()),
        }  # fmt: skip


def begin(folder: Path, tasks: int = 1, **read: Any) -> Shop:
    shop = Shop(folder, tasks).but(**read)
    shop.put("1.csv", BROKEN[1])
    shop.open()
    shop.run()
    return shop


def failing(shop: Shop) -> Shop:
    """The shop with a function that fails for key `b`, whose rows then go to quarantine."""
    return shop.having(fails_for_b, "quarantine")


def failed(folder: Path, tasks: int = 1) -> Shop:
    """The function failed for key `b`, whose rows are in quarantine, in two files."""
    shop = Shop(folder, tasks)
    shop.put("1.csv", "id,k,n,ts\n1,a,10,2024-01-01T00:00:01\n2,b,20,2024-01-01T00:00:02\n3,b,30,2024-01-01T00:00:03\n")
    shop.put("2.csv", "id,k,n,ts\n4,b,40,2024-01-01T00:00:04\n")
    shop.open()
    failing(shop).run()
    return shop


ROW = {"_version": 0, "_row_id": 0, "id": 2, "k": "b", "n": 20, "ts": None}


def table(**changed: Any) -> pa.Table:
    types = {"_version": pa.int64(), "_row_id": pa.int64(), "id": pa.int32(), "n": pa.int32(), "k": pa.string()}
    row = {**ROW, **changed}
    kinds = {name: types.get(name) if not isinstance(value, str) else None for name, value in row.items()}
    kinds["ts"] = pa.timestamp("us", "UTC")
    return pa.table({name: pa.array([value], kinds[name]) for name, value in row.items()})
