"""Links in the folder of a source: they are followed, also out of the folder, and none of them reads a row twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidemill as tm
from tests.unit.sources.reading import blocks, file, values
from tidemill.sources.contract import ReadContext


def source(folder: Path, **options: object) -> tm.Files:
    return tm.Files(folder, format="csv", schema="k string, n int", **options)  # type: ignore[arg-type]


def test_a_link_out_of_the_folder_is_read_as_its_target(tmp_path: Path) -> None:
    target = file(tmp_path, "elsewhere/1.csv", "a,1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").symlink_to(target)
    assert values(blocks(source(tmp_path / "in"))) == [("a", 1)]


def test_a_target_that_changes_is_a_file_that_changes(tmp_path: Path) -> None:
    target = file(tmp_path, "elsewhere/1.csv", "a,1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").symlink_to(target)
    declared = source(tmp_path / "in")
    (split,) = declared.splits(declared.look("source"))
    target.write_text("a,22\n")
    with pytest.raises(tm.InvalidInput, match=r"a\.csv.*the file changed after it was planned"):
        list(declared.read(split, 10, ReadContext()))


def test_a_link_to_nothing_is_no_file_until_its_target_is_there(tmp_path: Path) -> None:
    file(tmp_path, "in/a.csv", "a,1\n")
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "later.csv")
    assert values(blocks(source(tmp_path / "in"))) == [("a", 1)]
    file(tmp_path, "later.csv", "b,2\n")
    assert values(blocks(source(tmp_path / "in"))) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("recursive", [False, True])
def test_a_folder_linked_into_itself_has_each_row_once(
    tmp_path: Path, recursive: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file(tmp_path, "a.csv", "a,1\n")
    file(tmp_path, "sub/b.csv", "b,2\n")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    found = values(blocks(source(tmp_path, recursiveFileLookup=recursive)))
    assert found == ([("a", 1), ("b", 2)] if recursive else [("a", 1)])
    assert len(caplog.records) == recursive


def test_a_folder_that_the_source_does_not_read_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "d=1/b.csv", "lost+found/c.csv", ".hidden/d.csv", "_e/e.csv"):
        file(tmp_path, name, "a,1\n")
    opened: list[str] = []
    real = os.scandir

    def scandir(path: str) -> object:
        opened.append(os.path.relpath(path, tmp_path))
        if "lost+found" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = tm.Files(tmp_path, format="csv", schema="k string, n int, d int").look("source")
    assert [one.path for one in found] == ["a.csv", "d=1/b.csv"]
    assert opened == [".", "d=1"]
    with pytest.raises(tm.StoreUnavailable, match=r"lost\+found"):
        source(tmp_path, recursiveFileLookup=True).look("source")
