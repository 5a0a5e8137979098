"""Planning: which files a source with `start="latest"` takes."""

from __future__ import annotations

import os
from pathlib import Path

import tidemill as tm
from tidemill.driver.plan import arrived_since_init, waiting
from tidemill.sources.contract import SourceFile


def test_latest_reads_files_of_the_second_of_init_and_later() -> None:
    times = (41_999, 42_000, 42_700, 42_701, 43_000)
    files = [SourceFile("source", str(time), "etag", 1, time) for time in times]
    assert [file.modified_ms for file in arrived_since_init(files, 42_700)] == [42_000, 42_700, 42_701, 43_000]


def test_a_file_that_arrives_in_the_second_of_init_waits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pipeline = tm.Pipeline("p")
    rows = pipeline.read(tm.Files(tmp_path / "in", format="csv", schema="v int", start="latest"))
    rows.groupBy("v").agg(n=tm.count(), name="n")
    repository = tm.open(pipeline, str(tmp_path / "root"))
    repository.init()
    second = repository.context.initialised().created_ms // 1000
    for name, time in (("before", second - 1), ("same", second), ("later", second + 1)):
        (tmp_path / "in" / name).write_text("1\n")
        os.utime(tmp_path / "in" / name, (time, time))
    assert [file.path for file in waiting(repository.context, None).all] == ["later", "same"]
