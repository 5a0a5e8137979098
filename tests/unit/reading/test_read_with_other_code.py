"""Reading a repository with other code than the code that wrote it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.reading import read
from tidemill.testing import Tester


def opened(tmp_path: Path, sink: str) -> tm.Repository:
    p = tm.Pipeline("renamed")
    rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="shop string, n int"))
    rows.write(tm.Json(str(tmp_path / "out")), name=sink)
    return tm.open(p, root=str(tmp_path / "root"))


@pytest.fixture
def renamed(tmp_path: Path) -> tm.Repository:
    """Return a repository with a batch under the sink `before` and one under the sink `after`."""
    (tmp_path / "in").mkdir()
    for number, sink in enumerate(("before", "after")):
        (tmp_path / "in" / f"{number}.csv").write_text(f"Bonn,{number}\n")
        repository = opened(tmp_path, sink)
        repository.init()
        repository.run(engine="local")
    return repository


def test_outputs_of_a_sink_that_the_code_no_longer_has_are_read_by_its_name(renamed: tm.Repository) -> None:
    before = [{"shop": "Bonn", "n": 0, "_batch_id": 0}]
    assert renamed.outputs(sink="before").drop_columns(["_seq"]).to_pylist() == before
    assert renamed.outputs(version=0, sink="before").drop_columns(["_seq"]).to_pylist() == before
    assert renamed.outputs().drop_columns(["_seq"]).to_pylist() == [{"shop": "Bonn", "n": 1, "_batch_id": 1}]


def test_an_unknown_sink_is_an_error_that_names_the_known_ones(renamed: tm.Repository) -> None:
    with pytest.raises(tm.InvalidInput, match="unknown sink `befor`; did you mean `before`"):
        renamed.outputs(sink="befor")


def test_a_file_of_unknown_form_is_corrupt_state(renamed: tm.Repository) -> None:
    commit = renamed.commit(0)
    (file,) = commit.outputs["before"]
    newer = dataclasses.replace(commit, outputs={"before": [dataclasses.replace(file, extension=".orc")]})
    with pytest.raises(tm.CorruptState, match=r"unknown file extension `\.orc`, expected one of \.parquet, \.json"):
        read._rows(renamed.opened, newer, "before")


def test_the_version_of_tidemill_is_that_of_the_wheel() -> None:
    assert tm.__version__ == importlib.metadata.version("tidemill")


def test_a_condition_over_the_state_uses_utc_in_any_time_zone():
    p = tm.Pipeline("zones", timeZone="America/New_York")
    p.read(tm.Rows("k string, ts timestamp")).groupBy("k").agg(last=tm.max("ts"))
    t = Tester(p)
    t.batch([("before", datetime(2020, 1, 1, 3, tzinfo=UTC)), ("after", datetime(2020, 1, 1, 4, tzinfo=UTC))])
    assert t.repository.state(where="last < '2020-01-01 03:30:00'").column("k").to_pylist() == ["before"]


def test_state_has_the_type_of_its_batch_if_the_code_changed_after_init_and_replan(tmp_path: Path) -> None:
    def opened(schema: str) -> tm.Repository:
        p = tm.Pipeline("types")
        rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="shop string, n int"))
        keep = tm.StateSpec.function(lambda row, state: state.update(row.n) if row else None)
        rows.groupBy("shop").mapWithState(keep, schema, "int", name="last")
        return tm.open(p, root=str(tmp_path / "root"))

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("Bonn,seven\n")
    opened("string").init()
    with pytest.raises(tm.InvalidInput, match="found `seven`"):
        opened("string").run(engine="local")
    opened("string").replan("not a number")
    (tmp_path / "in" / "0.csv").write_text("Bonn,7\n")
    opened("bigint").run(engine="local")
    for operator in ("last", None):
        table = opened("bigint").state(operator, columns=["shop", "state"])
        assert table.to_pylist() == [{"shop": "Bonn", "state": 7}]
