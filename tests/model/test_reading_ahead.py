"""Files that are read while the batch before runs give what they give when the batch reads them itself."""

from __future__ import annotations

import gzip
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.model.test_small_files import done, late_rows, make_files, sums
from tidemill import engines
from tidemill.batch import input
from tidemill.batch.read_ahead import ReadAhead
from tidemill.driver import upcoming
from tidemill.driver.drain import Drain
from tidemill.protocol.records import Split
from tidemill.sources.contract import Block, ReadContext
from tidemill.sources.files import Files

SCHEMA = "k string, n int"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a batch got from the thread that reads ahead. There are two cores, and no file is small."""
    found: list[str] = []
    take = ReadAhead.take

    def noted(self: ReadAhead, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block] | None:
        for begun in self._begun.values():  # so that it does not depend on which of two threads is faster
            begun.blocks.exception()
        blocks = take(self, split, block_rows, context)
        found.extend([] if blocks is None else [split.path])
        return blocks

    monkeypatch.setattr(ReadAhead, "take", noted)
    monkeypatch.setattr(engines, "_cores", lambda: 2)
    monkeypatch.setattr(upcoming, "SMALL_BYTES", 0)
    monkeypatch.setattr(input, "SMALL_BYTES", 0)
    return found


@pytest.mark.parametrize("make", [sums, late_rows], ids=lambda make: make.__name__)
@pytest.mark.parametrize("files", [1, 3])
def test_reading_ahead_changes_nothing(
    make: Callable[..., tm.Pipeline],
    files: int,
    tmp_path: Path,
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    make_files(folder, random.Random(files), 40)
    several = partial(make, maxFilesPerTrigger=files)
    with monkeypatch.context() as patch:
        patch.setattr(Drain, "_read_ahead", lambda self, plan, engine: None)
        expected = done(several, folder, tmp_path / "alone", 2)
    assert not taken
    found = done(several, folder, tmp_path / "root", 2)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name
    assert len(taken) == len(set(taken)) == 40 - files


def counting(folder: Path, **options: Any) -> tm.Pipeline:
    """Counts rows by key, a file a batch."""
    p = tm.Pipeline("ahead")
    options = {"format": "csv", "maxFilesPerTrigger": 1, **options}
    p.read(tm.Files(str(folder), schema=SCHEMA, **options)).groupBy("k").agg(n=tm.sum("n"), name="sums")
    return p


def csv_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.csv").write_text(f"a,{number}\nb,1\n")


def test_a_replay_reads_ahead_and_leaves_the_same_state(tmp_path: Path, taken: list[str]) -> None:
    csv_files(tmp_path / "in", 6)
    repository = tm.open(counting(tmp_path / "in"), root=str(tmp_path / "root"))
    repository.init()
    repository.run(engine="local")
    assert taken == [f"{number}.csv" for number in range(1, 6)]
    taken.clear()
    made = repository.replay(0, into="again", engine="local")
    assert (len(made.versions), taken) == (6, [f"{number}.csv" for number in range(1, 6)])
    again = tm.open(counting(tmp_path / "in"), root=str(tmp_path / "root"), branch="again")
    assert again.state("sums") == repository.state("sums")


def test_an_error_comes_from_the_batch_that_reads_the_file(tmp_path: Path, taken: list[str]) -> None:
    csv_files(tmp_path / "in", 4)
    (tmp_path / "in" / "2.csv").write_text("a,much\n")
    repository = tm.open(counting(tmp_path / "in", mode="FAILFAST"), root=str(tmp_path / "root"))
    repository.init()
    with pytest.raises(tm.InvalidInput, match=r"`2\.csv`"):
        repository.run(engine="local")
    assert (repository.head.version, taken) == (1, ["1.csv"])
    (tmp_path / "in" / "2.csv").unlink()
    with pytest.raises(tm.InvalidInput, match=r"2\.csv"):
        repository.run(engine="local")


def test_a_file_that_is_replaced_after_it_was_read_counts_as_it_was_planned(tmp_path: Path, taken: list[str]) -> None:
    csv_files(tmp_path / "in", 3)
    repository = tm.open(counting(tmp_path / "in"), root=str(tmp_path / "root"))
    repository.init()

    def replace(progress: Any) -> None:
        """Wait until file 1 was read, or has had time for it, then replace it."""
        if progress.version == 0:
            waited = time.monotonic()
            while any("read-ahead" in one.name for one in threading.enumerate()) and time.monotonic() < waited + 60:
                time.sleep(0.01)
            (tmp_path / "in" / "1.csv").write_text("a,1000\n" * 3)

    repository.run(engine="local", on_progress=replace)
    assert taken == ["1.csv", "2.csv"]
    assert sorted((row["k"], row["n"]) for row in repository.state("sums").to_pylist()) == [("a", 3), ("b", 3)]
    with pytest.raises(tm.InvalidInput, match="modified after it was read"):
        repository.run(engine="local")


def test_one_core_one_task_and_spark_read_nothing_ahead(
    tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    csv_files(tmp_path / "in", 4)
    repository = tm.open(counting(tmp_path / "in"), root=str(tmp_path / "root"))
    repository.init()
    repository.run(engine="local", tasks=1, max_batches=2)
    monkeypatch.setattr(engines, "_cores", lambda: 1)
    repository.run(engine="local")
    assert (repository.head.version, taken) == (3, [])


def split_of(folder: Path, name: str) -> tuple[Files, Split]:
    source = Files(folder, format="csv", schema=SCHEMA)
    files = {file.path: file for file in source.discover("rows")}
    (split,) = source.splits([files[name]])
    return source, split


def test_only_what_the_plan_says_is_taken_and_only_once(tmp_path: Path) -> None:
    csv_files(tmp_path / "in", 1)
    source, split = split_of(tmp_path / "in", "0.csv")
    context = ReadContext()

    def begun() -> ReadAhead:
        return ReadAhead({"rows": source}, [(split, context)], 10)

    ahead = begun()
    ahead._begun["rows", "0.csv"].blocks.result()
    blocks = ahead.take(split, 10, context)
    assert blocks is not None
    assert [block.rows.num_rows for block in blocks] == [2]
    assert ahead.take(split, 10, context) is None
    other = Split(split.source, split.path, "other", split.size, split.modified_ms)
    assert begun().take(other, 10, context) is None
    assert begun().take(split, 11, context) is None
    assert begun().take(split, 10, ReadContext(columns=frozenset("k"))) is None


def test_of_a_large_file_only_the_first_blocks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv.gz").write_bytes(gzip.compress(b"k,1\n" * 100_000))
    source, split = split_of(tmp_path / "in", "0.csv.gz")
    read: list[int] = []
    monkeypatch.setattr("tidemill.batch.read_ahead.MOST_BYTES", 100_000)
    plain = Files.read

    def noted(self: Files, *arguments: Any) -> Iterator[Block]:
        for block in plain(self, *arguments):
            read.append(block.rows.num_rows)
            yield block

    monkeypatch.setattr(Files, "read", noted)
    ahead = ReadAhead({"rows": source}, [(split, ReadContext())], 1000)
    ahead._begun["rows", "0.csv.gz"].blocks.result()
    assert 1 <= len(read) < 20
    blocks = ahead.take(split, 1000, ReadContext())
    assert blocks is not None
    assert sum(block.rows.num_rows for block in blocks) == 100_000


def test_small_files_and_too_many_bytes_are_left_to_the_batch(tmp_path: Path) -> None:
    csv_files(tmp_path / "in", 12)
    p = counting(tmp_path / "in", maxFilesPerTrigger=12)
    job = tm.open(p, root=str(tmp_path / "root")).context.job
    ((name, source),) = job.sources.items()
    splits = source.splits(source.discover(name))

    def begun(sizes: list[int]) -> int:
        made = [Split(one.source, one.path, one.etag, size, 0) for one, size in zip(splits, sizes, strict=False)]
        return len(upcoming.begin_reading(job, {}, made, 10)._begun)

    assert begun([100] * 12) == 0
    assert begun([100]) == 1
    assert begun([2**20] * 12) == upcoming.MOST_FILES
    assert begun([2**24] * 12) == 2
    assert begun([2**26]) == 0


def test_a_source_that_cannot_be_split_ahead_fails_when_it_is_planned(
    tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    csv_files(tmp_path / "in", 3)
    repository = tm.open(counting(tmp_path / "in"), root=str(tmp_path / "root"))
    repository.init()
    plain = Files.splits

    def failing(self: Files, files: Any, *arguments: Any) -> Any:
        if files[0].path == "1.csv":
            raise RuntimeError("no split")
        return plain(self, files, *arguments)

    monkeypatch.setattr(Files, "splits", failing)
    with pytest.raises(RuntimeError, match="no split"):
        repository.run(engine="local")
    assert repository.head.version == 0
    os.utime(tmp_path / "in" / "1.csv")
