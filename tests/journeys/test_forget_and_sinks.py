"""`forget` beside what sinks show: files of other sinks, rewinds, and versions that were given up."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.worlds import Place


@pytest.fixture
def world(tmp_path: Path) -> Place:
    world = worlds.memory_world(tmp_path)
    world.open().init()
    for _ in range(3):
        world.run(1)
    return world


def shown(world: Place, sink: str) -> list[str]:
    return sorted(row for rows in worlds.published(world).values() for row in rows if row.startswith(f"{sink} "))


def test_forget_leaves_the_files_of_other_sinks_after_a_rewind(world: Place) -> None:
    world.open().rewind(1, "a test")
    world.run(1)
    before = shown(world, "by-n")
    world.open().forget("users", ["u1"], "a test", {"users": "user"})
    world.open().maintain()
    assert shown(world, "by-n") == before
    assert not any("'u1'" in row for row in shown(world, "users"))


def test_a_second_forget_finds_the_files_of_its_own_sink(world: Place) -> None:
    world.open().forget("users", ["u1"], "a test", {"users": "user"})
    assert any("'n': 2" in row for row in shown(world, "by-n"))
    world.open().forget("by-n", [2], "a test", {"by-n": "n"})
    assert not any("'n': 2" in row for row in shown(world, "by-n"))
    assert not any("'u1'" in row for row in shown(world, "users"))
    assert world.open().verify(deep=True, forgotten=True).problems == []


def test_no_rewind_before_a_forget_whose_floor_is_not_raised_yet(world: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.actions.removing.give_up_forgotten", lambda repo: None)
        world.open().forget("users", ["u1"], "a test", {"users": "user"})
    with pytest.raises(tm.InvalidInput, match="rewind to version 1: version 3 forgot keys"):
        world.open().rewind(1, "a test")
    world.open().maintain()
    assert world.open().verify(forgotten=True).problems == []


def test_publishing_again_leaves_out_versions_that_are_no_longer_kept(
    world: Place, caplog: pytest.LogCaptureFixture
) -> None:
    world.open().maintain(keep_versions=1)
    for entry in list(world.store.list("sinks/users/")):
        world.store.delete(entry.name)
    with caplog.at_level(logging.WARNING):
        done = world.open().publish(0)
    assert "sink `users`: version 0 is no longer kept, so its files cannot be published again" in caplog.text
    assert 2 in done
    assert shown(world, "users") == sorted(f"users {row}" for row in world.open().outputs(2, "users").to_pylist())


def test_a_forget_of_a_copy_names_the_files_of_the_original(tmp_path: Path) -> None:
    world = worlds.folder_world(tmp_path)
    world.open().init()
    world.run(1)
    shutil.copytree(tmp_path / "world/root", tmp_path / "world/copy")
    copy = world.at(world.base, "copy")
    copy.open().adopt("a test", copy=True)
    copy.run(adopt_sink=True)
    plan = copy.open().forget("users", ["u1"], "a test", {"users": "user"}, missing_ok=True, dry_run=True)
    [file] = (tmp_path / "world/sinks/users").glob("*-0000000000-*")
    assert f"{file.as_uri()}: published by the original of this copy" in plan.left
