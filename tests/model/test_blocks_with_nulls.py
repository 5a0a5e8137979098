"""Aggregates by a number that some blocks have nulls of, beside DuckDB: a table tells keys as blocks come."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World

HASH_OF_NULL = 6_325_366_514_327_521_934
"""The one bigint whose hash is that of null."""
BLOCK = 5_000


def numbers(random: np.random.Generator, keys: int, kind: int) -> list[int | None]:
    """A block: numbers alone, with nulls among them, or with the number that has the hash of null."""
    block: list[int | None] = random.integers(0, keys, BLOCK).tolist()
    odd = random.random(BLOCK) < 0.1
    instead = {0: None, 1: HASH_OF_NULL}.get(kind)
    return block if kind == 2 else [instead if is_odd else number for number, is_odd in zip(block, odd, strict=True)]


def sums(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").agg(n=tm.count(), s=tm.sum("v"), least=tm.min("v"), name="op")


@pytest.mark.parametrize("order", [(2, 0, 2), (0, 2, 0), (0, 1), (1, 0), (1, 2, 0, 1)])
@pytest.mark.parametrize("keys", [40, 4_000])
def test_numbers_and_nulls_are_distinct_keys_in_any_block(tmp_path: Path, order, keys) -> None:
    random = np.random.default_rng(7)
    cells = [cell for kind in order for cell in numbers(random, keys, kind)]
    rows = pa.table({"k": pa.array(cells, pa.int64()), "v": pa.array(random.integers(0, 99, len(cells)))})
    conf = {"tidemill.block_rows": str(BLOCK)}
    world = World(tmp_path, sums, conf=conf, format="parquet", schema="k bigint, v bigint")
    pq.write_table(rows, world.inbox / "rows.parquet")
    repository = world.open()
    repository.run(engine="local")
    found = repository.state("op").select(["k", "n", "s", "least"]).to_pylist()
    expected = duckdb.sql("SELECT k, count(*) AS n, sum(v)::BIGINT AS s, min(v) AS least FROM rows GROUP BY ALL")
    by_key = sorted(expected.to_arrow_table().to_pylist(), key=str)
    assert sorted(found, key=str) == by_key
