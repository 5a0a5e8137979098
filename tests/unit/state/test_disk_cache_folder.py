"""The disk cache: where its folder is, who may own it, and how much it holds."""

from __future__ import annotations

import itertools
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.state.cached_runs import KEY, OTHER, SCHEMA, cache, files, run_of, same, small
from tidemill._native import Run, StateMap
from tidemill.settings import Settings
from tidemill.state.cache import RunCache, process_cache
from tidemill.state.disk_cache import LISTINGS_PER_LIMIT, DiskCache

__all__ = ["cache", "small"]  # fixtures


def test_the_least_recently_used_run_is_deleted_first(tmp_path: Path) -> None:
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


def test_the_folder_is_listed_rarely_and_stays_within_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, listed = run_of(10), []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: (listed.append(folder), scandir(folder))[1])
    cache, other = (DiskCache(str(tmp_path / "cache"), 1 << 30) for _ in range(2))
    names = (f"{number:032x}" for number in itertools.count())

    def held() -> int:
        return sum((cache.folder / name).stat().st_size for name in os.listdir(cache.folder) if name.endswith(".run"))

    for _ in range(10):
        cache.put(next(names), run)
    assert listed == [cache.folder]
    size = held() // 10
    cache.limit_bytes = 4 * LISTINGS_PER_LIMIT * size
    for _ in range(8 * LISTINGS_PER_LIMIT):
        cache.put(next(names), run)
        assert held() <= cache.limit_bytes
    assert len(listed) <= 1 + 8 * LISTINGS_PER_LIMIT // 4
    assert held() >= cache.limit_bytes - 6 * size
    for _ in range(2 * LISTINGS_PER_LIMIT):  # another process with a limit of its own
        other.put(next(names), run)
    for _ in range(5):
        cache.put(next(names), run)
    assert held() <= cache.limit_bytes + size


@pytest.mark.parametrize("what", ["open to others", "a file", "a link", "not to be made"])
def test_a_folder_that_others_can_change_is_not_used_and_logged_once(tmp_path: Path, caplog: Any, what: str) -> None:
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
    assert caplog.text.count("the disk cache is not used") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_used(cache: DiskCache, caplog: Any) -> None:
    run, path = run_of(), cache.folder / f"{KEY}.run"
    cache.put(KEY, run)
    os.chown(path, 4711, 4711)
    with caplog.at_level(logging.INFO):
        assert cache.get(KEY, SCHEMA) is None
        assert f"cannot read {path}: it belongs to user 4711, this process to 0" in caplog.text
        os.chown(path, 0, 0)
        assert same(cache.get(KEY, SCHEMA), run)
        os.chown(cache.folder, 4711, 4711)  # after it was used
        assert cache.get(KEY, SCHEMA) is None
        assert cache.put(OTHER, run) is run
    assert caplog.text.count(f"not used: {cache.folder}: it belongs to user 4711, this process to 0") == 1
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]


def test_settings_choose_the_folder_and_turn_the_cache_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_without_a_home_the_folder_is_in_the_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert DiskCache("", 1).folder == Path(tempfile.gettempdir()) / f"tidemill-{os.geteuid()}"


def test_runs_that_grow_by_searches_count_with_their_new_size() -> None:
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
