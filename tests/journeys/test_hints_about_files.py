"""Every hint about files in sinks is carried out here: then a reader of the sink finds what the repository says."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.journeys.compacting import sink_of, six
from tests.journeys.shop import arrive, files, opened, world
from tests.world import run

KINDS = ["json", "parquet", "json in folders"]


class Shop:
    """A repository, its sink, and a backup of it that is restored."""

    def __init__(self, folder: Path, kind: str = "json") -> None:
        self.folder, self.kind = folder, kind

    def open(self, root: str = "root", out: str = "out") -> tm.Repository:
        sink = sink_of(self.folder, self.kind)
        return opened(self.folder, root, sink if out == "out" else sink.at(str(self.folder / out)))

    def run(self, *names: str) -> list[int]:
        arrive(self.folder, *names)
        return run(self.open())

    def back_up(self) -> None:
        shutil.copytree(self.folder / "root", self.folder / "backup")

    def restore(self) -> None:
        shutil.rmtree(self.folder / "root")
        (self.folder / "backup").rename(self.folder / "root")

    def rows(self, out: str = "out") -> Counter[tuple[Any, ...]]:
        """The rows that a plain reader finds: key, count, `_batch_id`."""
        ending = "parquet" if self.kind == "parquet" else "json"
        if not any((self.folder / out).rglob(f"*.{ending}")):
            return Counter()
        place = f"read_{ending}('{self.folder}/{out}/**/*.{ending}', hive_partitioning=true)"
        return Counter(duckdb.sql(f"SELECT k, n, _batch_id FROM {place}").fetchall())

    def outputs(self, root: str = "root") -> Counter[tuple[Any, ...]]:
        return Counter((row["k"], row["n"], row["_batch_id"]) for row in self.open(root).outputs().to_pylist())

    def hints(self, deep: bool = False) -> dict[Path, str]:
        """What `verify` says of each file in the sink."""
        problems = self.open().verify(deep=deep).problems
        assert all(one.object.startswith("file://") for one in problems)
        return {Path(one.object.removeprefix("file://")): one.hint for one in problems}

    def carry_out(self, hints: dict[Path, str]) -> None:
        """Move the files that are to be moved, and then call every command that the hints name."""
        done = set()
        for path, hint in hints.items():
            assert not re.search(r"\b(delete|remove) ", hint), hint
            if "out of the folder" in hint:
                (self.folder / "kept").mkdir(exist_ok=True)
                path.rename(self.folder / "kept" / path.name)
            done |= set(re.findall(r"`tidemill ([^`]+)`", hint))
        for command in sorted(done, reverse=True):
            if command == "maintain":
                self.open().maintain()
            else:
                [(since, sink)] = re.findall(r"^publish --from (\d+) --sink (\w+)$", command)
                self.open().publish(int(since), sink=sink)


@pytest.fixture(params=KINDS)
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(tmp_path, request.param)


def test_files_of_lost_versions_are_moved_and_made_again(shop: Shop) -> None:
    shop.run("a", "b")
    shop.back_up()
    shop.run("c", "d")
    shop.restore()
    with pytest.raises(tm.CorruptState, match="has 2 files of versions after 1") as caught:
        run(shop.open())
    assert "`tidemill verify` says of each file what to do" in caught.value.hint
    hints = shop.hints()
    assert len(hints) == 2
    shop.carry_out(hints)
    assert run(shop.open()) == [2, 3]
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def test_a_joined_file_that_alone_has_all_rows_is_moved_once_they_can_be_published_again(shop: Shop) -> None:
    six(shop.folder, shop.kind)
    shop.back_up()
    shop.run("g")
    shop.open().maintain(compact_sinks=True)
    before = shop.rows()
    shop.restore()
    problems = shop.open().verify().problems
    assert any("no other file of sink `counts` has the rows of versions " in one.affects for one in problems)
    hints = shop.hints()
    assert any("keep it until `tidemill publish --from " in hint for hint in hints.values())
    shop.carry_out(hints)
    assert shop.rows() == shop.outputs() and shop.hints() == {}
    assert run(shop.open()) == [6]
    assert shop.rows() == shop.outputs() == before


def test_a_joined_file_with_rows_that_are_no_longer_kept_stays_where_it_is(shop: Shop) -> None:
    six(shop.folder, shop.kind).maintain(keep_versions=2)
    shop.back_up()
    shop.run("g")
    shop.open().maintain(compact_sinks=True)
    before = shop.rows()
    shop.restore()
    alone = [
        one for one in shop.open().verify().problems if one.affects.endswith("the repository no longer keeps them")
    ]
    assert alone
    assert all("without one, keep the file, and give the sink another path" in one.hint for one in alone)
    assert run(shop.open(out="new")) == [6]
    assert (shop.rows(), shop.rows("new")) == (before, Counter([("g", 1, 6)]))


def test_a_joined_file_whose_rows_lost_their_objects_stays_where_it_is(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    six(tmp_path)
    shop.back_up()
    shop.open().maintain(compact_sinks=True)
    shop.restore()
    for path in (tmp_path / "root/shop/output").rglob("0000000003-*"):
        path.unlink()
    [hint] = [one.hint for one in shop.open().verify().problems if one.object.startswith("file://")]
    assert "without one, keep the file" in hint


def test_a_file_that_cannot_be_read_stays_where_it_is(shop: Shop) -> None:
    shop.run("a")
    shop.back_up()
    shop.run("b")
    shop.restore()
    [path] = shop.hints()
    path.write_bytes(b"garbage")
    [problem] = shop.open().verify().problems
    assert problem.affects == "its rows cannot be read, so it may be the only file that has them"
    assert "keep the file" in problem.hint


def test_a_file_of_another_history_of_a_version_is_moved(shop: Shop) -> None:
    shop.run("a")
    shop.back_up()
    shop.run("c")
    shop.restore()
    [lost] = shop.hints()
    lost.rename(shop.folder / "lost")
    arrive(shop.folder, "b")
    with dying("create", r"published/main/counts/0000000001\.json$", "before"):
        run(shop.open(), max_batches=1)
    for path in files(shop.folder):
        if "-0000000001-" in path.name:
            path.unlink()
    lost.parent.mkdir(exist_ok=True)
    (shop.folder / "lost").rename(lost)
    if "folders" not in shop.kind:  # only the folders that a version writes to are looked at
        with pytest.raises(tm.CorruptState, match="the commit does not name its content") as caught:
            run(shop.open())
        assert "`tidemill verify` says of each file what to do" in caught.value.hint
    hints = shop.hints()
    assert list(hints) == [lost]
    shop.carry_out(hints)
    run(shop.open())
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def test_a_file_that_was_withdrawn_is_deleted_by_maintain(shop: Shop) -> None:
    six(shop.folder, shop.kind)
    small = {path: path.read_bytes() for path in files(shop.folder)}
    shop.open().maintain(compact_sinks=True)
    for path, data in small.items():
        path.write_bytes(data)
    hints = shop.hints()
    assert set(hints.values()) == {"run `tidemill maintain`, which deletes it"}
    shop.carry_out(hints)
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def test_a_folder_that_was_restored_from_an_older_backup_gets_its_joined_files_first(shop: Shop) -> None:
    six(shop.folder, shop.kind)
    shutil.copytree(shop.folder / "out", shop.folder / "older")
    shop.open().maintain(compact_sinks=True)
    shop.open().rewind(4, "the joined files are withdrawn")
    shutil.rmtree(shop.folder / "out")
    (shop.folder / "older").rename(shop.folder / "out")
    hints = shop.hints()
    assert any(hint.startswith("run `tidemill publish --from 7 --sink counts`, unless ") for hint in hints.values())
    shop.carry_out(hints)
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def test_small_files_stay_in_a_folder_that_has_lost_the_joined_ones(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    six(shop.folder, shop.kind)
    shutil.copytree(shop.folder / "out", shop.folder / "older")
    shop.open().maintain(compact_sinks=True)
    shutil.rmtree(shop.folder / "out")
    (shop.folder / "older").rename(shop.folder / "out")
    before = shop.rows()
    assert shop.open().maintain().strays == {}
    assert shop.run("g") == [7]
    assert shop.rows() == before + Counter([("g", 1, 7)]) == shop.outputs()
    assert "stay, because files of version 6, which show their rows, are missing" in caplog.text
    shop.carry_out(shop.hints())
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def test_an_altered_file_is_moved_and_published_again(shop: Shop) -> None:
    shop.run("a", "b", "c")
    altered = files(shop.folder)[1]
    whole = altered.read_bytes()
    altered.write_bytes(whole[:-1])
    hints = shop.hints()
    assert hints[altered] == "move it out of the folder, and run `tidemill publish --from 1 --sink counts`"
    shop.carry_out(hints)
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}
    altered.write_bytes(whole[:-1])
    for path in (shop.folder / "root/shop/output").rglob("0000000001-*"):
        path.unlink()
    [hint] = [one.hint for one in shop.open().verify().problems if one.object == f"file://{altered}"]
    assert hint == "restore it from a backup: the repository has lost the object with its rows, in version 1"


def test_an_altered_file_of_a_version_that_is_being_published_is_moved(shop: Shop) -> None:
    arrive(shop.folder, "a")
    with dying("create", r"published/main/counts/0000000000\.json$", "before"):
        run(shop.open())
    [path] = files(shop.folder)
    path.write_bytes(b"altered")
    with pytest.raises(tm.CorruptState, match="compare .*: found checksum ") as caught:
        run(shop.open())
    assert caught.value.hint.startswith("move the altered file out of the folder and repeat the command")
    path.rename(shop.folder / "altered")
    run(shop.open())
    assert shop.rows() == shop.outputs() and shop.hints(deep=True) == {}


def elsewhere(shop: Shop, hidden: bool = False, **adopted: bool) -> tm.Repository:
    """Copy the repository to another place, and adopt it there. The old place stays, but is `hidden` meanwhile."""
    shutil.copytree(shop.folder / "root", shop.folder / "there")
    if hidden:
        (shop.folder / "root").rename(shop.folder / "hidden")
    r = world(shop.folder, "there", sink_of(shop.folder, shop.kind)).open(init=False)
    r.adopt("a new disk", **adopted)
    if hidden:
        (shop.folder / "hidden").rename(shop.folder / "root")
    return r


def test_at_the_old_place_of_a_moved_repository_files_are_left_where_they_are(shop: Shop) -> None:
    """The old place could not be reached when the repository was adopted, so it is not fenced."""
    shop.run("a", "b")
    r = elsewhere(shop, hidden=True, moved=True)
    arrive(shop.folder, "c", "d")
    run(r)
    with pytest.raises(tm.TidemillError) as caught:
        run(shop.open())
    assert "leave the files" in str(caught.value)
    assert all(one.startswith("if the repository goes on at another place, leave the") for one in shop.hints().values())
    assert shop.rows() == shop.outputs("there")
    shutil.rmtree(shop.folder / "root")
    assert r.verify(deep=True).problems == []


@pytest.mark.parametrize("way", ["adopt_sink", "replace_sink", "another path"])
def test_a_copy_publishes_beside_the_original_or_instead_of_it_or_elsewhere(shop: Shop, way: str) -> None:
    shop.run("a", "b")
    before = shop.rows()
    r = elsewhere(shop, copy=True)
    arrive(shop.folder, "c")
    with pytest.raises(tm.InvalidInput, match="another repository of pipeline `shop` published") as caught:
        run(r)
    assert way in caught.value.hint
    if way == "another path":
        assert run(shop.open("there", "new")) == [2]
        assert shop.rows() == before and shop.rows() + shop.rows("new") == shop.outputs("there")
    else:
        assert run(r, **{way: True}) == [2]
        assert shop.rows() == shop.outputs("there")
        assert shop.open("there").publish(0) == ([2] if way == "adopt_sink" else [0, 1, 2])
        assert shop.rows() == shop.outputs("there"), "nothing is there twice"
        plan = shop.open("there").rewind(0, "a test", dry_run=True)
        assert plan.stays == ({"counts": [1]} if way == "adopt_sink" else {})
        stays = "sink `counts`: the original's files of version 1 stay"
        assert (stays in plan.lines()) is (way == "adopt_sink")


def test_a_copy_does_not_replace_files_whose_rows_it_no_longer_keeps(shop: Shop) -> None:
    shop.run("a", "b", "c")
    shop.open().maintain(keep_versions=1)
    before = shop.rows()
    r = elsewhere(shop, copy=True)
    arrive(shop.folder, "d")
    with pytest.raises(tm.InvalidInput, match="another repository of pipeline `shop` published") as caught:
        run(r)
    assert "replace" not in caught.value.hint
    with pytest.raises(tm.InvalidInput, match="have the rows of versions 0–1, which the copy no longer keeps"):
        run(r, replace_sink=True)
    assert shop.rows() == before
    assert run(r, adopt_sink=True) == [3]
    assert shop.rows() == before + Counter([("d", 1, 3)])
