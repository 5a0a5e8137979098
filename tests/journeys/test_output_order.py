"""`_seq` in the rows of a sink: the same for every number of tasks, and unique and increasing within a batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import Build, World, over, run, state

SCHEMA = "k string, v int"


def twice(key: Any, value: Any, state: Any) -> tuple[str, int]:
    state.update((state.getOption or 0) + 1)
    return (value.k, state.get)


def numbered(which: str) -> Build:
    def build(p: tm.Pipeline, world: World) -> None:
        rows, sink = world.read(p), tm.Parquet(world.out)
        spec = tm.StateSpec.function(lambda t, k, v, s: twice(k, v, s))
        counted = rows.groupBy("k").mapWithState(
            spec, stateSchema="int", outputSchema="k string, n int", name="counted"
        )
        if which == "keyed":
            counted.write(sink, name="out")
        elif which == "filtered":
            counted.sql("SELECT * FROM rows WHERE n % 2 = 1").write(sink, name="out")
        elif which == "keyless":
            rows.write(sink, name="out")
        elif which == "two sources":
            rows.unionByName(world.read(p, "more", pathGlobFilter="1*")).write(sink, name="out")
        elif which == "chained":
            counted.groupBy("n").agg(k=tm.max("k"), name="by-n").write(sink, name="out")
        else:
            counted.write(tm.Parquet(world.out, partitionBy=["n"]), name="out")

    return build


def numbers(folder: Path, build: Build, root: str = "root") -> World:
    """A repository that reads all files of a folder in a batch."""
    return World(folder, build, root=root, schema=SCHEMA, maxFilesPerTrigger=None)


def outputs(folder: Path, which: str, tasks: int) -> list[dict[str, Any]]:
    r = numbers(folder, numbered(which), f"root-{which}-{tasks}").open()
    run(r, tasks=tasks, adopt_sink=True)
    rows: list[dict[str, Any]] = r.outputs(sink="out").to_pylist()
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = random.Random(3)
    for number in range(4):
        rows = [(f"key-{chance.randint(0, 40)}", chance.randint(1, 9)) for _ in range(150)]
        World(tmp_path).put(f"{number}", rows)
    return tmp_path


@pytest.mark.parametrize("which", ["keyed", "filtered", "keyless", "two sources", "chained", "partitioned"])
def test_rows_have_the_same_numbers_for_every_number_of_tasks(folder: Path, which: str) -> None:
    one = outputs(folder, which, 1)
    assert len(one) > 20
    found = [row["_seq"] for row in one]
    assert found == sorted(set(found))
    for tasks in (2, 5):
        assert outputs(folder, which, tasks) == one, tasks


def test_the_latest_row_of_a_key_is_a_query(folder: Path) -> None:
    for row in outputs(folder, "keyed", 3):
        assert row["_batch_id"] == 0
    keyed = numbers(folder, numbered("keyed"), "root-keyed-3")
    keyed.put("more", "key-1,1\nkey-1,1\n")
    assert keyed.run(tasks=2) == [1]
    newest = duckdb.sql(
        f"""SELECT k, n FROM '{folder}/out/*.parquet'
            QUALIFY row_number() OVER (PARTITION BY k ORDER BY _batch_id DESC, _seq DESC) = 1"""
    ).fetchall()
    assert dict(newest) == state(keyed.open(), "counted")


def test_rows_of_one_call_for_all_keys_keep_their_order(folder: Path) -> None:
    def step(rows: pa.Table, state: pa.Table, context: Any) -> tuple[pa.Table, pa.Table]:
        return state, rows.select(["k", "v"]).sort_by("v")

    def stepped(rows: tm.Stream) -> None:
        made = rows.groupBy("k").apply_batch(step, stateSchema="n int", outputSchema=SCHEMA, name="step")
        made.write(tm.Json(str(folder / "out")), name="out")

    r = numbers(folder, over(stepped)).open()
    run(r, tasks=2)
    found = r.outputs().column("_seq").to_pylist()
    assert len(found) == 600
    assert found == sorted(set(found))
