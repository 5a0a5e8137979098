"""The cache on disk: what is found there, and all that may happen to it; none of it is ever an error."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import MapSchema, Run, StateMap
from tidemill.settings import Settings
from tidemill.state import disk_cache
from tidemill.state.cache import RunCache, process_cache
from tidemill.state.disk_cache import LOOKED_AT, DiskCache

NOTHING = pa.schema([])
SCHEMA = MapSchema("m", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("v", pa.string())]))
KEY = "0123456789abcdef0123456789abcdef"
OTHER = KEY[::-1]


def run_of(rows: int = 1000, schema: MapSchema = SCHEMA) -> Run:
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    keys = pa.record_batch([pa.array(range(rows), pa.int64())], names=["k"])
    states.put_many(keys, pa.record_batch([pa.array(map(str, range(rows)))], names=["v"]), 1)
    return states.base()


def same(found: Run | None, run: Run) -> bool:
    return found is not None and found.rows().equals(run.rows())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "SMALL_BYTES", 0)
    monkeypatch.setattr(disk_cache, "RESERVED_BYTES", 0)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(str(tmp_path / "cache"), 1 << 30)


def files(cache: DiskCache) -> list[str]:
    return sorted(entry.name for entry in cache.folder.iterdir())


def test_a_kept_run_is_found_by_every_process(cache: DiskCache) -> None:
    run = run_of()
    assert cache.get(KEY, SCHEMA) is None
    assert same(cache.put(KEY, run), run)
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert (cache.folder / f"{KEY}.run").stat().st_mode & 0o777 == 0o400  # nobody shortens it by accident
    assert same(DiskCache(str(cache.folder), 1 << 30).get(KEY, SCHEMA), run)
    assert cache.get(OTHER, SCHEMA) is None


def test_a_map_of_kept_runs_is_one_like_any_other(cache: DiskCache) -> None:
    states = StateMap.open(SCHEMA, [cache.put(KEY, run_of())], 0, 2**64 - 1)
    one = pa.record_batch([pa.array([5], pa.int64())], names=["k"])
    states.remove_many(one)
    assert (len(states), states.get_many(one)[0].to_pylist()) == (999, [False])
    assert len(states.base().write()) > 0


@pytest.mark.parametrize("place", [0, 100, -30, -20, -1])
def test_a_flipped_bit_is_found_and_the_file_goes(cache: DiskCache, caplog: Any, place: int) -> None:
    cache.put(KEY, run_of())
    path = cache.folder / f"{KEY}.run"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    assert cache.get(KEY, SCHEMA) is None
    assert files(cache) == []
    assert "it is deleted, and the segment read from the store" in caplog.text


def test_a_file_of_another_format_goes_without_a_warning(cache: DiskCache, caplog: Any) -> None:
    """Another release kept it: eight words stand before the last 24 bytes, and the first tells the format."""
    cache.put(KEY, run_of())
    path = cache.folder / f"{KEY}.run"
    data = bytearray(path.read_bytes())
    data[-24 - 8 * 8] += 1
    path.chmod(0o600)
    path.write_bytes(data)
    with caplog.at_level(logging.INFO):
        assert cache.get(KEY, SCHEMA) is None
    assert files(cache) == []
    [record] = caplog.records
    assert (record.levelno, "it has another format; it is deleted" in record.getMessage()) == (logging.INFO, True)


def test_a_truncated_or_empty_file_is_found(cache: DiskCache) -> None:
    for length in (0, 10, 5000):
        cache.put(KEY, run_of())
        (cache.folder / f"{KEY}.run").chmod(0o600)
        os.truncate(cache.folder / f"{KEY}.run", length)
        assert cache.get(KEY, SCHEMA) is None
        assert files(cache) == []


def test_a_checked_file_that_was_touched_is_checked_again_and_one_of_another_name_refused(cache: DiskCache) -> None:
    run = run_of()
    cache.put(KEY, run)
    os.utime(cache.folder / f"{KEY}.run")
    assert same(cache.get(KEY, SCHEMA), run)
    (cache.folder / f"{KEY}.run").rename(cache.folder / f"{OTHER}.run")
    assert cache.get(OTHER, SCHEMA) is None


def test_the_file_that_was_checked_is_the_one_that_is_mapped(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    run, read, path = run_of(), disk_cache._read, cache.folder / f"{KEY}.run"
    cache.put(KEY, run)
    data = path.read_bytes()

    def another_takes_the_name(ok: Path) -> str | None:
        other = path.with_name("other")
        other.write_bytes(data.replace(b"999", b"111"))
        other.rename(path)
        return read(ok)

    monkeypatch.setattr(disk_cache, "_read", another_takes_the_name)
    assert same(cache.get(KEY, SCHEMA), run)
    monkeypatch.undo()
    assert cache.get(KEY, SCHEMA) is None


def test_descriptors_stay_the_callers_and_bad_ones_are_an_error(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w+b") as file:
        run_of().keep(file.fileno(), KEY)
        assert same(Run.map(SCHEMA, file.fileno(), KEY, verify=True), run_of())
        assert same(Run.map(SCHEMA, file.fileno(), KEY, verify=True), run_of())
    with pytest.raises(OSError, match="a descriptor is never negative"):
        Run.map(SCHEMA, -1, KEY, verify=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        run_of().keep(10**6, KEY)
    with (tmp_path / "empty").open("w+b") as file, pytest.raises(tm.CorruptState, match=f"map the run kept as `{KEY}`"):
        Run.map(SCHEMA, file.fileno(), KEY, verify=True)


def test_another_schema_is_no_hit(cache: DiskCache) -> None:
    cache.put(KEY, run_of())
    other = MapSchema("m", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("w", pa.string())]))
    assert cache.get(KEY, other) is None


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


def test_what_threads_write_at_once_is_counted_whole(cache: DiskCache) -> None:
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
from tests.unit import test_disk_cache as t
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache
disk_cache.SMALL_BYTES = disk_cache.RESERVED_BYTES = 0
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
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_a_full_disk_means_no_cache(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with child(cache.folder, "full") as process:
        assert process.wait() == 0
    monkeypatch.setattr(disk_cache, "RESERVED_BYTES", 1 << 62)
    run = run_of()
    assert cache.put(KEY, run) is run
    assert files(cache) == []


def test_a_writer_that_is_killed_leaves_nothing_that_counts(cache: DiskCache) -> None:
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


def test_foreign_files_stay_and_a_mapped_file_may_be_deleted(tmp_path: Path) -> None:
    run = run_of()
    cache = DiskCache(str(tmp_path), 1 << 30)
    tmp_path.chmod(0o700)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "x.run").mkdir()
    kept = cache.put(KEY, run)
    for name in (f"{KEY}.run", f"{KEY}.ok"):
        (tmp_path / name).unlink()
    assert same(kept, run)
    (tmp_path / f"{KEY}.run").mkdir()
    assert cache.get(KEY, SCHEMA) is None
    (tmp_path / f"{OTHER}.run").symlink_to(tmp_path / "notes.txt")
    assert cache.get(OTHER, SCHEMA) is None
    assert {"notes.txt", "x.run"} < set(files(cache))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    run = run_of()
    cache = DiskCache(str(tmp_path / "cache"), 1 << 30)
    names = [f"{number:032x}" for number in range(4)]
    cache.put(names[0], run)
    cache.limit_bytes = int((cache.folder / f"{names[0]}.run").stat().st_size * 2.5)
    cache.put(names[1], run)
    for age, name in ((3, names[1]), (2, names[0])):
        os.utime(cache.folder / f"{name}.ok", (age, age))
    assert cache.get(names[1], SCHEMA) is not None  # used again
    cache.put(names[2], run)
    assert [name for name in names if (cache.folder / f"{name}.run").exists()] == [names[1], names[2]]
    cache.limit_bytes = run.nbytes - 1
    assert cache.put(names[3], run) is run


def test_the_folder_is_looked_at_now_and_then_and_holds_no_more_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, looked = run_of(10), []
    evict = DiskCache._evict
    monkeypatch.setattr(DiskCache, "_evict", lambda cache, kept: (looked.append(cache), evict(cache, kept)))
    cache, other = (DiskCache(str(tmp_path / "cache"), 1 << 30) for _ in range(2))
    names = (f"{number:032x}" for number in itertools.count())

    def held() -> int:
        return sum(path.stat().st_size for path in cache.folder.glob("*.run"))

    for _ in range(10):
        cache.put(next(names), run)
    assert looked == [cache]
    size = held() // 10
    cache.limit_bytes = 4 * LOOKED_AT * size
    for _ in range(8 * LOOKED_AT):
        cache.put(next(names), run)
        assert held() <= cache.limit_bytes
    assert len(looked) <= 1 + 8 * LOOKED_AT // 4
    assert held() >= cache.limit_bytes - 6 * size
    for _ in range(2 * LOOKED_AT):  # another process with a limit of its own
        other.put(next(names), run)
    for _ in range(5):
        cache.put(next(names), run)
    assert held() <= cache.limit_bytes + size


@pytest.mark.parametrize("what", ["open to others", "a file", "a link", "not to be made"])
def test_a_folder_that_others_have_a_hand_in_is_not_used_and_told_once(tmp_path: Path, caplog: Any, what: str) -> None:
    folder = tmp_path / "cache"
    if what == "open to others":
        folder.mkdir()
        folder.chmod(0o755)
    elif what == "a file":
        folder.write_text("")
    elif what == "a link":
        (tmp_path / "real").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "real")
    else:
        (tmp_path / "file").write_text("")
        folder = tmp_path / "file" / "cache"
    cache, run = DiskCache(str(folder), 1 << 30), run_of()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert cache.put(KEY, run) is run
            assert cache.get(KEY, SCHEMA) is None
    assert caplog.text.count("the cache on disk is not used") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_not_used(cache: DiskCache, caplog: Any) -> None:
    run, path = run_of(), cache.folder / f"{KEY}.run"
    cache.put(KEY, run)
    os.chown(path, 4711, 4711)
    with caplog.at_level(logging.INFO):
        assert cache.get(KEY, SCHEMA) is None
        assert f"{path} is not used: it belongs to user 4711, this process to 0" in caplog.text
        os.chown(path, 0, 0)
        assert same(cache.get(KEY, SCHEMA), run)
        os.chown(cache.folder, 4711, 4711)  # after it was used
        assert cache.get(KEY, SCHEMA) is None
        assert cache.put(OTHER, run) is run
    assert caplog.text.count(f"not used: {cache.folder}: it belongs to user 4711, this process to 0") == 1
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]


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


def test_settings_place_it_and_turn_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = Settings(disk_cache_folder=str(tmp_path), disk_cache_bytes=5)
    assert process_cache(placed) is process_cache(placed)
    assert process_cache(placed) is not process_cache(Settings(disk_cache_folder=str(tmp_path), disk_cache_bytes=0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert DiskCache("", 1).folder == tmp_path / "tidemill" / "segments"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert DiskCache("~/runs", 1).folder == tmp_path / "runs"

    monkeypatch.setenv("TIDEMILL_DISK_CACHE_FOLDER", str(tmp_path / "here"))
    counts = tm.StateStore(str(tmp_path / "root"), "counts", 0, key="bigint", state="string")
    store = counts.get(0)
    store.put(1, "a")
    store.commit()
    (kept,) = (tmp_path / "here").glob("*.run")
    assert len(kept.stem) == 32


def test_without_a_home_it_lies_in_the_folder_for_temporary_files_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert DiskCache("", 1).folder == Path(tempfile.gettempdir()) / f"tidemill-{os.geteuid()}"


def test_runs_that_grow_by_being_searched_are_counted_as_what_they_are() -> None:
    def searched(run: Run) -> Run:
        for _ in range(4):
            StateMap.open(SCHEMA, [run], 0, 2**64 - 1).next_deadline()
        return run

    def with_deadlines() -> Run:
        states = StateMap.open(SCHEMA, [], 0, 2**64 - 1)
        keys = pa.record_batch([pa.array(range(1000), pa.int64())], names=["k"])
        values = pa.record_batch([pa.array(map(str, range(1000)))], names=["v"])
        states.put_many(keys, values, 1, pa.array(range(1000), pa.int64()))
        return states.base()

    fresh, grown = with_deadlines().nbytes, searched(with_deadlines()).nbytes
    assert grown > fresh
    cache = RunCache(3 * grown, None)
    kept: list[Run] = []
    for number in range(60):
        kept.append(cache.put(f"{number:032x}", with_deadlines()))
        searched(cache.get(f"{number:032x}", SCHEMA, with_deadlines))
        assert cache.get(f"{number:032x}", SCHEMA, with_deadlines) is kept[-1]

    class Missing(Exception):
        pass

    def missing() -> Run:
        raise Missing

    def is_here(number: int) -> bool:
        try:
            return cache.get(f"{number:032x}", SCHEMA, missing) is kept[number]
        except Missing:
            return False

    here = [number for number in range(60) if is_here(number)]
    assert 1 <= len(here) <= 3 and 59 in here
