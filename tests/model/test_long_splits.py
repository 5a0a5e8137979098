"""A split with more rows than an operator buffers: some are sent before its end, and no row is sent twice."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World

ROWS = 1_250_000
"""More than 2^20, the number of buffered rows at which an aggregate sends them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "in").mkdir()
    chance = np.random.default_rng(3)
    table = pa.table(
        {"a": chance.integers(0, 500, ROWS), "b": chance.integers(0, 30, ROWS), "v": chance.integers(-99, 99, ROWS)}
    )
    pq.write_table(table, folder / "in/0.parquet")
    return folder


def totals(p, world):
    rows = world.read(p)
    rows.groupBy("a").agg(n=tm.count(), total=tm.sum("v"), opening=tm.first("b"), name="by-a")
    rows.unionByName(rows).groupBy("b").agg(n=tm.count(), lowest=tm.min("v"), closing=tm.last("a"), name="by-b")


@pytest.mark.parametrize("tasks", [1, 3])
def test_totals_count_every_row_once(folder, tasks):
    world = World(folder, totals, root=f"root-{tasks}", format="parquet", schema="a bigint, b bigint, v bigint")
    repository = world.open()
    (progress,) = repository.run(engine="local", tasks=tasks)
    assert progress.numInputRows == ROWS
    by_a, by_b = repository.outputs(sink="by-a"), repository.outputs(sink="by-b")  # noqa: F841
    rows_of = duckdb.read_parquet(str(folder / "in/0.parquet"))  # noqa: F841
    found = duckdb.sql("SELECT a, n, total, opening FROM by_a ORDER BY a").fetchall()
    numbered = "SELECT *, row_number() OVER () AS place FROM rows_of"
    assert found == duckdb.sql(
        f"SELECT a, count(*), sum(v)::BIGINT, arg_min(b, place) FROM ({numbered}) GROUP BY a ORDER BY a"
    ).fetchall()  # fmt: skip
    found = duckdb.sql("SELECT b, n, lowest, closing FROM by_b ORDER BY b").fetchall()
    assert found == duckdb.sql(
        f"SELECT b, 2 * count(*), min(v), arg_max(a, place) FROM ({numbered}) GROUP BY b ORDER BY b"
    ).fetchall()  # fmt: skip
