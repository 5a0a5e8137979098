"""`maintain` merges state in Spark's tasks, with the same rows as in the driver."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.engines import engine_for
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge

pytestmark = pytest.mark.servers("start Spark")

KEYS = 90_000


def counts(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").agg(n=tm.sum("n"), name="counts")


def counted(folder: Path) -> tm.Repository:
    conf = {"tidemill.disk_cache_bytes": 0}
    world = World(folder, counts, conf=conf, format="parquet", schema="k long, n long")
    r = world.open()
    for number in range(2):
        keys = pa.array(range(number * KEYS // 2, number * KEYS // 2 + KEYS), pa.int64())
        pq.write_table(pa.table({"k": keys, "n": pc.add(keys, 1)}), world.inbox / f"{number}.parquet")
        run(r, tasks=1, batch_time=datetime(2026, 1, 1, number, tzinfo=UTC))
    return r


def test_state_is_merged_on_spark_as_in_the_driver(spark_session: Any, tmp_path: Path) -> None:
    found = []
    for engine in ("local", "spark"):
        r = counted(tmp_path / engine)
        before = r.state("counts").sort_by("k")
        made = r.maintain(engine=engine, spark=spark_session if engine == "spark" else None)
        [merged] = made.merged
        assert (merged.inputs, merged.outputs, merged.rows_before, made.to_merge) == (2, 1, 2 * KEYS, 0)
        assert merged.rows_after == before.num_rows == KEYS * 3 // 2
        assert r.state("counts").sort_by("k") == before
        assert r.verify(deep=True).problems == []
        [base] = r.opened.refresh().bases
        found.append([(one.checksum, one.lo, one.hi, one.sequence) for one in base.outputs])
    assert found[0] == found[1]


def test_several_ranges_are_merged_in_one_job(spark_session: Any, tmp_path: Path) -> None:
    r = counted(tmp_path)
    before = r.state("counts").sort_by("k")
    small = MergeRule(least_rows=0, range_rows=50_000)
    report = merge(r.opened, rule=small, engine=lambda: engine_for(spark_session))
    assert len(report.merged) == 4 and not report.left
    assert r.state("counts").sort_by("k") == before
    assert r.verify(deep=True).problems == []
