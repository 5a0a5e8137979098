"""`_seq`: the canonical order of a batch's output rows, the same for every number of tasks."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import Build, World, over, run, state
from tidemill.batch.ranges import cut
from tidemill.batch.sequence import GROUP_BITS, group_of, groups_of, sequence
from tidemill.errors import InvalidInput
from tidemill.protocol.records import HASH_END

SCHEMA = "k string, v int"


def naive(groups: list[int], pass_number: int) -> list[int]:
    seen: dict[int, int] = {}
    found = []
    for group in groups:
        seen[group] = seen.get(group, -1) + 1
        found.append((pass_number << 52) + (group << 32) + seen[group])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_number_is_the_pass_the_group_and_the_place_in_the_group(seed: int) -> None:
    chance = random.Random(seed)
    groups = sorted(chance.choice([0, 1, 7, (1 << GROUP_BITS) - 1]) for _ in range(chance.randint(1, 40)))
    for pass_number in (0, 1):
        found = sequence(pa.array(groups, pa.int64()), pass_number).to_pylist()
        assert found == naive(groups, pass_number)
        assert found == sorted(set(found))


def test_numbers_stay_exact_in_json_readers() -> None:
    [greatest] = sequence(pa.array([(1 << GROUP_BITS) - 1], pa.int64()), 1).to_pylist()
    assert 2**52 < greatest < 2**53 - 2**31


def test_groups_come_from_order_numbers() -> None:
    assert groups_of(pa.array([(5 << 32) + 7, 3], pa.int64())).to_pylist() == [5, 0]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 1000, 1 << GROUP_BITS])
def test_no_range_cuts_a_group(tasks: int) -> None:
    bounds = cut(tasks)
    assert (bounds[0][0], bounds[-1][1]) == (0, HASH_END)
    for (_, end), (begin, _) in itertools.pairwise(bounds):
        assert begin == end + 1
        assert group_of(end) + 1 == group_of(begin)
    sizes = [hi - lo for lo, hi in bounds]
    assert max(sizes) - min(sizes) <= 1 << (64 - GROUP_BITS)


def test_more_tasks_than_groups_are_refused() -> None:
    with pytest.raises(InvalidInput, match="into 1,048,577 tasks: expected at most 1,048,576"):
        cut((1 << GROUP_BITS) + 1)


# in a batch


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


def test_a_stream_with_a_column_of_that_name_is_refused() -> None:
    p = tm.Pipeline("taken")
    rows = p.read(tm.Rows("k string")).sql("SELECT k, 1 AS _seq FROM rows")
    with pytest.raises(InvalidInput, match="sink `out`: the stream has a column `_seq`, which Tidemill adds itself"):
        rows.write(tm.Json("memory://taken"), name="out")
