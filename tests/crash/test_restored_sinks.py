"""Backups that are older than the files in the sinks: nothing is written until the user removes the files.

The lost versions may be met by a correction, by a batch for other partition folders, or by a batch after one without
rows. None of these doubles a row for readers of the sink.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, files, opened, published
from tests.world import run
from tidemill import clock
from tidemill.publishing import lost_versions

pytestmark = pytest.mark.slow("interrupt a run at every step")

BY_FOLDER = {"partitionBy": ["k"]}


def sink(folder: Path, partitioned: bool) -> tm.Json:
    return tm.Json(str(folder / "out"), **(BY_FOLDER if partitioned else {}))


def restored(folder: Path, partitioned: bool, *lost: str) -> tm.Repository:
    """A repository at version 0 whose sink also has the files of versions that read `lost`."""
    arrive(folder, "a")
    run(opened(folder, sink=sink(folder, partitioned)))
    shutil.copytree(folder / "root", folder / "backup")
    for name in lost:
        arrive(folder, name)
        run(opened(folder, sink=sink(folder, partitioned)))
    shutil.rmtree(folder / "root")
    (folder / "backup").rename(folder / "root")
    return opened(folder, sink=sink(folder, partitioned))


def records(folder: Path) -> list[Path]:
    return sorted((folder / "root").rglob("branches/**/*.json"))


def skip(folder: Path, r: tm.Repository) -> None:
    arrive(folder, "zzz")
    r.skip("zzz.csv", reason="a test")


def reset(folder: Path, r: tm.Repository) -> None:
    del folder
    r.reset(batch_time="2020-01-01", reason="a test")


def earlier_file(folder: Path, r: tm.Repository) -> None:
    """A file of another partition that sorts before the one that the lost version read."""
    arrive(folder, "aa")
    run(r)


ACTIONS: dict[str, Callable[[Path, tm.Repository], None]] = {
    "skip": skip,
    "reset": reset,
    "run": lambda _, r: run(r) and None,
    "run with an earlier file": earlier_file,
}


@pytest.mark.parametrize("action", list(ACTIONS))
@pytest.mark.parametrize("partitioned", [False, True], ids=["one folder", "partitioned"])
def test_a_restored_backup_writes_nothing_while_the_sink_has_files_of_versions_that_it_lost(
    partitioned: bool, action: str, tmp_path: Path
) -> None:
    r = restored(tmp_path, partitioned, "b")
    before, rows = records(tmp_path), files(tmp_path)
    with pytest.raises(tm.CorruptState, match="has 1 file of versions after 0, for example `.*shop.counts-0000000001"):
        ACTIONS[action](tmp_path, r)
    assert (records(tmp_path), files(tmp_path)) == (before, rows)
    lost = [path for path in files(tmp_path) if "-0000000001-" in path.name]
    assert [problem.object for problem in r.verify().problems] == [f"file://{path}" for path in lost]
    for path in lost:
        path.unlink()
    ACTIONS[action](tmp_path, r)
    run(r)
    assert sorted(row["k"] for row in published(tmp_path)) == sorted({row["k"] for row in published(tmp_path)})
    assert {"a", "b"} <= {row["k"] for row in published(tmp_path)}
    assert r.verify(deep=True).problems == []


def test_a_lost_version_without_rows_hides_no_later_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    shutil.copytree(tmp_path / "root", tmp_path / "backup")
    (tmp_path / "in" / "b.csv").write_text("")
    run(opened(tmp_path))
    arrive(tmp_path, "c")
    assert run(opened(tmp_path)) == [2]
    before = published(tmp_path)
    shutil.rmtree(tmp_path / "root")
    (tmp_path / "backup").rename(tmp_path / "root")
    (tmp_path / "in" / "b.csv").unlink()
    with pytest.raises(tm.CorruptState, match="has 1 file of versions after 0, for example `shop.counts-0000000002"):
        run(opened(tmp_path))
    assert published(tmp_path) == before


def test_an_idle_run_looks_at_no_sink_and_a_process_looks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    asked: list[int] = []
    seen = tm.Json.seen
    monkeypatch.setattr(tm.Json, "seen", lambda self, at, since=-1: asked.append(since) or seen(self, at, since))
    r = opened(tmp_path)
    assert (run(r), asked) == ([], [])
    arrive(tmp_path, "b")
    run(r)
    run(r)
    assert [after for after in asked if after >= 0] == [0]
    arrive(tmp_path, "c")
    run(r)
    assert [after for after in asked if after >= 0] == [0]


def test_versions_that_another_run_commits_meanwhile_are_not_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r, max_batches=1)
    slow = opened(tmp_path)
    refuse = lost_versions.check_history

    def meanwhile(*given: Any) -> None:
        monkeypatch.undo()
        assert run(opened(tmp_path)) == [1]
        refuse(*given)

    monkeypatch.setattr("tidemill.run.drain.check_history", meanwhile)
    assert run(slow) == []
    assert [row["k"] for row in published(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(("age_ms", "looks"), [(0, False), (lost_versions.RECENT_MS + 1, True)])
def test_partition_folders_on_a_store_of_objects_are_listed_only_if_the_head_is_not_recent(
    age_ms: int, looks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tm.Json(f"memory://{tmp_path.name}-{looks}/out", **BY_FOLDER)
    arrive(tmp_path, "a")
    run(opened(tmp_path, sink=place))
    shutil.copytree(tmp_path / "root", tmp_path / "backup")
    arrive(tmp_path, "b")
    run(opened(tmp_path, sink=place))
    shutil.rmtree(tmp_path / "root")
    (tmp_path / "backup").rename(tmp_path / "root")
    r = opened(tmp_path, sink=place)
    monkeypatch.setattr(lost_versions, "now_ms", lambda: clock.now_ms() + age_ms)
    arrive(tmp_path, "aa")
    if looks:
        with pytest.raises(tm.CorruptState, match="has 1 file of versions after 0"):
            r.run(engine="local", max_batches=1)
    else:
        r.run(engine="local", max_batches=1)
        assert any("commit of version 1 does not name it" in problem.what for problem in r.verify().problems)


def test_files_that_were_withdrawn_and_are_there_again_are_reported(tmp_path: Path) -> None:
    from tests.journeys.shop import corrected
    from tidemill.protocol.records import VersionOf

    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    gone = files(tmp_path)[0]
    data = gone.read_bytes()
    corrected(r, withdraws={"counts": [VersionOf("main", 0)]})
    run(opened(tmp_path))
    assert r.verify().problems == []
    gone.write_bytes(data)
    assert [problem.what for problem in r.verify().problems] == ["version 2 withdrew it, but the file is there"]
    assert json.loads(data.splitlines()[0])["k"] == "a"
