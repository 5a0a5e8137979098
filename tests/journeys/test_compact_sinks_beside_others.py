"""Joining published files beside files of others, batches, rewinds and deaths."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.compacting import sink_of, six
from tests.journeys.shop import arrive, files, opened, published, world
from tests.world import World, run
from tidemill.sinks import folder as sink_folder
from tidemill.upkeep.compacting import Compaction, _Joining


def test_files_that_were_moved_or_altered_stay_as_they_are(tmp_path: Path) -> None:
    r = six(tmp_path)
    moved, altered = files(tmp_path)[1], files(tmp_path)[3]
    moved.rename(tmp_path / moved.name)
    altered.write_bytes(altered.read_bytes().replace(b'"d"', b'"D"'))
    assert [(one.first, one.last) for one in r.maintain(compact_sinks=True).compacted] == [(4, 5)]
    assert [row["k"] for row in published(tmp_path)] == list("acDef")
    (tmp_path / moved.name).rename(moved)  # it was published, and is no stray
    assert r.maintain().strays == {}
    assert [row["k"] for row in published(tmp_path)] == list("abcDef")
    assert len(r.verify(deep=True).problems) == 1  # the altered file


def test_files_with_other_columns_stay_apart(tmp_path: Path) -> None:
    six(tmp_path, "parquet")
    r = opened(tmp_path, sink=sink_of(tmp_path, "parquet"), n=tm.count(), total=tm.sum("v"))
    for name in "gh":
        arrive(tmp_path, name)
        run(r, accept_output_change=True)
    assert [(one.first, one.last) for one in r.maintain(compact_sinks=True).compacted] == [(6, 7)]
    assert len(files(tmp_path)) == 7
    assert r.maintain(compact_sinks=True).compacted == []
    assert r.verify(deep=True).problems == []


def test_functions_and_files_of_others_are_not_touched(tmp_path: Path) -> None:
    calls: list[int] = []
    arrive(tmp_path, *"abc")

    def build(p: tm.Pipeline, world: World) -> None:
        counts = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        counts.foreachBatch(lambda table, batch_id, withdrawn=(): calls.append(batch_id), name="calls")
        counts.write(tm.Json(world.out))

    r = World(tmp_path, build).open()
    run(r)
    (tmp_path / "out" / "notes.json").write_text('{"k": "mine"}\n')
    [made] = r.maintain(compact_sinks=True).compacted
    assert (made.sink, made.files_before, calls) == ("counts", 3, [0, 1, 2])
    assert (tmp_path / "out" / "notes.json").exists()


def test_a_copy_leaves_the_files_of_the_original(tmp_path: Path) -> None:
    six(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    before = files(tmp_path)
    copy = world(tmp_path, "copy").open(init=False)
    copy.adopt("a test", copy=True)
    assert copy.maintain(compact_sinks=True).compacted == []
    for name in "gh":
        arrive(tmp_path, name)
        run(copy, adopt_sink=True)
    assert [(one.first, one.last) for one in copy.maintain(compact_sinks=True).compacted] == [(6, 7)]
    assert set(before) <= set(files(tmp_path)) and len(files(tmp_path)) == 7
    copy.rewind(6, "a test")
    assert [row["version"] for row in published(tmp_path)] == list(range(7))


def test_a_planned_batch_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = six(tmp_path)
    arrive(tmp_path, "later")
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.run.drain.execute", lambda *_: (_ for _ in ()).throw(tm.StoreUnavailable("died")))
        with pytest.raises(tm.StoreUnavailable):
            run(r)
    report = r.maintain(compact_sinks=True)
    assert (report.compacted, report.to_compact, report.compact_waits) == ([], 1, True)
    assert "1 group of published files left to join, because a batch is planned" in report.summary()
    assert run(r) == [6]
    assert r.maintain(compact_sinks=True).compacted[0].files_before == 7


def test_files_are_joined_again_if_batches_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = six(tmp_path)
    stored = _Joining._files

    def meanwhile(self: Any, *arguments: Any) -> Any:
        yield from stored(self, *arguments)
        if r.head.version == 5:
            arrive(tmp_path, "later")
            run(opened(tmp_path))

    monkeypatch.setattr(_Joining, "_files", meanwhile)
    [made] = r.maintain(compact_sinks=True).compacted
    assert (made.last, made.version) == (6, 7)
    assert not list((tmp_path / "root").rglob("*0000000006-*-compact*"))  # the first try left nothing
    assert [row["version"] for row in published(tmp_path)] == list(range(7))


def test_nothing_is_joined_that_a_rewind_undoes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = six(tmp_path)
    stored = _Joining._files

    def meanwhile(self: Any, *arguments: Any) -> Any:
        yield from stored(self, *arguments)
        if r.head.version == 5:
            opened(tmp_path).rewind(2, "meanwhile")

    monkeypatch.setattr(_Joining, "_files", meanwhile)
    assert [(one.first, one.last) for one in r.maintain(compact_sinks=True).compacted] == [(0, 2)]
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]


def test_a_call_that_dies_after_its_commit_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = six(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sink_folder.Folder, "apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            r.maintain(compact_sinks=True)
    assert len(files(tmp_path)) == 6
    assert opened(tmp_path).maintain(compact_sinks=True).compacted == []
    assert len(files(tmp_path)) == 1
    assert [row["version"] for row in published(tmp_path)] == list(range(6))


def test_a_group_is_given_up_once_other_commits_took_its_number_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = six(tmp_path)
    monkeypatch.setattr(_Joining, "commit", lambda self, reason: (_ for _ in ()).throw(tm.Fenced("another run")))
    report = Compaction(r.opened).run()
    assert (report.compacted, report.left, report.has_plan, r.head.version) == ([], 1, False, 5)
