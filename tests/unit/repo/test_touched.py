"""Files that were touched after they were read: each is read once more, not by every run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.sources import files as sources

FILES = 3


def opened(folder: Path, overwritten: str = "error") -> tm.Repository:
    p = tm.Pipeline("touched")
    rows = p.read(tm.Files(folder / "in", format="csv", schema="v int", overwritten=overwritten), name="rows")
    rows.groupBy("v").agg(n=tm.count(), name="n")
    return tm.open(p, root=str(folder / "root"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository that has read files, all of which were touched since."""
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        (tmp_path / "in" / f"{number}.csv").write_text(f"{number}\n")
    r = opened(tmp_path)
    r.init()
    r.run(engine="local")
    touch(tmp_path, 1)
    return tmp_path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of all reads for fingerprints."""
    found: list[Any] = []
    real = sources.content_fingerprint
    monkeypatch.setattr(sources, "content_fingerprint", lambda *given: found.append(given) or real(*given))
    return found


def touch(folder: Path, second: int) -> None:
    for number in range(FILES):
        os.utime(folder / "in" / f"{number}.csv", (second, second))


def hint(folder: Path) -> Path:
    return folder / "root/touched/branches/main/touched.json"


def test_touched_files_are_read_by_one_idle_run_and_not_by_the_next(folder: Path, reads: list[Any]) -> None:
    for _ in range(3):
        assert opened(folder).run(engine="local") == []
        assert len(reads) == FILES
    touch(folder, 2)
    for _ in range(2):
        opened(folder).run(engine="local")
        assert len(reads) == 2 * FILES
    (folder / "in" / "9.csv").write_text("9\n")
    assert [one.version for one in opened(folder).run(engine="local")] == [1]
    hint(folder).unlink()
    opened(folder).run(engine="local")
    assert len(reads) == 2 * FILES + 1, "the batch read its own file, and recorded the new times of the others"
    assert not hint(folder).exists()


def test_a_file_that_was_touched_and_then_changed_is_noticed(folder: Path) -> None:
    opened(folder).run(engine="local")
    (folder / "in" / "0.csv").write_text("7\n")
    with pytest.raises(tm.InvalidInput, match="file `0.csv` of source `rows` was modified after it was read"):
        opened(folder).run(engine="local")


def test_a_changed_file_that_is_ignored_is_read_once(folder: Path, reads: list[Any]) -> None:
    (folder / "in" / "0.csv").write_text("7\n")
    for _ in range(3):
        assert opened(folder, "ignore").run(engine="local") == []
    assert len(reads) == FILES


@pytest.mark.parametrize("garbage", [b"", b"[]", b'{"files": 7}', b'{"files": [["rows", "0.csv", "x", 7]]}', b"\xff"])
def test_an_invalid_hint_costs_reading_the_files_again(garbage: bytes, folder: Path, reads: list[Any]) -> None:
    opened(folder).run(engine="local")
    hint(folder).write_bytes(garbage)
    assert opened(folder).run(engine="local") == []
    assert len(reads) == 2 * FILES
    assert opened(folder).verify().problems == []


def test_reading_verbs_write_no_hint(folder: Path) -> None:
    opened(folder).status()
    assert not hint(folder).exists()
