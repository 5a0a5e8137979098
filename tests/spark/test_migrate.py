"""A migration on Spark gives the same state as on the local engine, and reports a function that fails alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.migrated import Place, sums
from tests.journeys.test_migrate import by_group, to_group
from tidemill.actions import migrating

pytestmark = pytest.mark.servers("start Spark")


def merge(table: pa.Table) -> pa.Table:
    return table.group_by("g").aggregate([("state", "sum")]).rename_columns(["g", "state"])


def fails(table: pa.Table) -> pa.Table:
    raise ValueError(f"no {table.num_rows}")


def test_keys_move_on_spark_as_on_the_local_engine(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "RANGE_ROWS", 30)
    found = []
    for engine in ("local", "spark"):
        (tmp_path / engine).mkdir()
        place = Place(tmp_path / engine)
        place.begun(sums())
        r = place.opened(by_group)
        session = spark_session if engine == "spark" else None
        with pytest.raises(tm.InvalidInput, match=r"the function `fails` raised ValueError: no \d+"):
            r.migrate({"sums": fails}, reason="a test", engine=engine, spark=session)
        commit = r.migrate({"sums": to_group}, reason="a test", merge=merge, engine=engine, spark=session)
        found.append((r.state("sums"), [(s.checksum, s.lo, s.hi) for s in commit.state["sums"]["state"]]))
    assert found[0] == found[1]
