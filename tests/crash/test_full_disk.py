"""A full disk at each write: one clear error, nothing half-written counts, and the call goes on once there is room.

The first tests let calls of the system fail. The last ones fill a small file system of their own, and are skipped where
mounting one is not allowed.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.actions import ACTIONS, Action, again, differences, settle, two_operators
from tests.crash.full_disk import full_disk
from tests.crash.worlds import Place
from tests.exhaustive import EXHAUSTIVE
from tests.world import World, run, state

pytestmark = pytest.mark.slow("interrupt a run at every step")

PROBE = importlib.import_module("tidemill.store.probe")
"""The module, which the function of its name hides."""

POINTS = 2
"""Of all calls of an action that need space, so many are tried, unless `TIDEMILL_EXHAUSTIVE` is set."""
STORED = ("state/", "output/", "quarantine/")
BATCH = Action(two_operators, lambda world: world.run(1), is_once=False)
CHOSEN = {
    "run": BATCH,
    **{
        name: ACTIONS[name]
        for name in ("init", "publish", "maintain", "merge", "rewind", "migrate keys", "forget", "requeue")
    },
}


@pytest.fixture
def world(tmp_path: Path) -> Place:
    return worlds.folder_world(tmp_path)


def points(calls: int, turn: int) -> list[int]:
    """Return the calls from which on the disk is full. Actions begin at different ones, so that all kinds are met."""
    step = 1 if EXHAUSTIVE else max(1, calls // POINTS)
    return list(range(1 + turn % step, calls + 1, step))


def temporary(world: Place) -> list[str]:
    return [str(path) for path in Path(world.base).rglob("*") if path.name in (".tmp", ".tidemill-tmp")] + [
        str(path) for path in Path(world.base).rglob("_probe-*")
    ]


@pytest.mark.parametrize("name", list(CHOSEN))
def test_an_action_goes_on_after_the_disk_was_full(name: str, world: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    action = CHOSEN[name]
    with full_disk():
        action.begin(world)
    before = world.save()
    with full_disk() as disk, monkeypatch.context() as process:
        process.setattr(PROBE, "_probed", set())
        action.act(world)
        calls = len(disk.calls)
        expected = settle(world, action)
    failures = 0
    for at in points(calls, list(CHOSEN).index(name)):
        shutil.rmtree(world.base)
        world.load(before)
        with full_disk(at) as disk, monkeypatch.context() as process:
            process.setattr(PROBE, "_probed", set())
            failed = failure(world, action)
            assert disk.failed, f"{calls} calls before, but fewer than {at} now"
            failures += failed is not None
            assert not temporary(world)
            disk.full_from = None
            again(world, action)
            difference = differences(action, settle(world, action), expected)
        assert not difference, f"{difference} after a full disk from call {at} on ({disk.calls[at - 1]}): {failed}"
    assert failures


def failure(world: Place, action: Action) -> tm.TidemillError | None:
    """Call the action on a full disk; return its error, which must be clear. None: only hints were not written."""
    failed = None
    try:
        action.act(world)
    except tm.StoreUnavailable as error:
        failed = error
    if failed is not None:
        assert "No space left on device" in failed.first_line and "bytes free" in failed.first_line, failed
        assert "the write may still complete" not in failed.message
        assert failed.hint is not None and "free space" in failed.hint and "run again" in failed.hint
    return failed


def test_a_batch_that_found_the_disk_full_leaves_no_objects(world: Place) -> None:
    """Retries would fill the disk with objects above the head, which are not garbage until a batch is committed."""
    two_operators(world)
    before, at = objects(world), 0
    while objects(world) == before:
        at += 1
        with full_disk(at), pytest.raises(tm.StoreUnavailable):
            world.run(1)
    head = world.open().head
    assert head is not None and head.version == 3  # it was committed, and publishing found the disk full
    assert at > 20


def objects(world: Place) -> set[str]:
    """Return the names of all objects that are no records."""
    store = world.store.at(f"root/{world.name}")
    return {entry.name for entry in store.list() if entry.name.startswith(STORED)}


def test_maintain_deletes_garbage_on_a_full_disk_and_then_does_the_rest(
    world: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_operators(world)
    folder = Path(world.base, "root", world.name)
    orphan = folder / f"state/users/state/main/0000000000-{'a' * 12}-00000-{'b' * 8}.parquet"
    orphan.write_bytes(b"of an attempt that failed")
    with full_disk(1) as disk:
        real = os.unlink

        def unlink(path: Any, **options: Any) -> None:
            disk.full_from = None  # there is room again
            real(path, **options)

        monkeypatch.setattr(os, "unlink", unlink)
        report = world.open().maintain(keep_versions=1)
    assert not orphan.exists() and disk.failed
    assert report.floor == 2 and report.deleted


def test_a_file_above_the_limit_of_the_process_is_an_error_with_advice(world: Place) -> None:
    two_operators(world)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(tm.StoreUnavailable, match=r"File too large\nhint: .*`ulimit -f`.* then run again$"):
            world.run(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert world.run(1) == [3]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def leave(small: Path, free: int) -> None:
    """Fill the file system so that so many bytes are free."""
    ballast = small / "ballast"
    ballast.unlink(missing_ok=True)
    disk = os.statvfs(small)
    ballast.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - free)))


def with_places(folder: Path, places: dict[str, Path]) -> World:
    """A world whose root, sink or cache may be in other folders."""
    at = {what: str(places.get(what, folder) / what) for what in ("root", "sink", "cache")}

    def spend(p: tm.Pipeline, world: World) -> None:
        total = world.read(p).groupBy("user").agg(total=tm.sum("amount"), name="spend")
        total.write(tm.Parquet(at["sink"]))

    conf = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_folder": at["cache"]}
    return World(folder, spend, root=at["root"], conf=conf, schema="user string, amount long")


@pytest.mark.parametrize("place", ["root", "sink", "cache", "tmp"])
def test_a_run_goes_on_after_a_real_disk_was_full(
    place: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = with_places(tmp_path, {place: small})
    world.arrive(*([(f"u{i}", number + i) for i in range(2000)] for number in range(3)))
    if place == "tmp":
        monkeypatch.setattr(tempfile, "tempdir", str(small))
    monkeypatch.setattr("tidemill.state.disk_cache.LEAST_CACHED_BYTES", 1)
    monkeypatch.setattr("tidemill.state.disk_cache.RESERVED_BYTES", 0)
    r = world.open()
    done, errors = [], []
    for free in (0, 8 << 10, 20 << 10, 32 << 10, 48 << 10, 80 << 10, 1 << 20):
        leave(small, free)
        try:
            done += run(r, max_batches=1)
        except tm.StoreUnavailable as error:
            errors.append(error)
        assert not list(small.rglob("tidemill-*")) and not list(small.rglob(".tmp"))
    assert all("No space left on device; needed" in error.first_line for error in errors)
    assert bool(errors) == (place in ("root", "sink"))
    r.run(engine="local")
    assert r.head is not None and r.head.version == 2
    assert state(r, "spend") == {f"u{i}": 3 * i + 3 for i in range(2000)}
    assert len(list((small if place == "sink" else tmp_path).joinpath("sink").glob("*.parquet"))) == 3
