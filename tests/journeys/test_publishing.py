"""Publishing as users see it: once, whatever a consumer moves, and whatever happened to the repository before."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, corrected, files, opened, published, record, world
from tests.world import World, over, run
from tidemill.protocol.codec import encode
from tidemill.protocol.records import AddedOutput, VersionOf
from tidemill.run import drain
from tidemill.sinks import folder as sink_folder

# published once


def test_files_that_a_consumer_moved_are_not_published_again(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    assert run(r) == [0, 1]
    for path in files(tmp_path):
        path.unlink()
    for _ in range(2):
        assert run(opened(tmp_path)) == []
    arrive(tmp_path, "c")
    assert run(opened(tmp_path)) == [2]
    assert [row["version"] for row in published(tmp_path)] == [2]


def test_the_record_names_what_was_published(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    [path] = files(tmp_path)
    [file] = record(tmp_path, 0)["files"]
    assert file["name"] == path.name
    assert file["checksum"] == r.head.outputs["counts"][0].checksum
    assert (file["size"], file["rows"]) == (path.stat().st_size, 1)
    assert record(tmp_path, 0)["commit_checksum"] == r.head.checksum


def test_a_version_without_rows_has_no_file_and_no_record(tmp_path: Path) -> None:
    world(tmp_path).put("empty")
    r = opened(tmp_path)
    assert run(r) == [0]
    assert r.head.outputs == {}
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "root" / "shop" / "published").exists()


def test_publish_makes_missing_files_appear_again(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    before = published(tmp_path)
    for path in files(tmp_path)[:2]:
        path.unlink()
    assert r.publish() == []
    assert r.publish(since=1) == [1, 2]
    assert [row["version"] for row in published(tmp_path)] == [1, 2]
    assert r.publish(since=0) == [0, 1, 2]
    r.tag("month-end", 1)
    assert r.publish(since="month-end") == [1, 2]
    assert published(tmp_path) == before


def test_publish_fills_the_new_folder_of_a_sink(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    before = published(tmp_path)
    shutil.rmtree(tmp_path / "out")
    moved = opened(tmp_path, sink=tm.Json(str(tmp_path / "out" / "new")))
    assert moved.publish(since=0) == [0, 1]
    assert published(tmp_path) == before
    arrive(tmp_path, "c")
    assert run(moved) == [2]


def test_publish_leaves_out_a_sink_that_left_the_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def named(sink: str) -> World:
        json = tm.Json(str(tmp_path / "out"))
        return World(tmp_path, over(lambda rows: rows.groupBy("k").agg(n=tm.count(), name="counts").write(json, sink)))

    arrive(tmp_path, "a")
    named("before").run()
    arrive(tmp_path, "b")
    run(named("after").open(init=False))
    for path in files(tmp_path):
        path.unlink()
    assert named("after").open(init=False).publish(since=0) == [1]
    assert [row["version"] for row in published(tmp_path)] == [1]
    assert "sink `before` is left out, because this code does not have it" in caplog.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"since": 5}, r"publish from version 5: versions go from 0 to 0"),
        ({"since": -1}, r"publish from version -1: versions go"),
        ({"since": 0, "sink": "count"}, "unknown sink `count`.*did you mean `counts`"),
        ({"sink": "counts"}, "found a sink without a version"),
    ],
)
def test_publish_refuses_wrong_arguments(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    with pytest.raises(tm.InvalidInput, match=f"(?s){message}"):
        r.publish(**given)


def test_publish_calls_a_function_again_only_if_it_is_named(tmp_path: Path) -> None:
    calls: list[int] = []
    arrive(tmp_path, "a", "b")

    def build(p: tm.Pipeline, world: World) -> None:
        called = world.read(p).foreachBatch(lambda table, batch_id: calls.append(batch_id), name="call")
        called.write(tm.Json(world.out))

    r = World(tmp_path, build).open()
    run(r)
    r.publish(since=0)
    assert calls == [0, 1]
    assert r.publish(since=1, sink="call") == [1]
    assert calls == [0, 1, 1]


def test_a_function_that_left_the_code_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrive(tmp_path, "a")

    def build(p: tm.Pipeline, world: World) -> None:
        counts_only(p, world).foreachBatch(lambda table, batch_id: 1 / 0, name="call")

    def counts_only(p: tm.Pipeline, world: World) -> tm.Stream:
        rows = world.read(p)
        rows.groupBy("k").agg(n=tm.count(), name="counts")
        return rows

    world = World(tmp_path, build)
    r = world.open()
    with pytest.raises(
        tm.InvalidInput, match="publish version 0 of sink `call`, which is committed: the function given"
    ):
        run(r)
    assert run(world.but(counts_only).open(init=False)) == []
    [warning] = [message for message in caplog.messages if "`call`" in message]
    assert warning.startswith("sink `call`: version 0 was committed for a function of foreachBatch that this code does")


# histories


def test_a_copy_leaves_what_the_original_committed_to_the_original(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    shutil.rmtree(tmp_path / "root" / "shop" / "published")  # as if the copy were made just before publishing
    copy = copied(tmp_path, sink=None)
    for path in files(tmp_path):
        path.unlink()  # a consumer took the original's files
    assert copy.publish() == run(copy) == []
    assert copy.status().published_through == 0
    assert files(tmp_path) == []


def test_a_copy_publishes_on_request_what_it_then_knows_as_its_own(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    rows = published(tmp_path)
    (tmp_path / "out").rename(tmp_path / "of the original")
    copy = copied(tmp_path, sink=tm.Json(str(tmp_path / "out" / "copy")))
    assert copy.publish(since=0) == [0, 1]
    assert published(tmp_path) == rows
    arrive(tmp_path, "c")
    assert run(copy) == [2]
    assert copy.publish(since=0) == [0, 1, 2]
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]


def test_a_copy_that_replaces_a_sink_keeps_the_rows_that_it_shares_with_the_original(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    shared = published(tmp_path)
    copy = copied(tmp_path, sink=None)
    arrive(tmp_path, "c")
    assert run(opened(tmp_path)) == [2]
    files(tmp_path)[0].unlink()  # a consumer took it
    arrive(tmp_path, "d")
    assert run(copy, replace_sink=True) == [2, 3]
    uuid = copy.opened.initialised().uuid[:8]
    assert all(uuid in path.name for path in files(tmp_path))
    assert [(row["k"], row["version"]) for row in published(tmp_path)] == [("b", 1), ("c", 2), ("d", 3)]
    assert shared[1] in published(tmp_path)


def copied(folder: Path, sink: Any) -> tm.Repository:
    """An adopted copy of the repository, with another sink."""
    shutil.copytree(folder / "root", folder / "copy")
    made = world(folder, "copy", sink).open(init=False)
    made.adopt("a test", copy=True)
    return made


def test_the_rows_of_a_plan_that_runs_again_with_other_code_are_not_taken_for_published(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    world(tmp_path).put("a", "a,5\n")
    run(opened(tmp_path))
    lose_version(tmp_path, 0)
    before = published(tmp_path)
    with pytest.raises(
        tm.CorruptState, match="publish version 0 of sink `counts`, which is committed: found "
    ) as caught:
        run(opened(tmp_path, n=tm.max("v")), accept_output_change=True)
    assert "the repository is older than its published files" in str(caught.value.hint)
    assert published(tmp_path) == before


def test_a_plan_whose_commit_is_lost_makes_the_same_rows_again(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    before = published(tmp_path)
    lose_version(tmp_path, 1)
    assert run(opened(tmp_path)) == [1]
    assert published(tmp_path) == before


def lose_version(folder: Path, version: int) -> None:
    """Lose a commit and all that shows that it was made, but not its plan."""
    for path in (folder / "root" / "shop").rglob(f"{version:010d}*"):
        if path.parent.name != "plans" and not {"refs", "state"} & set(path.parts):
            path.unlink()
    (folder / "root" / "shop" / "branches" / "main" / "head.json").unlink()


def test_a_record_of_another_commit_is_corrupt_state(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    shutil.copytree(tmp_path / "root" / "shop" / "published", tmp_path / "newer")
    shutil.rmtree(tmp_path / "root")
    shutil.rmtree(tmp_path / "out")
    arrive(tmp_path, "b")
    r = opened(tmp_path)
    shutil.copytree(tmp_path / "newer", tmp_path / "root" / "shop" / "published", dirs_exist_ok=True)
    with pytest.raises(tm.CorruptState):
        run(r)


def test_a_commit_of_another_history_below_the_head_stops_batches_and_corrections(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    shutil.copytree(tmp_path / "root", tmp_path / "at 0")
    commit = tmp_path / "root/shop/branches/main/commits/0000000001.json"
    for history in ("other", "this"):  # both begin with version 0
        shutil.rmtree(tmp_path / "root")
        shutil.copytree(tmp_path / "at 0", tmp_path / "root")
        shutil.rmtree(tmp_path / "out")
        arrive(tmp_path, f"b {history}", "c")
        assert run(opened(tmp_path)) == [1, 2]
        shutil.copy(commit, tmp_path / history)
        (tmp_path / "in" / "b other.csv").unlink(missing_ok=True)
    shutil.copy(tmp_path / "other", commit)
    arrive(tmp_path, "d")
    before = sorted((tmp_path / "root").rglob("*.json")), published(tmp_path)
    for write in (run, lambda r: r.reset(batch_time="2020-01-01", reason="a test")):
        with pytest.raises(tm.CorruptState, match="read commit 2 of branch `main` .* is based on version 1"):
            write(opened(tmp_path))
    assert (sorted((tmp_path / "root").rglob("*.json")), published(tmp_path)) == before
    shutil.copy(tmp_path / "this", commit)
    assert run(opened(tmp_path)) == [3]


def test_the_plan_of_another_repository_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drain, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(r)
    monkeypatch.undo()
    plan, uuid = r.opened.log.plan(0), "f" * 32
    assert plan is not None
    r.opened.store.put("branches/main/plans/0000000000.json", encode(dataclasses.replace(plan, pipeline_uuid=uuid)))
    assert [problem.what for problem in r.verify().problems] == [
        f"read plan `branches/main/plans/0000000000.json`: it was made by repository {uuid}"
    ]
    with pytest.raises(tm.CorruptState, match=f"execute plan 0 of .* it was made by repository {uuid}"):
        run(opened(tmp_path))
    opened(tmp_path).replan("a test")
    assert run(opened(tmp_path)) == [1]


# withdrawals and additions


def test_withdrawn_versions_are_deleted_after_added_ones_are_visible(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    added = AddedOutput("main", 0, r.commit(0).outputs["counts"])
    made = corrected(r, withdraws={"counts": [VersionOf("main", 1), VersionOf("main", 2)]}, adds={"counts": [added]})
    assert run(opened(tmp_path)) == []
    assert [row["version"] for row in published(tmp_path)] == [0, 0]
    names = [path.name for path in files(tmp_path)]
    assert [file["name"] for file in record(tmp_path, made.version)["files"]] == [names[1]]
    assert record(tmp_path, made.version)["withdrawn"] == [
        file["name"] for version in (1, 2) for file in record(tmp_path, version)["files"]
    ]
    assert r.publish(since=0) == [0, made.version], "withdrawn versions stay withdrawn"
    assert [path.name for path in files(tmp_path)] == names


def test_a_withdrawal_that_died_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    corrected(r, withdraws={"counts": [VersionOf("main", 0), VersionOf("main", 1)]})
    monkeypatch.setattr(sink_folder, "_remove", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(opened(tmp_path))
    monkeypatch.undo()
    files(tmp_path)[0].unlink()  # the first one was deleted
    assert run(opened(tmp_path)) == []
    assert files(tmp_path) == []


def test_a_withdrawal_after_the_sink_moved_deletes_what_is_at_its_place_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    (tmp_path / "out").rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "out")
    shutil.copytree(tmp_path / "before", tmp_path / "out" / "now")
    names = [path.name for path in sorted((tmp_path / "out" / "now").iterdir())]
    r = opened(tmp_path, sink=tm.Json(str(tmp_path / "out" / "now")))
    corrected(r, withdraws={"counts": [VersionOf("main", 0)]})
    with caplog.at_level(logging.WARNING):
        assert run(r) == []
    assert sorted(path.name for path in (tmp_path / "out" / "now").iterdir()) == names[1:]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*names, "now"}
    (warning,) = caplog.messages
    assert (
        f"version 0 is withdrawn, but it was published in `{tmp_path}/out`, which is not the sink's path now" in warning
    )


def test_publishing_again_is_logged_nowhere_as_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrive(tmp_path, "a")
    with caplog.at_level(logging.WARNING):
        r = opened(tmp_path)
        run(r)
        r.publish(since=0)
    assert caplog.messages == []
