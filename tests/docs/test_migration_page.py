"""What the page "Coming from Structured Streaming" maps to something else, and what it says is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, over, state
from tidemill.errors import InvalidInput
from tidemill.testing import Tester


@pytest.mark.parametrize("option", ["latestFirst", "cleanSource", "maxFileAge"])
def test_options_of_file_sources_that_are_not_there_are_refused(option: str) -> None:
    with pytest.raises(InvalidInput, match=f"unknown option of tm.Files `{option}`"):
        tm.Files("/lake/in", schema="k string", **{option: "7d"})


def test_files_may_be_deleted_once_their_batch_is_committed(tmp_path: Path) -> None:
    world = World(tmp_path, name="moved")
    (first,) = world.arrive("a,1\n")
    assert world.run() == [0]
    first.unlink()
    world.put("2", "a,1\n")
    (progress,) = world.open().run(engine="local")
    assert (progress.name, progress.numInputRows) == ("moved", 1)
    assert state(world.open(), "counts") == {"a": 2}


def test_a_run_without_caps_is_one_batch_and_with_them_as_many_as_it_takes(tmp_path: Path) -> None:
    world = World(tmp_path, root="capped")
    world.arrive(*["a,1\n"] * 3)
    once = World(tmp_path, over(lambda s: s.groupBy("k").agg(n=tm.count())), root="once", maxFilesPerTrigger=None)
    assert [one.numInputRows for one in once.open().run(engine="local")] == [3]
    capped = world.open()
    assert [one.numInputRows for one in capped.run(engine="local", max_batches=1)] == [1]
    assert [one.numInputRows for one in capped.run(engine="local")] == [1, 1]
    assert [commit.version for commit in capped.commits()] == [0, 1, 2]


def test_frames_in_map_batches() -> None:
    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        frame = batch.to_pandas()
        frame["n"] = frame["k"].str.len()
        return pa.RecordBatch.from_pandas(frame, preserve_index=False)

    p = tm.Pipeline("frames")
    p.read(tm.Rows("k string")).map_batches(lengths, "k string, n bigint").groupBy("n").agg(count=tm.count())
    assert sorted(Tester(p).batch(["a", "bb", "cc"]).outputs) == [(1, 1), (2, 2)]


def test_a_union_by_position_is_a_rename_before_one_by_name() -> None:
    p = tm.Pipeline("union")
    one, other = p.read(tm.Rows("k string, n int"), name="one"), p.read(tm.Rows("a string, b int"), name="other")
    with pytest.raises(InvalidInput, match="column `k` is only in the first"):
        one.unionByName(other)
    one.unionByName(other.sql("SELECT a AS k, b AS n FROM rows")).groupBy("k").agg(n=tm.sum("n"))
    assert Tester(p).batch({"one": [("x", 1)], "other": [("x", 2)]}).outputs == [("x", 3)]
