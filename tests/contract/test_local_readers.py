"""A local folder seen by readers that know nothing of Tidemill, while a process writes into it and is killed.

The writer stops itself in the middle of a write: after the content is written, before the file has its name.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.store import folder_store, leftovers, local_files, open_store
from tidemill.store.local import LocalStore

WRITER = """
import os, signal, sys
from pathlib import Path
from tidemill.store import folder_store, local_files
path, verb, name, how, where = sys.argv[1:]
if how == "named":
    local_files._UNNAMED = 0
stop = lambda *_, **__: os.kill(os.getpid(), signal.SIGSTOP)
if where == "before the name":
    os.replace = os.link = stop
else:
    os.fsync = stop
data = Path(path).with_suffix(".bytes").read_bytes()
getattr(folder_store(path), verb)(name, data[: len(data) // 2] if where == "half" else data)
"""
CASES = [
    (verb, name, how, where)
    for verb, name in (("put", "dt=1/new.parquet"), ("create", "dt=1/new.parquet"), ("put", "dt=1/old.parquet"))
    for how in ("unnamed", "named")
    for where in ("half", "before the name")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one Parquet file, and beside it the bytes of another."""
    table = pa.table({"x": range(1000)})
    pq.write_table(table, tmp_path / "lake.bytes")
    store = folder_store(str(tmp_path / "lake"))
    pq.write_table(table, tmp_path / "first.bytes")
    store.put("dt=1/old.parquet", (tmp_path / "first.bytes").read_bytes())
    return tmp_path / "lake"


def rows(folder: Path) -> list[int]:
    """Count the rows in every way of listing a folder: each must show the one whole file."""
    counts = []
    for pattern in ("**/*", "**/*.parquet", "*/*", "**"):
        counts += duckdb.sql(f"SELECT count(*) FROM read_parquet('{folder}/{pattern}')").fetchall()[0]
    for path in (folder, f"{folder}/**/*", f"{folder}/**/*.parquet"):
        counts.append(pl.scan_parquet(path, hive_partitioning=False).collect().height)
    return counts


@pytest.mark.parametrize(("verb", "name", "how", "where"), CASES)
def test_readers_never_see_a_part_of_a_file(folder: Path, verb: str, name: str, how: str, where: str) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), verb, name, how, where])
    try:
        _, status = os.waitpid(writer.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert rows(folder) == [1000] * 7
    finally:
        writer.kill()
        os.kill(writer.pid, signal.SIGCONT)
        writer.returncode = -9
        os.waitpid(writer.pid, 0)
    assert rows(folder) == [1000] * 7
    assert [entry.name for entry in folder_store(str(folder)).list()] == ["dt=1/old.parquet"]
    assert (folder.parent / ".tidemill-tmp").exists() is (how == "named")


def test_temporary_names_are_on_the_file_system_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.stat(tmp_path).st_dev
    other = next((at for at in ("/dev/shm", "/var/tmp") if os.path.isdir(at) and os.stat(at).st_dev != here), None)
    if other is None:
        pytest.skip("this machine has no second file system")
    monkeypatch.setattr(local_files, "_UNNAMED", 0)
    used: list[str] = []
    monkeypatch.setattr(leftovers, "delete", used.append)
    beside, below = f"{other}/.tidemill-tmp", f"{tmp_path}/lake/.tmp"
    LocalStore(f"{tmp_path}/lake", "", (beside, below)).put("a", b"content")
    assert used == [below]
    folder_store(str(tmp_path / "lake")).put("b", b"content")
    assert used == [below, f"{tmp_path}/.tidemill-tmp"]


# leftovers of dead processes


def machine_of(name: str) -> str:
    return name.partition("-")[0]


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def test_a_temporary_file_is_left_if_its_process_died_long_ago(dead: int) -> None:
    machine, digits = machine_of(leftovers.new_name()), "0" * 32
    of_dead, of_living = f"{machine}-{dead}-{digits}", f"{machine}-{os.getpid()}-{digits}"
    elsewhere = f"{'0' * 8}-{dead}-{digits}"
    assert [leftovers.is_left(of_dead, age) for age in (0, HOUR_MS, HOUR_MS + 1)] == [False, False, True]
    for name in (of_living, elsewhere):
        assert [leftovers.is_left(name, age) for age in (0, DAY_MS, DAY_MS + 1)] == [False, False, True]
    assert not leftovers.is_left("data.parquet", 10 * DAY_MS)


def test_the_next_writer_deletes_leftovers_of_killed_ones(tmp_path: Path, dead: int) -> None:
    spare = tmp_path / "lake" / ".tmp"
    spare.mkdir(parents=True)
    machine = machine_of(leftovers.new_name())
    old, new, foreign = (spare / name for name in (f"{machine}-{dead}-{'0' * 32}", leftovers.new_name(), "notes.txt"))
    two_hours_ago = time.time() - 7200
    for path in (old, new, foreign):
        path.write_bytes(b"half")
        os.utime(path, (two_hours_ago, two_hours_ago))
    open_store(str(tmp_path / "lake")).put_hint("head.json", b"{}")
    assert sorted(path.name for path in spare.iterdir()) == sorted([new.name, foreign.name])


def test_a_file_of_another_machine_is_not_taken_for_one_of_a_dead_process(
    dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    name = f"{machine_of(leftovers.new_name())}-{dead}-{'0' * 32}"
    monkeypatch.undo()
    assert not leftovers.is_left(name, HOUR_MS + 1)
