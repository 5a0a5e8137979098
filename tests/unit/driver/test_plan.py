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
