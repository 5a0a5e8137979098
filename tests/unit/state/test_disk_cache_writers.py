"""The disk cache with concurrent threads and processes, killed writers and a full disk."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.state.cached_runs import KEY, OTHER, SCHEMA, cache, files, run_of, same, small
from tidemill._native import Run
from tidemill.state import disk_cache
from tidemill.state.cache import RunCache
from tidemill.state.disk_cache import DiskCache

pytestmark = pytest.mark.slow("kill processes that write the cache")

__all__ = ["cache", "small"]  # fixtures


def test_two_writers_at_once(cache: DiskCache) -> None:
    run = run_of(20_000)
    caches = [DiskCache(str(cache.folder), 1 << 30) for _ in range(8)]
    found: list[Run] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.put(KEY, run))) for one in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(same(one, run) for one in found)
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]


def test_concurrent_writes_of_threads_are_all_counted(cache: DiskCache) -> None:
    run = run_of(50_000)
    cache.limit_bytes = 1 << 36
    cache.put("f" * 32, run)  # the folder is looked at, and not again before a 32nd of the limit was written

    def work(number: int) -> None:
        for one in range(5):
            cache.put(f"{number:016x}{one:016x}", run)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    size = sum(entry.stat().st_size for entry in cache.folder.iterdir() if entry.suffix == ".run")
    assert (cache._seen_bytes or 0) + cache._written_bytes == size


CHILD = """
import resource, sys
from tests.unit.state import cached_runs as t
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache
disk_cache.LEAST_CACHED_BYTES = disk_cache.RESERVED_BYTES = 0
cache, run = DiskCache(sys.argv[1], 1 << 30), t.run_of(200_000)
if sys.argv[2] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    assert t.same(cache.put(t.KEY, run), run)
    assert t.files(cache) == [], t.files(cache)
else:
    print("ready", flush=True)
    for _ in range(1000):
        cache.put(t.KEY, run)
        cache._drop(t.KEY)
"""


def child(folder: Path, what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder), what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def test_a_full_disk_means_no_cache(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with child(cache.folder, "full") as process:
        assert process.wait() == 0
    monkeypatch.setattr(disk_cache, "RESERVED_BYTES", 1 << 62)
    run = run_of()
    assert cache.put(KEY, run) is run
    assert files(cache) == []


def test_a_killed_writer_leaves_no_usable_file(cache: DiskCache) -> None:
    cache.put(OTHER, run_of())
    for pause in (0.002, 0.01, 0.03):
        with child(cache.folder, "kill") as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            threading.Event().wait(pause)
            process.send_signal(signal.SIGKILL)
        found = cache.get(KEY, SCHEMA)
        assert found is None or same(found, run_of(200_000))
    (cache.folder / f"{'0' * 32}.tmp").write_bytes(b"left by a dead writer")
    run = run_of()
    cache._drop(KEY)
    following = DiskCache(str(cache.folder), 1 << 30)
    assert same(following.put(KEY, run), run)
    assert files(cache) == sorted(f"{name}.{kind}" for name in (KEY, OTHER) for kind in ("ok", "run"))


def test_a_run_is_loaded_once_for_all_processes(cache: DiskCache) -> None:
    run = run_of()
    loads: list[int] = []

    def load() -> Run:
        loads.append(1)
        return run

    for _ in range(3):
        assert same(RunCache(0, cache).get(KEY, SCHEMA, load), run)
    assert len(loads) == 1
    assert same(RunCache(0, None).get(KEY, SCHEMA, load), run)
    assert len(loads) == 2
