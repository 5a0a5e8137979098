"""A repository knows its place, its sources and its past: whatever moved is refused until `adopt` confirms it."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World, run, state
from tidemill.cli.main import main
from tidemill.pipeline.load import load

CODE = """
import tidemill as tm

p = tm.Pipeline("shop")
rows = p.read(tm.Files({source!r}, format="json", schema="k string", recursiveFileLookup=True, {more}))
rows.groupBy("k").agg(n=tm.count(), name="n").write(tm.Json({sink!r}))
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with two files, and the code of a pipeline that counts them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # versions of the code may have one size and one second
    for name in ("a", "b"):
        (tmp_path / "in" / "dt=2024").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "dt=2024" / f"{name}.json").write_text('{"k": "x"}\n')
    return tmp_path


def opened(shop: Path, root: str = "root", source: str = "in", more: str = "maxFilesPerTrigger=1") -> tm.Repository:
    text = CODE.format(source=str(shop / source), sink=str(shop / "out"), more=more)
    (shop / "shop.py").write_text(text)
    return tm.open(load("shop.py:p"), root=str(shop / root))


def counts(r: tm.Repository) -> dict[str, int]:
    return state(r, "n")


def published(shop: Path) -> list[str]:
    return sorted(path.name for path in (shop / "out").rglob("*.json"))


def refused(act, *words: str, kind: type[Exception] = tm.InvalidInput) -> None:
    with pytest.raises(kind) as caught:
        act()
    for word in words:
        assert word in str(caught.value), str(caught.value)


# the root


def test_a_copied_repository_is_read_but_not_written_until_it_is_adopted(shop, caplog):
    first = opened(shop)
    first.init()
    run(first, max_batches=1)
    shutil.copytree(shop / "root", shop / "copy")
    copy = opened(shop, "copy")
    for act in (copy.run, copy.sweep):
        refused(lambda act=act: act(engine="local"), "made at `file://", "/shop`", "--copy")
    refused(copy.init, "--copy")
    refused(lambda: copy.replan("x"), "--copy")
    refused(lambda: copy.skip("dt=2024/b.json", "x"), "--copy")
    with caplog.at_level(logging.WARNING):
        assert counts(copy) == {"x": 1}
    assert "can be read only" in caplog.text
    assert copy.head.version == 0


def test_an_adopted_copy_gets_a_uuid_of_its_own_and_both_go_on(shop):
    first = opened(shop)
    first.init()
    run(first, max_batches=1)
    shutil.copytree(shop / "root", shop / "copy")
    copy = opened(shop, "copy")
    refused(copy.adopt, "whether it moved or is a copy")
    refused(lambda: copy.adopt(moved=True, copy=True), "both moved and copy")
    refs = copy.adopt("for a test", copy=True)
    assert (refs.uuid != first.init().uuid, refs.uuids) == (True, [first.init().uuid, refs.uuid])
    assert run(first) == [1]
    assert counts(first) == {"x": 2}
    assert opened(shop, "copy").head.version == 0


def test_a_moved_repository_keeps_its_uuid(shop):
    first = opened(shop)
    uuid = first.init().uuid
    run(first, max_batches=1)
    (shop / "root").rename(shop / "moved")
    moved = opened(shop, "moved")
    assert moved.adopt(moved=True).uuid == uuid
    assert run(moved) == [1]
    assert (counts(moved), len(published(shop))) == ({"x": 2}, 2)
    refused(lambda: moved.adopt(moved=True), "nothing to adopt")


def test_the_root_may_be_spelled_in_any_way(shop):
    opened(shop).init()
    (shop / "link").symlink_to(shop / "root")
    for root in ("root/../root", "link", "root/"):
        run(opened(shop, root), max_batches=1)
    p = opened(shop)
    assert run(tm.open(p.opened.pipeline, root="root")) == []
    assert run(tm.open(p.opened.pipeline, root=f"file://{shop}/root")) == []


def test_adopt_says_what_it_will_do_and_does_nothing_in_a_dry_run(shop, capsys):
    opened(shop).init()
    (shop / "root").rename(shop / "moved")
    opened(shop, "moved")
    call = ["adopt", "shop.py:p", "--root", "moved", "--moved"]
    assert main([*call, "--dry-run"]) == 0
    assert f"repository file://{shop}/root/shop -> file://{shop}/moved/shop" in capsys.readouterr().out
    assert main(["run", "shop.py:p", "--root", "moved", "--engine", "local"]) == 1
    assert main([*call, "--reason", "a new disk"]) == 0
    assert main(["run", "shop.py:p", "--root", "moved", "--engine", "local"]) == 0


# sources


SAME_FILES = [
    ("in", "in/dt=2024"),
    ("in/dt=2024", "in"),
    ("in/dt=2024/a.json", "in"),
    ("in", "in/dt=2024/a.json"),
]


@pytest.mark.parametrize(("before", "after"), SAME_FILES)
def test_a_source_that_would_read_files_twice_from_another_folder_is_refused(shop, before, after):
    first = opened(shop, source=before)
    first.init()
    run(first)
    other, once = opened(shop, source=after), counts(first)["x"]
    refused(lambda: run(other), "would read file", "again: its folder was", "adopt --source source")
    assert counts(other) == {"x": once}
    other.adopt("read them again", sources=["source"])
    run(other)
    assert counts(other)["x"] > once
    assert run(opened(shop, source=after)) == []
    refused(lambda: opened(shop, source=after).adopt("again", sources=["source"]), "nothing to adopt")


def test_a_source_that_comes_back_to_a_part_of_an_earlier_folder_is_refused(shop):
    first = opened(shop, source="in")
    first.init()
    run(first)
    (shop / "elsewhere").mkdir()
    (shop / "elsewhere" / "z.json").write_text('{"k": "z"}\n')
    run(opened(shop, source="elsewhere"))
    back, before = opened(shop, source="in/dt=2024"), counts(first)
    refused(lambda: run(back), "would read file", "again: its folder was", "adopt --source source")
    assert counts(back) == before
    assert back.head.sources["source"] == {
        "uri": f"file://{shop}/elsewhere", "former": [f"file://{shop}/in"], "files": {"recursive": True}
    }  # fmt: skip


def test_a_folder_that_moved_with_its_files_is_not_read_again(shop):
    first = opened(shop)
    first.init()
    run(first)
    (shop / "in").rename(shop / "moved")
    (shop / "moved" / "c.json").write_text('{"k": "y"}\n')
    other = opened(shop, source="moved")
    run(other)
    assert counts(other) == {"x": 2, "y": 1}


# overwritten files


def test_a_file_that_was_only_touched_or_copied_is_the_same_file(shop):
    r = opened(shop)
    r.init()
    run(r)
    file = shop / "in" / "dt=2024" / "a.json"
    os.utime(file, (1_000_000, 1_000_000))
    assert run(opened(shop)) == []
    (shop / "in" / "c.json").write_text('{"k": "y"}\n')
    r = opened(shop)
    run(r)
    assert counts(r) == {"x": 2, "y": 1}
    [row] = [row for row in r.opened.ledger(r.head).map.scan().to_pylist() if row["path"].endswith("a.json")]
    assert row["modified_ms"] == 1_000_000_000, "the next batch records the new time"


@pytest.mark.parametrize(("overwritten", "expected"), [("error", None), ("new", 3), ("ignore", 2)])
def test_a_file_with_other_bytes_is_an_error_new_or_ignored(shop, overwritten, expected):
    r = opened(shop)
    r.init()
    run(r)
    file = shop / "in" / "dt=2024" / "a.json"
    stat = file.stat()
    file.write_text('{"k": "y"}\n')
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    other = opened(shop, more=f"overwritten={overwritten!r}")
    if expected is None:
        refused(lambda: run(other), "`dt=2024/a.json`", "same size, other content")
    else:
        run(other)
        assert sum(counts(other).values()) == expected


# skip


def test_a_file_that_waits_is_skipped_and_never_read(shop):
    r = opened(shop)
    r.init()
    made = r.skip("dt=2024/a.json", "test data")
    assert (made.kind, made.version, made.reason) == ("skip", 0, "test data")
    assert [(one.source, one.path) for one in made.skipped] == [("source", "dt=2024/a.json")]
    run(r)
    assert counts(r) == {"x": 1}
    refused(lambda: r.skip("dt=2024/a.json", "again"), "version 0 skipped it already")
    refused(lambda: r.skip("dt=2024/b.json", "too late"), "version 1 has read it")
    refused(lambda: r.skip("dt=2024/z.json", "unknown"), "unknown file to skip", "dt=2024/")
    refused(lambda: r.skip("dt=2024/b.json", " "), "the reason is empty")
    refused(lambda: r.skip(3, "a number"), "skip: found 3, expected a path or a pair of source and path")
    refused(lambda: r.skip(("a", "b", "c"), "three"), "expected a path or a pair")
    os.utime(shop / "in" / "dt=2024" / "b.json", (0, 0))
    refused(lambda: r.skip("dt=2024/b.json", "touched"), "version 1 has read it")
    assert r.head.rows["_ledger"] == {"files": 2}


def test_skipping_a_file_of_the_open_plan_ends_the_plan(shop):
    (shop / "in" / "dt=2024" / "a.json").write_text("not json\n")
    r = opened(shop, more="maxFilesPerTrigger=2")
    r.init()
    refused(lambda: run(r), "`dt=2024/a.json`")
    assert r.opened.log.plan(0) is not None
    r.skip("dt=2024/a.json", "not JSON")
    run(r)
    assert (counts(r), r.head.version) == ({"x": 1}, 1)


def test_a_file_of_several_sources_is_skipped_by_source(shop):
    def build(p, world):
        both = world.read(p, "one").unionByName(world.read(p, "two"))
        both.groupBy("k").agg(n=tm.count(), name="n")

    r = World(shop, build, format="json", schema="k string", recursiveFileLookup=True, maxFilesPerTrigger=None).open()
    refused(lambda: r.skip("dt=2024/a.json", "x"), "several sources have this file: `one`, `two`")
    r.skip(("two", "dt=2024/a.json"), "x")
    run(r)
    assert counts(r) == {"x": 3}


def test_skip_says_what_it_will_do(shop, capsys):
    opened(shop).init()
    call = ["skip", "shop.py:p", "dt=2024/a.json", "--root", "root", "--reason", "test data"]
    assert main([*call, "--dry-run"]) == 0
    assert "file `dt=2024/a.json` of source `source` (11 bytes) will not be read" in capsys.readouterr().out
    assert opened(shop).head is None
    assert main(call) == 0
    assert "skipped `dt=2024/a.json` of source `source` in version 0: test data" in capsys.readouterr().out
    assert opened(shop).head.kind == "skip"


def test_skip_of_an_overwritten_file_says_that_its_earlier_rows_stay(shop, capsys):
    r = opened(shop)
    r.init()
    run(r)
    file = next(shop.rglob("dt=2024/a.json"))
    file.write_text(file.read_text() + "\n" + file.read_text())
    refused(lambda: run(r), "was modified after it was read", "`tidemill skip`")
    assert main(["skip", "shop.py:p", "dt=2024/a.json", "--root", "root", "--reason", "changed"]) == 0
    assert "will not be read; rows that version 0 read from its earlier content stay" in capsys.readouterr().err
    assert run(r) == []


def test_the_end_of_input_at_the_question_declines_a_correction(shop, capsys, monkeypatch):
    opened(shop).init()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["skip", "shop.py:p", "dt=2024/a.json", "--root", "root", "--reason", "test data"]) == 3
    assert "nothing was changed" in capsys.readouterr().out
    assert opened(shop).head is None


def test_a_dry_run_is_marked_in_the_result(shop, capfd):
    opened(shop).init()
    call = ["skip", "shop.py:p", "dt=2024/a.json", "--root", "root", "--reason", "test data", "--dry-run", "--json"]
    assert main(call) == 0
    assert json.loads(capfd.readouterr().out)["dry_run"] is True


# the past


def lose(shop: Path, *patterns: str) -> None:
    for pattern in patterns:
        for path in (shop / "root" / "shop").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    "lost",
    [
        ["branches/main/head.json", "branches/main/commits/000000000[01].json"],
        ["branches/main/head.json", "branches/main/commits/0000000000.json"],
        ["branches/main/commits/*.json"],
        ["branches/main/head.json", "branches/main/commits/*.json"],
        ["branches"],
        ["branches", "output"],
        ["branches", "output", "published"],
    ],
)
def test_a_log_that_lost_its_commits_is_never_version_0_again(shop, lost):
    r = opened(shop)
    r.init()
    (shop / "in" / "c.json").write_text('{"k": "z"}\n')
    run(r)
    before = published(shop)
    lose(shop, *lost)
    r = opened(shop)
    refused(lambda: run(r), "is missing, but", kind=tm.CorruptState)
    refused(r.init, "is missing, but", kind=tm.CorruptState)
    refused(lambda: r.head, "is missing, but", kind=tm.CorruptState)
    assert published(shop) == before


@pytest.mark.parametrize("also", [[], ["branches"], ["branches", "output", "quarantine", "published"]])
def test_init_is_refused_where_a_repository_was(shop, also):
    r = opened(shop)
    r.init()
    run(r)
    lose(shop, "refs", *also)
    refused(opened(shop).init, "refs/0000000000.json` is missing, but", kind=tm.CorruptState)
    assert not list((shop / "root").rglob("refs/*"))


def test_a_first_batch_that_failed_is_no_sign_of_a_loss(shop):
    (shop / "in" / "dt=2024" / "a.json").write_text("not json\n")
    r = opened(shop)
    r.init()
    refused(lambda: run(r), "`dt=2024/a.json`")
    (shop / "in" / "dt=2024" / "a.json").write_text('{"k": "x"}\n')
    r = opened(shop)
    r.replan("corrected")
    run(r)
    assert counts(r) == {"x": 2}
