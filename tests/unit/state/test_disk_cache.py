"""The disk cache: intact runs are found, damaged and foreign files are not used, and nothing is ever an error."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.state.cached_runs import KEY, NOTHING, OTHER, SCHEMA, cache, files, run_of, same, small
from tidemill._native import MapSchema, Run, StateMap
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache

__all__ = ["cache", "small"]  # fixtures


def test_a_stored_run_is_found_by_every_process(cache: DiskCache) -> None:
    run = run_of()
    assert cache.get(KEY, SCHEMA) is None
    assert same(cache.put(KEY, run), run)
    assert files(cache) == [f"{KEY}.ok", f"{KEY}.run"]
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert (
        cache.folder / f"{KEY}.run"
    ).stat().st_mode & 0o777 == 0o400  # read-only, so that no program truncates it by accident
    assert same(DiskCache(str(cache.folder), 1 << 30).get(KEY, SCHEMA), run)
    assert cache.get(OTHER, SCHEMA) is None


def test_a_map_of_cached_runs_behaves_like_any_other(cache: DiskCache) -> None:
    states = StateMap.open(SCHEMA, [cache.put(KEY, run_of())], 0, 2**64 - 1)
    one = pa.record_batch([pa.array([5], pa.int64())], names=["k"])
    states.remove_many(one)
    assert (len(states), states.get_many(one)[0].to_pylist()) == (999, [False])
    assert len(states.base().write()) > 0


@pytest.mark.parametrize("place", [0, 100, -30, -20, -1])
def test_a_flipped_bit_is_detected_and_the_file_deleted(cache: DiskCache, caplog: Any, place: int) -> None:
    cache.put(KEY, run_of())
    path = cache.folder / f"{KEY}.run"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    assert cache.get(KEY, SCHEMA) is None
    assert files(cache) == []
    assert "the file is deleted, and the segment is read from the store" in caplog.text


def test_a_file_of_another_format_is_deleted_without_a_warning(cache: DiskCache, caplog: Any) -> None:
    """Another release wrote it. Eight words precede the last 24 bytes, and the first of them is the format."""
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
    assert (record.levelno, "it has another format; the file is deleted" in record.getMessage()) == (logging.INFO, True)


def test_a_truncated_or_empty_file_is_detected(cache: DiskCache) -> None:
    for length in (0, 10, 5000):
        cache.put(KEY, run_of())
        (cache.folder / f"{KEY}.run").chmod(0o600)
        os.truncate(cache.folder / f"{KEY}.run", length)
        assert cache.get(KEY, SCHEMA) is None
        assert files(cache) == []


def test_a_touched_file_is_checked_again_and_a_renamed_one_rejected(cache: DiskCache) -> None:
    run = run_of()
    cache.put(KEY, run)
    os.utime(cache.folder / f"{KEY}.run")
    assert same(cache.get(KEY, SCHEMA), run)
    (cache.folder / f"{KEY}.run").rename(cache.folder / f"{OTHER}.run")
    assert cache.get(OTHER, SCHEMA) is None


def test_the_checked_file_is_the_mapped_file(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_caller_keeps_its_descriptor_and_a_bad_one_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w+b") as file:
        run_of().keep(file.fileno(), KEY)
        assert same(Run.map(SCHEMA, file.fileno(), KEY, verify=True), run_of())
        assert same(Run.map(SCHEMA, file.fileno(), KEY, verify=True), run_of())
    with pytest.raises(OSError, match="a file descriptor cannot be negative"):
        Run.map(SCHEMA, -1, KEY, verify=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        run_of().keep(10**6, KEY)
    with (
        (tmp_path / "empty").open("w+b") as file,
        pytest.raises(tm.CorruptState, match=f"cannot map the cached run `{KEY}`"),
    ):
        Run.map(SCHEMA, file.fileno(), KEY, verify=True)


def test_a_run_with_another_schema_is_not_found(cache: DiskCache) -> None:
    cache.put(KEY, run_of())
    other = MapSchema("m", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("w", pa.string())]))
    assert cache.get(KEY, other) is None


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
