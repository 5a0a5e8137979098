"""Requeued rows on Spark: executors read them from the repository, and give the state that the local engine gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import Build, World

pytestmark = pytest.mark.servers("start Spark")


def sums(fails: bool) -> Build:
    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if fails and key == "b":
            raise ValueError("no b today")
        state.update((state.getOption or 0) + row.n)
        return (key, row.n)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        spec = tm.StateSpec.function(track)
        rows.groupBy("k").mapWithState(spec, "bigint", "k string, n int", name="sums", on_error="quarantine")
        rows.groupBy("k").agg(n=tm.sum("n"), name="all")

    return build


def seen(world: World, **options: Any) -> list[Any]:
    world.open().run(**options)
    r = world.but(sums(fails=False)).open()
    rows = r.quarantine(0, export=True).to_pylist()
    schema = r.quarantine(0, export=True).schema
    fixed = [row | ({"k": "d", "n": 4} if row["_kind"] == "unreadable" else {}) for row in rows]
    r.requeue(0, rows=r.quarantine(0, export=True).from_pylist(fixed, schema=schema))
    r.run(**options)
    assert (r.head.version, r.head.counts.input_rows, r.head.counts.applied_rows) == (2, 62, 62)
    return [sorted(map(repr, r.state(name).drop_columns(["updated_at"]).to_pylist())) for name in ("sums", "all")]


@pytest.mark.parametrize("session", ["spark_session", "connect_session"])
def test_engines_agree_on_requeued_rows(request: pytest.FixtureRequest, tmp_path: Path, session: str) -> None:
    read = {"schema": "k string, n int", "mode": "PERMISSIVE", "maxFilesPerTrigger": None}
    world = World(tmp_path, sums(fails=True), **read)
    for number in range(3):
        rows = [(key, number * 100 + n) for n in range(20) for key in "abc"]
        world.arrive(rows + ([("d", "four")] if number < 2 else []))
    local = seen(world.but(root="local"), engine="local", tasks=1)
    spark = request.getfixturevalue(session)
    assert seen(world.but(root="spark"), spark=spark, engine="spark", tasks=3) == local
