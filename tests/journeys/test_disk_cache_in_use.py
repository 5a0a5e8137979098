"""The cache on disk in use: a pipeline over damaged files, processes that write one run, a new start of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.state.cached_runs import KEY, SCHEMA, cache, files, run_of, same, small
from tests.world import World, state
from tidemill.state import cache as run_cache
from tidemill.state.disk_cache import DiskCache

pytestmark = pytest.mark.slow("kill processes that write the cache")

__all__ = ["cache", "small"]  # fixtures


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 97):
        data[place] ^= 4
    path.write_bytes(data)


def flip_and_mark_checked_before_boot(path: Path) -> None:
    """Simulate a disk that lost writes in a power failure."""
    flip(path)
    mark_checked(path, "boot id of an earlier start")


def mark_checked(path: Path, boot: str) -> None:
    """Write the note that says that the file, as it is now, was checked since the start of the machine `boot`."""
    found = path.stat()
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    path.with_suffix(".ok").write_text(" ".join((boot, *map(str, numbers))))


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "flipped bits": flip,
    "flipped bits before the machine started": flip_and_mark_checked_before_boot,
    "cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zero length": lambda path: os.truncate(path, 0),
    "a folder in its place": make_a_folder,
    "not to be read": lambda path: path.chmod(0),
    "gone": Path.unlink,
    "a link to nowhere in its place": lambda path: [path.unlink(), path.symlink_to("nowhere")],
    "its note garbage": lambda path: path.with_suffix(".ok").write_bytes(b"\xff\x00"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_results_do_not_depend_on_cached_files(
    tmp_path: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("TIDEMILL_DISK_CACHE_FOLDER", str(cache.folder))
    world = World(tmp_path, schema="k string", maxFilesPerTrigger=None)
    expected: Counter[str] = Counter()
    for batch in range(3):
        keys = [f"key {number % (50 + batch)}" for number in range(400)]
        expected.update(keys)
        world.arrive([(key,) for key in keys])
        run_cache._CACHE.clear()  # nothing is in memory, as in a new process
        assert world.run() == [batch]
        kept = list(cache.folder.glob("*.run"))
        assert kept
        for path in kept:
            if path.is_file():
                path.chmod(0o600)
                DAMAGES[damage](path)
    run_cache._CACHE.clear()
    assert state(world.open(), "counts") == expected


WRITER = """
import sys
from tests.unit.state import cached_runs as t
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache
disk_cache.LEAST_CACHED_BYTES = disk_cache.RESERVED_BYTES = 0
cache, run = DiskCache(sys.argv[1], 1 << 30), t.run_of(20_000)
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    assert t.same(cache.put(t.KEY, run), run)
    found = cache.get(t.KEY, t.SCHEMA)
    assert found is None or t.same(found, run)
    if number < 39:
        for place in cache.folder.glob(f"{t.KEY}.*"):
            place.unlink(missing_ok=True)
"""


def test_processes_that_write_one_run_at_once_all_get_it_and_leave_one_whole_file(cache: DiskCache) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(3)
    ]
    for one in writers:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in writers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [(one.communicate()[0], one.returncode) for one in writers] == [("", 0)] * 3
    assert same(cache.put(KEY, run_of(20_000)), run_of(20_000))
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]


def boot_of_note(cache: DiskCache) -> str:
    return (cache.folder / f"{KEY}.ok").read_text().partition(" ")[0]


def with_one_value_changed(cache: DiskCache) -> Path:
    """Damage a stored file, and mark it as checked since the machine started. Return its path."""
    cache.put(KEY, run_of())
    path = cache.folder / f"{KEY}.run"
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(data.replace(b"999", b"111"))
    mark_checked(path, boot_of_note(cache))
    return path


def test_a_file_that_was_checked_before_the_machine_started_is_checked_again(cache: DiskCache) -> None:
    path = with_one_value_changed(cache)
    boot = boot_of_note(cache)
    found = cache.get(KEY, SCHEMA)
    assert found is not None and not same(found, run_of())  # a file checked since the machine started is trusted
    mark_checked(path, "boot id of an earlier start")
    assert cache.get(KEY, SCHEMA) is None
    assert files(cache) == []
    run = run_of()
    assert same(cache.put(KEY, run), run)
    assert boot_of_note(cache) == boot != str(os.getpid())


def test_without_a_boot_id_each_process_checks_for_itself(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def without_boot_id(path: Path, *arguments: Any) -> str:
        if path.name == "boot_id":
            raise FileNotFoundError(path)
        return read(path, *arguments)

    monkeypatch.setattr(Path, "read_text", without_boot_id)
    with_one_value_changed(cache)
    assert boot_of_note(cache) == str(os.getpid())
    assert cache.get(KEY, SCHEMA) is not None
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as another process sees it
    assert cache.get(KEY, SCHEMA) is None
