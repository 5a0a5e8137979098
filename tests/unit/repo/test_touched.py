"""Files that were touched after they were read: each is read once more, not by every run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World
from tidemill.sources import files as sources

FILES = 3


def by_value(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("v").agg(n=tm.count(), name="n")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A repository that has read files, all of which were touched since."""
    made = World(tmp_path, by_value, schema="v int", maxFilesPerTrigger=None)
    made.arrive(*(f"{number}\n" for number in range(FILES)))
    made.run()
    touch(made, 1)
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of all reads for fingerprints."""
    found: list[Any] = []
    real = sources.content_fingerprint
    monkeypatch.setattr(sources, "content_fingerprint", lambda *given: found.append(given) or real(*given))
    return found


def touch(world: World, second: int) -> None:
    for number in range(FILES):
        os.utime(world.inbox / f"{number:04d}.csv", (second, second))


def hint(world: World) -> Path:
    return world.folder / "root/shop/branches/main/touched.json"


def test_touched_files_are_read_by_one_idle_run_and_not_by_the_next(world: World, reads: list[Any]) -> None:
    for _ in range(3):
        assert world.run() == []
        assert len(reads) == FILES
    touch(world, 2)
    for _ in range(2):
        world.run()
        assert len(reads) == 2 * FILES
    world.put("9", "9\n")
    assert world.run() == [1]
    hint(world).unlink()
    world.run()
    assert len(reads) == 2 * FILES + 1, "the batch read its own file, and recorded the new times of the others"
    assert not hint(world).exists()


def test_a_file_that_was_touched_and_then_changed_is_noticed(world: World) -> None:
    world.run()
    world.put("0000", "7\n")
    with pytest.raises(tm.InvalidInput, match="file `0000.csv` of source `source` was modified after it was read"):
        world.run()


def test_a_changed_file_that_is_ignored_is_read_once(world: World, reads: list[Any]) -> None:
    world.put("0000", "7\n")
    for _ in range(3):
        assert world.but(overwritten="ignore").run() == []
    assert len(reads) == FILES


@pytest.mark.parametrize(
    "garbage", [b"", b"[]", b'{"files": 7}', b'{"files": [["source", "0000.csv", "x", 7]]}', b"\xff"]
)
def test_an_invalid_hint_costs_reading_the_files_again(garbage: bytes, world: World, reads: list[Any]) -> None:
    world.run()
    hint(world).write_bytes(garbage)
    assert world.run() == []
    assert len(reads) == 2 * FILES
    assert world.open().verify().problems == []


def test_reading_verbs_write_no_hint(world: World) -> None:
    world.open().status()
    assert not hint(world).exists()
