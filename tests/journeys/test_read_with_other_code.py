"""Reading a repository with other code than the code that wrote it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import Build, World, run
from tidemill.reading import read
from tidemill.testing import Tester


def copied(sink: str) -> Build:
    return lambda p, world: world.read(p).write(tm.Json(world.out), name=sink)


@pytest.fixture
def renamed(tmp_path: Path) -> tm.Repository:
    """Return a repository with a batch under the sink `before` and one under the sink `after`."""
    world = World(tmp_path, schema="shop string, n int")
    for number, sink in enumerate(("before", "after")):
        world.arrive(f"Bonn,{number}\n")
        assert world.but(copied(sink)).run() == [number]
    return world.but(copied("after")).open()


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


def test_a_condition_over_the_state_uses_utc_in_any_time_zone():
    p = tm.Pipeline("zones", timeZone="America/New_York")
    p.read(tm.Rows("k string, ts timestamp")).groupBy("k").agg(last=tm.max("ts"))
    t = Tester(p)
    t.batch([("before", datetime(2020, 1, 1, 3, tzinfo=UTC)), ("after", datetime(2020, 1, 1, 4, tzinfo=UTC))])
    assert t.repository.state(where="last < '2020-01-01 03:30:00'").column("k").to_pylist() == ["before"]


def test_state_has_the_type_of_its_batch_if_the_code_changed_after_init_and_replan(tmp_path: Path) -> None:
    def kept(schema: str) -> Build:
        keep = tm.StateSpec.function(lambda row, state: state.update(row.n) if row else None)
        return lambda p, world: world.read(p).groupBy("shop").mapWithState(keep, schema, "int", name="last")

    texts = World(tmp_path, kept("string"), schema="shop string, n int")
    numbers = texts.but(kept("bigint"))
    texts.put("0", "Bonn,seven\n")
    with pytest.raises(tm.InvalidInput, match="found `seven`"):
        texts.run()
    texts.open().replan("not a number")
    texts.put("0", "Bonn,7\n")
    run(numbers.open(init=False))
    for operator in ("last", None):
        table = numbers.open(init=False).state(operator, columns=["shop", "state"])
        assert table.to_pylist() == [{"shop": "Bonn", "state": 7}]
