"""Versions that cannot be published: a correction that withdraws them is the way out, whatever was lost or copied."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.journeys.compacting import six
from tests.journeys.shop import arrive, files, opened, published, record, totals, world
from tests.seams.table import Table
from tests.world import World, run, state
from tidemill.publishing import publish as publishing
from tidemill.store import open_store


def dies_before_publishing(act: Callable[[], Any]) -> None:
    """Commit, and die before anything of it is published."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "publish_work", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            act()


def lose_output(folder: Path, version: int) -> None:
    """Delete the output objects that a version has stored."""
    lost = sorted((folder / "root/shop/output").rglob(f"{version:010d}-*"))
    assert lost
    for path in lost:
        path.unlink()


def lost(folder: Path, **options: Any) -> tm.Repository:
    """Three batches, of which the last one is not published and has lost its output object."""
    arrive(folder, "a", "b")
    run(opened(folder, **options))
    world(folder).put("c", "a,1\n")
    dies_before_publishing(lambda: run(opened(folder, **options)))
    lose_output(folder, 2)
    return opened(folder, **options)


def same_rows(r: tm.Repository, folder: Path) -> list[tuple[str, int, int]]:
    """The rows of the sink, which are those of `outputs`."""
    found = [(row["k"], row["n"], row["version"]) for row in published(folder)]
    said = zip(*(r.outputs().column(one).to_pylist() for one in ("k", "n", "_batch_id")), strict=True)
    assert sorted(found) == sorted(said)
    return found


def test_a_run_says_how_to_go_back_before_a_version_whose_output_is_lost(tmp_path: Path) -> None:
    r = lost(tmp_path)
    with pytest.raises(tm.CorruptState, match="the object is missing, but a commit names it") as caught:
        run(r)
    assert caught.value.hint.endswith(
        "Or undo the version with `tidemill rewind --to 1`; the next run then makes its rows again"
    )
    r.rewind(1, "output lost")
    assert run(opened(tmp_path)) == [4]
    assert same_rows(r, tmp_path) == [("a", 1, 0), ("b", 1, 1), ("a", 2, 4)]
    assert r.verify().problems != [], "the version that was undone stays readable, so its object is still missed"
    assert {one.object.partition("/")[0] for one in r.verify().problems} == {"output"}


def test_a_version_that_was_withdrawn_gets_a_record_without_files(tmp_path: Path) -> None:
    r = lost(tmp_path)
    made = r.rewind(1, "output lost")
    assert made.published_through == 1, "version 2 had no record when the rewind was committed"
    assert record(tmp_path, 2)["files"] == []
    assert r.publish(0) == [0, 1]
    assert same_rows(r, tmp_path) == [("a", 1, 0), ("b", 1, 1)]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_rewind_that_dies_is_completed_by_the_next_run(tmp_path: Path, moment: str) -> None:
    r = lost(tmp_path)
    with dying("create", r"published/main/counts/0000000002\.json$", moment):
        r.rewind(1, "output lost")
    assert opened(tmp_path).maintain(keep_versions=1).floor == (2 if moment == "before" else 3)
    assert run(opened(tmp_path)) == [4]
    assert [(row["k"], row["n"]) for row in published(tmp_path)] == [("a", 1), ("b", 1), ("a", 2)]


def test_what_was_half_published_goes(tmp_path: Path) -> None:
    by_folder = tm.Json(str(tmp_path / "out"), partitionBy="k")
    arrive(tmp_path, "a")
    run(opened(tmp_path, sink=by_folder))
    world(tmp_path).put("z", "x,1\ny,1\n")
    dies_before_publishing(lambda: run(opened(tmp_path, sink=by_folder)))
    [_, second] = sorted((tmp_path / "root/shop/output").rglob("0000000001-*"))
    second.unlink()
    with pytest.raises(tm.CorruptState, match="the object is missing"):
        run(opened(tmp_path, sink=by_folder))
    assert [path.parent.name for path in files(tmp_path)] == ["k=a", "k=x"]
    r = opened(tmp_path, sink=by_folder)
    r.rewind(0, "output lost")
    assert [path.parent.name for path in files(tmp_path)] == ["k=a"]
    assert run(opened(tmp_path, sink=by_folder)) == [3]
    assert [path.parent.name for path in files(tmp_path)] == ["k=a", "k=x", "k=y"]


def test_a_process_that_stalled_publishes_no_version_that_was_withdrawn(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    world(tmp_path).put("c", "a,1\n")
    dies_before_publishing(lambda: run(opened(tmp_path)))
    stalled = opened(tmp_path)
    [work] = publishing.works(stalled.opened, stalled.head)
    saved = {path: path.read_bytes() for path in (tmp_path / "root/shop/output").rglob("0000000002-*")}
    lose_output(tmp_path, 2)
    opened(tmp_path).rewind(1, "output lost")
    for path, data in saved.items():
        path.write_bytes(data)
    publishing.publish_work(stalled.opened, work)
    assert same_rows(opened(tmp_path), tmp_path) == [("a", 1, 0), ("b", 1, 1)]


def test_a_promotion_replaces_a_version_whose_output_is_lost(tmp_path: Path) -> None:
    r = lost(tmp_path)
    r.replay(1, into="fix", engine="local")
    made = opened(tmp_path).promote("fix")
    assert (made.version, made.published_through) == (3, 1)
    rows = same_rows(r, tmp_path)
    assert [row[:2] for row in rows] == [("a", 1), ("b", 1), ("a", 2)]
    arrive(tmp_path, "d")
    assert run(opened(tmp_path)) == [4]
    assert same_rows(r, tmp_path)[:3] == rows


def test_what_is_not_withdrawn_is_published_first(tmp_path: Path) -> None:
    r = lost(tmp_path)
    for act in (
        lambda: r.rewind(2, "nothing"),
        lambda: r.reset(batch_time="2030-01-01", reason="a test"),
        lambda: r.maintain(compact_sinks=True),
    ):
        with pytest.raises((tm.CorruptState, tm.InvalidInput)):
            act()
    assert r.head.version == 2
    assert r.maintain(keep_versions=1).floor == 2, "the version that is not published is kept"


def test_a_joined_file_that_is_lost_is_made_again_from_the_outputs(tmp_path: Path) -> None:
    r = six(tmp_path)
    dies_before_publishing(lambda: r.maintain(compact_sinks=True))
    lose_output(tmp_path, 6)
    assert len(files(tmp_path)) == 6
    r = opened(tmp_path)
    made = r.rewind(3, "the joined file is lost")
    assert made.version == 7
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2, 3]
    run(opened(tmp_path))
    assert len(same_rows(opened(tmp_path), tmp_path)) == 6


def test_a_joined_file_that_is_lost_with_the_outputs_is_not_withdrawn(tmp_path: Path) -> None:
    r = six(tmp_path)
    dies_before_publishing(lambda: r.maintain(compact_sinks=True, keep_versions=3))
    lose_output(tmp_path, 6)
    before = published(tmp_path)
    with pytest.raises(tm.CorruptState, match="publish version 6 of sink `counts`, which is committed: .* is missing"):
        opened(tmp_path).rewind(4, "the joined file is lost")
    assert (opened(tmp_path).head.version, published(tmp_path)) == (6, before)


def test_a_correction_looks_at_what_it_will_publish_before_it_commits(tmp_path: Path) -> None:
    r = six(tmp_path)
    r.rewind(2, "a mistake")
    [path] = sorted((tmp_path / "root/shop/output").rglob("0000000004-*"))
    data = path.read_bytes()
    for damaged in (None, data[:-1], data.replace(b"1", b"2")):
        path.unlink(missing_ok=True)
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(tm.CorruptState, match="rewind: publish again: `output/counts/main/0000000004-"):
            opened(tmp_path).rewind(5, "right after all")
        assert opened(tmp_path).head.version == 6
    path.write_bytes(data)
    opened(tmp_path).rewind(5, "right after all")
    assert len(same_rows(opened(tmp_path), tmp_path)) == 6


def test_a_function_is_called_with_a_version_for_which_it_raised(tmp_path: Path) -> None:
    calls: list[tuple[str, list[int]]] = []

    def fn(rows: Any, batch_id: int, withdrawn: Sequence[int] = ()) -> None:
        if batch_id == 1:
            raise ValueError("never")
        calls.append(("call", sorted(withdrawn)) if withdrawn else (str(batch_id), []))

    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").agg(n=tm.count(), name="counts").foreachBatch(fn, name="calls")

    shop = World(tmp_path, build)
    shop.arrive("a,1\n", "b,1\n")
    with pytest.raises(tm.TidemillError, match="never"):
        shop.run()
    r = shop.open()
    r.rewind(0, "its rows break the function", without=["0001.csv"])
    assert calls == [("0", []), ("call", [1])]
    assert shop.run() == [] and state(r, "counts") == {"a": 1}


def test_a_place_that_is_no_folder_shows_nothing_of_a_version_that_was_withdrawn(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "out.db"))

    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").agg(n=tm.count(), name="counts").write(table)

    shop = World(tmp_path, build)
    shop.arrive("a,1\n")
    shop.run()
    shop.arrive("b,1\n")
    dies_before_publishing(shop.run)
    lose_output(tmp_path, 1)
    with pytest.raises(tm.CorruptState):
        shop.run()
    shop.open().rewind(0, "output lost")
    assert shop.run() == [3]
    assert sorted((row["k"], row["n"]) for row in table.rows()) == [("a", 1), ("b", 1)]


def other_etags(name: str) -> None:
    """Give every object the ETag that a copy in parts, or with another key, has. The content stays."""
    objects = open_store(f"memory://{name}")._objects  # type: ignore[attr-defined]
    objects.content.update(
        {
            one: (data, dataclasses.replace(entry, etag=f"{entry.etag}-2"))
            for one, (data, entry) in objects.content.items()
        }
    )


def in_memory(folder: Path, kind: str = "json") -> World:
    """A pipeline whose repository and sink are in one store with ETags."""
    place = f"memory://{folder.name}/out"
    shop = world(folder, sink=(tm.Json if kind == "json" else tm.Parquet)(place))
    shop.root = f"memory://{folder.name}/root"
    return shop


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in open_store(f"memory://{folder.name}").list("out/")]


def test_a_repository_that_was_copied_with_other_etags_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = in_memory(tmp_path)
    shop.arrive("a,1\n", "b,1\n")
    shop.run()
    shop.arrive("a,1\n")
    dies_before_publishing(shop.run)
    other_etags(tmp_path.name)
    caplog.set_level(logging.WARNING)
    assert shop.open().verify().problems == []
    assert shop.run() == []
    assert [name[len("out/shop.counts-") :][:10] for name in names_in(tmp_path)] == [f"{one:010d}" for one in range(3)]
    r = shop.open()
    r.rewind(0, "a mistake")
    other_etags(tmp_path.name)
    r = shop.open()
    assert r.rewind(2, "right after all").version == 4
    assert r.verify(deep=True).problems == []
    other_etags(tmp_path.name)
    assert shop.open().verify().problems == []
    r = shop.open()
    r.replay(0, into="fix", engine="local")
    other_etags(tmp_path.name)
    shop.open().promote("fix")
    assert (shop.open().verify(deep=True).problems, totals(shop.open())) == ([], {"a": 2, "b": 1})
    assert caplog.messages == []


def test_an_object_with_another_etag_and_other_bytes_is_damaged(tmp_path: Path) -> None:
    shop = in_memory(tmp_path)
    shop.arrive("a,1\n")
    dies_before_publishing(shop.run)
    r = shop.open()
    [file] = r.head.outputs["counts"]
    r.opened.store.put(file.name, b"x" * file.size)
    [problem] = r.verify().problems
    assert problem.what.startswith("found checksum ")
    with pytest.raises(tm.CorruptState, match="found checksum .*, but the commit records"):
        shop.run()
    assert names_in(tmp_path) == []


def test_a_sink_that_was_copied_with_other_etags_is_whole(tmp_path: Path) -> None:
    shop = in_memory(tmp_path, "parquet")
    shop.arrive("a,1\n")
    shop.run()
    other_etags(tmp_path.name)
    assert shop.open().verify().problems == []
    [name] = names_in(tmp_path)
    store = open_store(f"memory://{tmp_path.name}")
    store.put(name, b"x" * len(store.get(name)))
    [problem] = shop.open().verify().problems
    assert problem.what.startswith("found checksum ")
