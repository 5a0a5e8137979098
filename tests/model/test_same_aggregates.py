"""All aggregate functions, by keys, windows and sessions: the same to the last bit for any number of tasks."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World

pytestmark = pytest.mark.slow("long random runs")

FILES, ROWS, SPLITS = 6, 400, 8
START_US = 1_700_000_000_000_000
SCHEMA = (
    "k string, ts timestamp, x double, f float, n bigint, m decimal(20,4), s string, r struct<a: double, b: array<int>>"
)
ALL: dict[str, Any] = {
    "rows": tm.count(),
    "known": tm.count("x"),
    **{f"sum_{name}": tm.sum(name) for name in "xfnm"},
    **{f"mean_{name}": tm.mean(name) for name in "xfnm"},
    **{f"var_{name}": tm.var(name) for name in "xfnm"},
    **{f"stddev_{name}": tm.stddev(name) for name in "xfnm"},
    **{f"min_{name}": tm.min(name) for name in "xfnmsr"},
    **{f"max_{name}": tm.max(name) for name in "xfnmsr"},
    **{f"first_{name}": tm.first(name) for name in "xsr"},
    **{f"last_{name}": tm.last(name) for name in "xsr"},
    "least": tm.min_by("x", "n"),
    "most": tm.max_by("r", "n"),
    "about": tm.approx_count_distinct("x"),
    "about_texts": tm.approx_count_distinct("s", 0.01),
    "set": tm.collect_set("x", 25),
    "set_of_structs": tm.collect_set("r", 7),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write files of several row groups, each a split: doubles of all sizes, nulls, NaN, -0.0, ties, late rows."""
    chance = random.Random(7)
    folder = tmp_path_factory.mktemp("aggregates")
    (folder / "in").mkdir()

    def row(file: int) -> dict[str, Any]:
        wide = chance.uniform(-1, 1) * 10.0 ** chance.randint(-12, 12)
        key = chance.choice([None, *"abcdefgh"])
        seconds = file * 600 + chance.randint(-500, 600)
        return {
            "k": key,
            "ts": START_US + seconds * 1_000_000,
            "x": chance.choice([wide, wide, wide, -0.0, 0.0, None] + [float("nan")] * (key == "h")),
            "f": chance.choice([1e-3, None, chance.uniform(-3e7, 3e7), chance.random(), chance.uniform(-9, 9)]),
            "n": chance.choice([None, *range(ord(key or "a"), ord(key or "a") + 30)]),
            "m": Decimal(chance.randint(-(10**15), 10**15)).scaleb(-4),
            "s": chance.choice([None, *(f"{key} {number}" for number in range(300))]),
            "r": chance.choice([None, {"a": chance.choice([-0.0, 1.5, wide]), "b": [1, None][: chance.randint(0, 2)]}]),
        }

    schema = tm.Rows(SCHEMA).schema
    for file in range(FILES):
        table = pa.Table.from_pylist([row(file) for _ in range(ROWS)], schema)
        pq.write_table(table, folder / f"in/{file}.parquet", row_group_size=ROWS // SPLITS)
    return folder


def batch_time(plan: Any) -> int:
    assert len(plan.splits) == 2 * SPLITS
    return START_US // 1000 + 600_000 * (int(Path(plan.splits[-1].path).stem) + 1)


def aggregates(p: tm.Pipeline, world: World) -> None:
    p.batch_time(batch_time)
    rows = world.read(p).withWatermark("ts", "5 minutes")
    rows.groupBy("k").agg(**ALL, name="by-key")
    rows.groupBy(tm.window("ts", "10 minutes", "5 minutes"), "k").agg(**ALL, outputMode="append", name="by-window")
    rows.groupBy("k", tm.session_window("ts", "10 seconds")).agg(**ALL, name="by-session")


def results(folder: Path, tasks: int) -> dict[str, Any]:
    """Return the state and all outputs of each operator, with floats as their bits."""
    read = {"format": "parquet", "schema": SCHEMA, "maxFilesPerTrigger": 2}
    world = World(folder, aggregates, root=f"root-{tasks}", conf={"tidemill.split_bytes": 1}, **read)
    repository = world.open()
    progress = repository.run(engine="local", tasks=tasks)
    assert [one.numInputRows for one in progress] == [2 * ROWS] * (FILES // 2)
    names = list(repository.opened.job.operators)
    found = {f"state {name}": bits(repository.state(name).to_pylist()) for name in names}
    return found | {f"outputs {name}": bits(repository.outputs(sink=name).to_pylist()) for name in names}


def bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return [bits(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def one(folder: Path) -> dict[str, Any]:
    return results(folder, 1)


def test_every_function_has_results_in_every_case(folder: Path, one: dict[str, Any]) -> None:
    table = pq.read_table(folder / "in")
    by_key = [table.filter(pc.equal(table["k"], key))["x"].drop_null().to_pylist() for key in "abcdefg"]
    assert any(sum(values) != sum(reversed(values)) for values in by_key)  # the order of adding can be seen
    functions = {function.function for function in ALL.values()}
    assert functions == {
        "count", "sum", "min", "max", "mean", "first", "last", "min_by", "max_by", "var", "stddev",
        "approx_count_distinct", "collect_set",
    }  # fmt: skip
    for name in ("by-key", "by-window", "by-session"):
        rows = one[f"outputs {name}"]
        for output in ALL:
            values = [repr(row[output]) for row in rows if row[output] is not None]
            assert len(set(values)) > 1, (name, output)


@pytest.mark.parametrize("tasks", [2, 5])
def test_any_number_of_tasks_gives_the_same_bits(folder: Path, one: dict[str, Any], tasks: int) -> None:
    many = results(folder, tasks)
    assert many.keys() == one.keys()
    for part, expected in one.items():
        assert many[part] == expected, part
