"""Planning: which files a source with `start="latest"` takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.run.plan import waiting


def test_latest_leaves_out_the_files_that_are_there_at_init_whatever_their_times(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "there.csv").write_text("1\n")
    pipeline = tm.Pipeline("p")
    rows = pipeline.read(tm.Files(tmp_path / "in", format="csv", schema="v int", start="latest"))
    rows.groupBy("v").agg(n=tm.count(), name="n")
    repository = tm.open(pipeline, str(tmp_path / "root"))
    repository.init()
    (tmp_path / "in" / "moved.csv").write_text("2\n")
    os.utime(tmp_path / "in" / "moved.csv", (1, 1))  # written long before `init`, moved in after it
    assert [file.path for file in waiting(repository.opened, None).all] == ["moved.csv"]
    repository.run(engine="local")
    assert repository.state("n").column("v").to_pylist() == [2]
    assert repository.head.rows["_ledger"] == {"files": 2}


@pytest.mark.parametrize(("overwritten", "grown"), [("error", None), ("new", ["there.csv"]), ("ignore", [])])
def test_a_file_that_latest_left_out_stays_left_out_as_long_as_its_size_does_not_change(
    overwritten: str, grown: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    there = tmp_path / "in" / "there.csv"
    there.write_text("1\n")
    pipeline = tm.Pipeline("p")
    rows = pipeline.read(
        tm.Files(tmp_path / "in", format="csv", schema="v int", start="latest", overwritten=overwritten)
    )
    rows.groupBy("v").agg(n=tm.count(), name="n")
    repository = tm.open(pipeline, str(tmp_path / "root"))
    repository.init()
    os.utime(there, (9, 9))
    assert repository.run(engine="local") == []
    with pytest.raises(tm.InvalidInput, match='skip `there.csv`: start="latest" leaves it out already'):
        repository.skip("there.csv", reason="a test")
    (tmp_path / "in" / "new.csv").write_text("2\n")
    repository.run(engine="local")
    assert repository.state("n").column("v").to_pylist() == [2]
    there.write_text("1\n3\n")
    if grown is None:
        with pytest.raises(tm.InvalidInput, match='modified after it was left out by start="latest": found 4 bytes'):
            repository.run(engine="local")
    else:
        assert [file.path for file in waiting(repository.opened, repository.head).all] == grown


def test_latest_is_refused_for_a_source_that_init_did_not_list(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("1\n")
    sources = {"one": "earliest"}
    opened(tmp_path, sources).init()
    opened(tmp_path, sources).run(engine="local")
    sources["two"] = "latest"
    opened(tmp_path, sources).init()
    with pytest.raises(tm.InvalidInput, match='source `two` has start="latest", but was added after `init`'):
        opened(tmp_path, sources).run(engine="local")
    sources["two"] = "2000-01-01"
    opened(tmp_path, sources).run(engine="local")
    assert opened(tmp_path, sources).state("n").to_pylist()[0]["n"] == 2


def opened(folder: Path, starts: dict[str, str]) -> tm.Repository:
    """A pipeline that counts values of several sources, each a folder of its name."""
    pipeline = tm.Pipeline("p")
    streams = [
        pipeline.read(tm.Files(folder / name, format="csv", schema="v int", start=start), name=name)
        for name, start in starts.items()
    ]
    rows = streams[0] if len(streams) == 1 else streams[0].unionByName(streams[1])
    rows.groupBy("v").agg(n=tm.count(), name="n")
    return tm.open(pipeline, str(folder / "root"))
