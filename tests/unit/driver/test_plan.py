"""Planning: which files a source with `start="latest"` takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.driver.plan import waiting


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
    assert [file.path for file in waiting(repository.context, None).all] == ["moved.csv"]
    repository.run(engine="local")
    assert repository.state("n").column("v").to_pylist() == [2]
    assert repository.head.rows["_ledger"] == {"files": 2}
    os.utime(tmp_path / "in" / "there.csv", (9, 9))
    with pytest.raises(tm.InvalidInput, match='was modified after it was left out by start="latest"'):
        waiting(repository.context, repository.head)


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
