"""Keys of every type, and of every operator, are forgotten, and what is left goes on as if they had never come."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.forgotten import is_clean
from tests.model import every_operator
from tests.world import World, over, run

KEYS: dict[str, Any] = {
    "boolean": (True, False), "tinyint": (7, 8), "smallint": (-7, 8), "int": (7391, 8), "bigint": (-(2**62), 8),
    "float": (0.5, float("nan")), "double": (float("nan"), 0.0), "decimal(20,3)": (Decimal("7.391"), Decimal(8)),
    "string": ('q"u\\o\nté', ""), "date": (date(2024, 2, 29), date(2025, 1, 1)),
    "timestamp": (datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KEYS))
def test_keys_of_every_type_go_from_state_and_from_a_sink(kind: str, tmp_path: Path) -> None:
    gone, stays = KEYS[kind]
    sink = tm.Json(str(tmp_path / "json"))
    counted = over(lambda rows: rows.groupBy("k", "a").agg(n=tm.count(), name="counts").write(sink, "json"))
    typed = World(tmp_path, counted, format="parquet", schema=f"k {kind}, a int")
    keys = pa.array([gone, stays, None], tm.Pipeline("typed").read(tm.Rows(f"k {kind}")).schema.field("k").type)
    pq.write_table(pa.table({"k": keys, "a": pa.array([1, 2, 3], pa.int32())}), typed.inbox / "a.parquet")
    r = typed.open()
    run(r)
    made = r.forget("counts", [(gone, 1)], "a test", columns={"json": ["k", "a"]})
    assert made.rows == {"partials": 1} and len(made.rewritten) == 2
    assert sorted(r.state("counts")["a"].to_pylist()) == [2, 3]
    assert sorted(r.outputs(sink="json")["a"].to_pylist()) == []
    assert is_clean(r)
    with pytest.raises(tm.InvalidInput, match="expected keys of 2 columns"):
        r.forget("counts", [(gone,)], "a test")


@pytest.mark.parametrize("build", [every_operator.pipeline, every_operator.frames_pipeline])
def test_every_operator_goes_on_without_the_key_as_if_it_had_never_come(build: Any, tmp_path: Path) -> None:
    every_operator.make_files(tmp_path / "in", 5, 12)
    r = tm.open(build(tmp_path / "in", str(tmp_path / "out")), root=str(tmp_path / "root"))
    r.init()
    run(r, max_batches=4, tasks=2)
    for name in r.opened.job.operators:
        maps = r.head.schemas[name]["maps"]
        tables = [r.state(name, variable=one, partial=True) for one in maps]
        full = next((one for one in tables if one.num_rows), None)
        if full is None:
            continue
        columns = [one.split(" ")[0] for one in next(iter(maps.values()))["key"].split(", ")]
        row = full.select(columns).to_pylist()[0]
        value = next(iter(row.values())) if len(row) == 1 else tuple(row.values())
        made = r.forget(name, [value], "a test", left=list(r.opened.job.outputs))
        assert made.rows
        for one, table in zip(maps, tables, strict=True):
            expected = [each for each in table.to_pylist() if any(each[c] != row[c] for c in columns)]
            assert r.state(name, variable=one, partial=True).to_pylist() == expected
        assert is_clean(r), name
    again = tm.open(build(tmp_path / "in", str(tmp_path / "out")), root=str(tmp_path / "root"))
    again.sweep(engine="local")
    assert run(again)
    assert again.verify(deep=True).problems == []
