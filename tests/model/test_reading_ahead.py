"""Files that are read while the batch before runs give what they give when the batch reads them itself."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.model.test_small_files import done, late_rows, make_files, small, sums
from tests.world import Build, World
from tidemill import engines
from tidemill.batch import input
from tidemill.protocol.records import Split
from tidemill.run import prefetch
from tidemill.run.drain import Drain
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files
from tidemill.sources.text import TextAhead

SCHEMA = "k string, n int"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a batch got from the thread that reads ahead. There are two cores, and no file is small."""
    found: list[str] = []
    reader = TextAhead.reader

    def noted(self: TextAhead, split: Split, files: Any) -> Any:
        made = reader(self, split, files)
        found.extend([] if made is None else [split.path])
        return made

    monkeypatch.setattr(TextAhead, "reader", noted)
    monkeypatch.setattr(engines, "_cores", lambda: 2)
    monkeypatch.setattr(prefetch, "TOGETHER_BYTES", 0)
    monkeypatch.setattr(input, "TOGETHER_BYTES", 0)
    return found


@pytest.mark.parametrize("build", [sums, late_rows])
@pytest.mark.parametrize("files", [1, 3])
def test_reading_ahead_changes_nothing(
    build: Build, files: int, tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small(tmp_path, build, maxFilesPerTrigger=files)
    make_files(world.inbox, random.Random(files), 40)
    with monkeypatch.context() as patch:
        patch.setattr(Drain, "_read_ahead", lambda self, plan, engine: {})
        expected = done(small(tmp_path, build, root="alone", maxFilesPerTrigger=files), 2)
    assert not taken
    found = done(world, 2)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name
    packed = [path.read_bytes().startswith(b"\x1f\x8b") for path in world.inbox.rglob("*.csv")]
    assert len(taken) == len(set(taken)) >= 40 - files - sum(packed) > 20


def summed(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").agg(n=tm.sum("n"), name="sums")


def counting(folder: Path, **options: Any) -> World:
    """Counts rows by key, a file a batch."""
    return World(folder, summed, name="ahead", schema=SCHEMA, **options)


def csv_files(folder: Path, count: int, **options: Any) -> World:
    world = counting(folder, **options)
    for number in range(count):
        world.put(f"{number}", f"a,{number}\nb,1\n")
    return world


def test_a_replay_reads_ahead_and_leaves_the_same_state(tmp_path: Path, taken: list[str]) -> None:
    world = csv_files(tmp_path, 6)
    repository = world.open()
    repository.run(engine="local")
    assert taken == [f"{number}.csv" for number in range(1, 6)]
    taken.clear()
    made = repository.replay(0, into="again", engine="local")
    assert (len(made.versions), taken) == (6, [f"{number}.csv" for number in range(1, 6)])
    assert world.open("again").state("sums") == repository.state("sums")


def test_an_error_comes_from_the_batch_that_reads_the_file(tmp_path: Path, taken: list[str]) -> None:
    world = csv_files(tmp_path, 4, mode="FAILFAST")
    broken = world.put("2", "a,much\n")
    repository = world.open()
    with pytest.raises(tm.InvalidInput, match=r"`2\.csv`"):
        repository.run(engine="local")
    assert (repository.head.version, taken) == (1, ["1.csv", "2.csv"])
    broken.unlink()
    with pytest.raises(tm.InvalidInput, match=r"2\.csv"):
        repository.run(engine="local")


def test_a_file_that_is_replaced_after_it_was_read_is_not_the_planned_one(tmp_path: Path, taken: list[str]) -> None:
    world = csv_files(tmp_path, 3)
    repository = world.open()

    def replace(progress: Any) -> None:
        if progress.version == 0:
            world.put("1", "a,1000\n" * 3)

    with pytest.raises(tm.InvalidInput, match=r"`1\.csv`"):
        repository.run(engine="local", on_progress=replace)
    assert (repository.head.version, taken) == (0, [])


def test_one_core_one_task_and_the_last_batch_read_nothing_ahead(
    tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = csv_files(tmp_path, 5).open()
    begun: list[str] = []
    plain = Files.read_ahead

    def noted(self: Files, splits: Any, *arguments: Any) -> Any:
        begun.extend(split.path for split in splits)
        return plain(self, splits, *arguments)

    monkeypatch.setattr(Files, "read_ahead", noted)
    repository.run(engine="local", tasks=1, max_batches=2)
    repository.run(engine="local", max_batches=1)
    monkeypatch.setattr(engines, "_cores", lambda: 1)
    repository.run(engine="local")
    assert (repository.head.version, taken, begun) == (4, [], [])


def split_of(folder: Path, name: str) -> tuple[Files, Split]:
    source = Files(folder, format="csv", schema=SCHEMA)
    files = {file.path: file for file in source.look("rows")}
    (split,) = source.splits([files[name]])
    return source, split


def begun_at(source: Files, split: Split, block_rows: int = 10, most_bytes: int = 2**20) -> TextAhead:
    (ahead,) = source.read_ahead([split], block_rows, ReadContext(), most_bytes)
    return ahead


def rows_with(source: Files, split: Split, ahead: TextAhead, block_rows: int = 10) -> int:
    context = ReadContext(being_read={(split.source, split.path): ahead})
    return sum(block.rows.num_rows for block in source.read(split, block_rows, context))


def test_only_what_the_plan_says_is_used_and_only_once(tmp_path: Path, taken: list[str]) -> None:
    folder = csv_files(tmp_path, 1).inbox
    source, split = split_of(folder, "0.csv")
    ahead = begun_at(source, split)
    assert [rows_with(source, split, ahead) for _ in range(3)] == [2, 2, 2]
    assert taken == ["0.csv"]
    assert rows_with(source, split, begun_at(source, split), block_rows=1) == 2, "blocks of another size"
    other = Files(folder, format="csv", schema="k string, n long")
    assert rows_with(other, split, begun_at(source, split)) == 2, "another schema"
    assert taken == ["0.csv"]


@pytest.mark.parametrize("kind", ["gzip", "longer", "gone", "folder", "rejected header", "fifo"])
def test_what_cannot_be_read_ahead_well_is_left_to_the_batch(kind: str, tmp_path: Path, taken: list[str]) -> None:
    folder = csv_files(tmp_path, 1).inbox
    path = folder / "0.csv"
    path.write_bytes(gzip.compress(b"k,1\n" * 1000) if kind == "gzip" else b"k,1\n" * 1000)
    source, split = split_of(folder, "0.csv")
    if kind == "rejected header":
        source = Files(folder, format="csv", schema=SCHEMA, header=True)
    if kind in ("longer", "gone", "folder", "fifo"):
        path.unlink()
    if kind == "longer":
        path.write_bytes(b"k,1\n" * 1001)
    if kind == "folder":
        path.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    ahead = begun_at(source, split)
    assert ahead.ahead.take() is None
    if kind == "gzip":
        assert rows_with(source, split, begun_at(source, split)) == 1000
    assert taken == []


def test_nothing_is_read_ahead_but_text_of_a_local_folder(tmp_path: Path, s3_root: str) -> None:
    folder = csv_files(tmp_path, 1).inbox
    _, split = split_of(folder, "0.csv")
    parquet = Files(folder, format="parquet", schema=SCHEMA)
    remote = Files(f"{s3_root}/in", format="csv", schema=SCHEMA)
    for source in (parquet, remote):
        assert source.read_ahead([split], 10, ReadContext(), 2**20) == []
    assert not hasattr(tm.Rows("k string"), "read_ahead")


def test_small_files_and_too_many_bytes_are_left_to_the_batch(tmp_path: Path) -> None:
    job = csv_files(tmp_path, 12, maxFilesPerTrigger=12).open(init=False).opened.job
    ((name, source),) = job.sources.items()
    splits = source.splits(source.look(name))

    def begun(sizes: list[int]) -> int:
        made = [Split(one.source, one.path, one.etag, size, 0) for one, size in zip(splits, sizes, strict=False)]
        return len(prefetch.begin_reading(job, {}, made, 10))

    assert begun([100] * 12) == 0
    assert begun([100]) == 1
    assert begun([2**20] * 12) == prefetch.MOST_FILES
    assert begun([2**23] * 12) == 2
    assert begun([2**25]) == 0
    assert begun([2**20, 2**25, 2**20]) == 1


@pytest.mark.parametrize("method", ["splits", "read_ahead"])
def test_an_error_of_a_source_comes_when_its_batch_runs(
    method: str, tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = csv_files(tmp_path, 3).open()
    plain = getattr(Files, method)

    def failing(self: Files, given: Any, *arguments: Any) -> Any:
        if given[0].path == "1.csv":
            raise RuntimeError("not now")
        return plain(self, given, *arguments)

    monkeypatch.setattr(Files, method, failing)
    if method == "splits":
        with pytest.raises(RuntimeError, match="not now"):
            repository.run(engine="local")
        assert repository.head.version == 0
    else:
        repository.run(engine="local")
        assert (repository.head.version, taken) == (2, ["2.csv"])


def test_of_files_with_many_rows_the_rest_is_read_by_the_batch(tmp_path: Path, taken: list[str]) -> None:
    world = counting(tmp_path)
    for number in range(3):
        world.put(f"{number}", "k,1\n" * 9 + "k,much\n" + "k,2\n" * 990)
    source = Files(world.inbox, format="csv", schema=SCHEMA, mode="PERMISSIVE")
    splits = source.splits(source.look("rows"))
    begun = source.read_ahead(splits, 100, ReadContext(), 5_000)
    found = [rows_with(source, split, one, 100) for split, one in zip(splits, begun, strict=True)]
    assert (found, taken) == ([999] * 3, ["0.csv"]), "the memory is for all of them"
    rejects = [block.rejects for block in source.read(splits[0], 100, ReadContext()) if block.rejects is not None]
    (again,) = source.read_ahead(splits[:1], 100, ReadContext(), 1)
    context = ReadContext(being_read={("rows", "0.csv"): again})
    assert [block.rejects for block in source.read(splits[0], 100, context) if block.rejects is not None] == rejects


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_file_that_changes_after_it_was_checked_is_an_error(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread may get a core late: after the batch has seen that the file is as planned."""
    rows = 1000 if size == "small" else 400_000
    world = counting(tmp_path)
    path = world.put("0", "a,1\n" * rows)
    source, split = split_of(world.inbox, "0.csv")
    reader = TextAhead.reader

    def late(self: TextAhead, *arguments: Any) -> Any:
        path.write_text("b,1\n" * rows)
        os.utime(path, ns=(1, 1))
        begun = TextAhead(self.split, self.files, begun_at(source, split).ahead)
        return reader(begun, *arguments)

    monkeypatch.setattr(TextAhead, "reader", late)
    with pytest.raises(tm.InvalidInput, match="changed after it was planned"):
        rows_with(source, split, begun_at(source, split))


def test_one_thread_reads_all_files(tmp_path: Path) -> None:
    world = counting(tmp_path)
    world.arrive(*["k,1\n" * 200_000] * 8)
    source = Files(world.inbox, format="csv", schema=SCHEMA)
    splits = source.splits(source.look("rows"))
    begun = source.read_ahead(splits, 1000, ReadContext(), 2**30)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert len(begun) == 8
    assert names.count("tidemill-ahead") <= 1
    assert sum(rows_with(source, split, one, 1000) for split, one in zip(splits, begun, strict=True)) == 1_600_000


PROGRAM = """
import os, sys, threading
from tidemill import engines
from tidemill.run import prefetch
from tests.model.test_reading_ahead import counting
from pathlib import Path

engines._cores, prefetch.TOGETHER_BYTES = (lambda: 2), 0
repository = counting(Path(sys.argv[1])).open()

def replace(progress):
    if progress.version == 0:
        os.unlink(sys.argv[1] + "/in/2.csv")
        os.mkfifo(sys.argv[1] + "/in/2.csv")

versions = [one.version for one in repository.run(engine="local", max_batches=2, on_progress=replace)]
print(versions, [one.name for one in threading.enumerate() if one is not threading.main_thread()])
"""


def test_no_thread_of_python_is_left_and_a_pipe_in_place_of_a_file_delays_nothing(tmp_path: Path) -> None:
    csv_files(tmp_path, 4)
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1] []\n", "")


def test_a_forked_process_reads_for_itself(tmp_path: Path) -> None:
    source, split = split_of(csv_files(tmp_path, 1).inbox, "0.csv")
    ahead = begun_at(source, split)
    child = os.fork()
    if child == 0:
        os._exit(0 if ahead.ahead.take() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ahead.ahead.take() is not None


@pytest.mark.servers("start Spark")
def test_a_run_that_moves_to_spark_takes_nothing_along(tmp_path: Path, taken: list[str]) -> None:
    conf = {"tidemill.local_state_bytes": "1", "spark.master": "local[1]"}
    repository = csv_files(tmp_path, 3).open(conf=conf)
    repository.run(engine="auto")
    assert [commit.engine["name"] for commit in repository.commits()] == ["local", "spark", "spark"]
    assert taken == []
