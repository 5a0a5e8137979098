"""Unusual shapes: one key with half of all rows, rows of 1 MB, 1,000 columns, many files in a batch.

Each result equals that of a few lines of plain Python. Larger sizes, with times and memory, are in
`benchmarks/README.md`, "Limits".
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import Build, World, run, state
from tidemill.sources import decode, parquet
from tidemill.sources.contract import ROW, ReadContext

MB = 1_000_000


def uncached(folder: Path, build: Build, **read: Any) -> World:
    """A world that reads all files in one batch, and caches nothing."""
    conf = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}
    return World(folder, build, conf=conf, **{"maxFilesPerTrigger": None, "format": "parquet", **read})


def once(world: World, **options: Any) -> tm.Repository:
    """Run a pipeline once, in one batch."""
    r = world.open()
    assert run(r, **options) == [0]
    return r


def total(batch_time: int, key: Any, row: Any, state: Any) -> tuple[str, int]:
    state.update((state.getOption or 0) + row.v)
    return key, state.get


def hot(p: tm.Pipeline, world: World) -> None:
    rows = world.read(p)
    rows.groupBy("k").agg(total=tm.sum("v"), name="sums")
    rows.groupBy("k").mapWithState(
        tm.StateSpec.function(total), stateSchema="long", outputSchema="k string, total long", name="running"
    )


@pytest.mark.parametrize("tasks", [1, 3])
def test_one_key_may_have_half_of_all_rows(tasks: int, tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    count = 60_000
    keys = np.where(chance.random(count) < 0.5, 0, chance.integers(1, 5_000, count))
    values = chance.integers(0, 1_000, count)
    world = uncached(tmp_path, hot, schema="k string, v long")
    for number, part in enumerate(np.array_split(np.arange(count), 4)):
        rows = pa.table({"k": pa.array([f"k{key}" for key in keys[part]]), "v": values[part]})
        pq.write_table(rows, world.inbox / f"{number}.parquet")
    expected: dict[str, int] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        expected[f"k{key}"] = expected.get(f"k{key}", 0) + value
    r = once(world, tasks=tasks)
    assert state(r, "sums") == state(r, "running") == expected


def large_rows(folder: Path, kind: str, count: int, size: int) -> list[str]:
    """Write a file of rows with a text of `size` characters; return the texts."""
    chance = np.random.default_rng(2)
    texts = [chance.integers(97, 123, size, dtype=np.uint8).tobytes().decode() for _ in range(count)]
    folder.mkdir(exist_ok=True)
    if kind == "parquet":
        table = pa.table({"k": [f"k{number}" for number in range(count)], "text": texts})
        pq.write_table(table, folder / "0.parquet", write_batch_size=4)
    else:
        lines = (json.dumps({"k": f"k{number}", "text": text}) for number, text in enumerate(texts))
        (folder / f"0.{kind}").write_text("".join(f"{line}\n" for line in lines))
    return texts


def keep(batch_time: int, key: Any, row: Any, state: Any) -> tuple[str, int]:
    state.update(row.text)
    return key, len(row.text)


def kept(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").mapWithState(
        tm.StateSpec.function(keep), stateSchema="string", outputSchema="k string, n long", name="kept"
    )


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_rows_of_a_megabyte_keep_their_texts(kind: str, tmp_path: Path) -> None:
    texts = large_rows(tmp_path / "in", kind, 40, MB)
    r = once(uncached(tmp_path, kept, format=kind, schema="k string, text string"), tasks=2)
    assert state(r, "kept") == {f"k{number}": text for number, text in enumerate(texts)}


@pytest.mark.parametrize("kind", ["parquet", "json"])
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_blocks_of_large_rows_are_cut_by_their_bytes_and_always_alike(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "BLOCK_BYTES", 300_000)
    monkeypatch.setattr(parquet, "BATCH_BYTES", 100_000)
    monkeypatch.setattr("tidemill.sources.files.BLOCK_BYTES", 300_000)
    texts = large_rows(tmp_path / "in", kind, 200, 10_000)
    source = tm.Files(str(tmp_path / "in"), format=kind, schema="k string, text string", mode=mode)
    (split,) = source.splits(source.look("source"))
    read = [list(source.read(split, 1000, ReadContext())) for _ in range(2)]
    for blocks in read:
        assert [block.number for block in blocks] == list(range(len(blocks)))
        assert 5 <= len(blocks) <= 8
        assert all(block.rows.nbytes < 500_000 for block in blocks)
        assert [text for block in blocks for text in block.rows.column("text").to_pylist()] == texts
        assert [row for block in blocks for row in block.rows.column(ROW).to_pylist()] == list(range(200))
    assert [block.rows.num_rows for block in read[0]] == [block.rows.num_rows for block in read[1]]


PEAK = """
import pathlib, sys
import tidemill as tm
def peak():  # not `ru_maxrss`, which begins with that of the parent
    found = pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1]
    return 1024 * int(found.split()[0])
p = tm.Pipeline("large")
rows = p.read(tm.Files(sys.argv[1], schema="k string, text string"))
rows.groupBy("k").mapWithState(
    tm.StateSpec.function(lambda time, key, row, state: state.update(len(row.text))),
    stateSchema="int", outputSchema="n int", name="sizes",
)
r = tm.open(p, root=sys.argv[2], conf={"tidemill.disk_cache_bytes": 0})
r.init()
before = peak()
r.run(engine="local", tasks=1)
print(peak() - before)
"""


def test_a_batch_of_large_rows_needs_at_most_four_times_their_bytes(tmp_path: Path) -> None:
    texts = large_rows(tmp_path / "in", "parquet", 200, MB)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "in"), str(tmp_path / "root")]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert peak < 4 * len(texts) * MB, f"{peak:,} bytes for {len(texts)} rows of 1 MB"


def test_a_thousand_columns_have_a_thousand_sums(tmp_path: Path) -> None:
    columns = [f"c{number}" for number in range(999)]
    values = np.random.default_rng(3).integers(0, 100, (300, 999))
    keys = [f"k{number % 40}" for number in range(300)]

    def wide(p: tm.Pipeline, world: World) -> None:
        sums = world.read(p).groupBy("k").agg(**{f"s{name}": tm.sum(name) for name in columns}, name="sums")
        sums.write(tm.Parquet(world.out))

    world = uncached(tmp_path, wide, schema=", ".join(["k string", *(f"{name} long" for name in columns)]))
    rows = pa.table({"k": keys} | {name: values[:, number] for number, name in enumerate(columns)})
    pq.write_table(rows, world.inbox / "0.parquet")
    once(world)
    (file,) = Path(world.out).rglob("*.parquet")
    found = pq.read_table(file).to_pylist()
    assert len(found) == 40
    for row in found:
        expected = values[[key == row["k"] for key in keys]].sum(axis=0).tolist()
        assert [row[f"s{name}"] for name in columns] == expected


def test_a_batch_of_many_files_reads_each_once(tmp_path: Path) -> None:
    def many(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").agg(total=tm.sum("v"), n=tm.count(), name="sums")

    world = uncached(tmp_path, many, format="json", schema="k string, v long")
    world.arrive(*([{"k": f"k{number % 7}", "v": number}] for number in range(400)))
    r = once(world, tasks=2)
    world.arrive([{"k": "k0", "v": 1000}])
    (again,) = r.run(engine="local")
    assert again.numInputRows == 1
    assert r.run(engine="local") == []
    expected = {f"k{key}": sum(range(key, 400, 7)) + 1000 * (key == 0) for key in range(7)}
    assert {row["k"]: row["total"] for row in r.outputs(sink="sums", version=0).to_pylist()} | {
        row["k"]: row["total"] for row in r.outputs(sink="sums", version=1).to_pylist()
    } == expected
