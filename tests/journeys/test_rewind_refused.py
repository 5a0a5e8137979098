"""Rewinds that are refused, of copies, beside a run, and the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.rewound import command, function_of, three
from tests.journeys.shop import PIPELINE, arrive, files, opened, totals, world
from tests.world import World, run
from tidemill.actions.rewind import RewindPlan


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((7, "a test"), "^rewind to version 7: the newest version is 2$"),
        ((-2, "a test"), "^version=-2, expected at least -1, which is before the first batch$"),
        ((True, "a test"), "^version=True, expected a whole number or a tag"),
        ((0, ""), "^rewind: the reason is empty"),
        ((2, "a test"), "^rewind to version 2: this is what the newest version has, so nothing would change$"),
        (("month-end", "a test"), "^unknown tag `month-end`; tags: there is none"),
        (
            (1, "a test", ["b.csv"]),
            "^rewind without `b.csv`: version 1 read it, so its rows are part of the version to",
        ),
        ((0, "a test", ["d.csv"]), "unknown file to leave out `d.csv`"),
        ((0, "a test", [("days", "b.csv")]), "unknown source `days`"),
        ((0, "a test", [3]), "^rewind: found 3, expected a path or a pair of source and path$"),
    ],
)
def test_a_wrong_rewind_changes_nothing(tmp_path: Path, arguments: Any, said: str) -> None:
    r = three(tmp_path)
    before = sorted(path for path in (tmp_path / "root").rglob("*") if path.is_file())
    with pytest.raises(tm.InvalidInput, match=said):
        r.rewind(*arguments)
    assert sorted(path for path in (tmp_path / "root").rglob("*") if path.is_file()) == before
    assert len(files(tmp_path)) == 3


def test_a_rewind_before_the_first_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="pipeline `shop` has no version yet"):
        opened(tmp_path).rewind(-1, "a test")


def test_a_version_that_is_no_longer_kept_cannot_be_restored(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.maintain(keep_versions=1)
    with pytest.raises(
        tm.InvalidInput, match="^rewind to version 0 of branch `main`: it is no longer kept; versions from"
    ):
        r.rewind(0, "a test")
    assert r.head is not None and r.head.version == 2


def test_outputs_that_are_no_longer_kept_cannot_be_published_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.tag("was-right", 2)
    r.rewind(-1, "a mistake", without=["a.csv", "b.csv", "c.csv"])
    r.maintain(keep_versions=1)
    with pytest.raises(
        tm.InvalidInput, match="^rewind: publish again version 0 of branch `main`: it is no longer kept"
    ):
        r.rewind("was-right", "undo")


def test_a_run_at_work_is_fenced_by_a_rewind(tmp_path: Path) -> None:
    three(tmp_path)
    arrive(tmp_path, "d")

    def meanwhile(batch: Any) -> Any:
        if r.head is not None and r.head.version == 2:
            opened(tmp_path).rewind(0, "beside a run")
        return batch

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).map_batches(meanwhile, schema="k string, v int")
        rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(world.out))

    r = world(tmp_path).but(build).open()
    with pytest.raises(tm.Fenced, match="another run is committing to this pipeline"):
        run(r, tasks=1)
    assert r.head is not None and (r.head.version, r.head.kind) == (3, "rewind")
    assert run(opened(tmp_path)) == [4, 5, 6]
    assert totals(opened(tmp_path)) == {"a": 2, "b": 1, "d": 1}


def test_the_command_says_before_what_will_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b", "c")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    rewind = ("rewind", "shop.py:p", "--to", "0", "--without", "b.csv", "--reason", "a bad file")
    status, out, _ = command(capfd, *rewind, "--dry-run")
    assert (status, out.splitlines()) == (
        0,
        [
            "the state becomes that of version 0",
            "undone: versions 1–2",
            "1 file (`c.csv`) will be read again",
            "1 file (`b.csv`) will not be read",
            "sink `counts`: files are deleted: versions 1–2",
            "dry run: nothing was changed",
        ],
    )
    assert len(files(tmp_path)) == 3
    status, out, err = command(capfd, *rewind, "--json")
    assert "undone: versions 1–2" in err
    found = json.loads(out.splitlines()[-1])
    assert (found["versions"], found["undone"], found["waiting"]) == ([3], [1, 2], [["source", "c.csv"]])
    command(capfd, "tag", "shop.py:p", "month-end", "0")
    assert command(capfd, "tag", "shop.py:p")[1] == "month-end  0\n"
    status, out, _ = command(capfd, "log", "shop.py:p", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["version"], one["kind"], one["undone"]) for one in lines] == [
        (3, "rewind", False), (2, "batch", True), (1, "batch", True), (0, "batch", False),
    ]  # fmt: skip
    assert (lines[0]["reason"], lines[0]["restores"], lines[3]["tags"]) == ("a bad file", 0, ["month-end"])
    status, out, _ = command(capfd, "state", "shop.py:p", "--version", "month-end", "--json")
    assert [json.loads(line)["k"] for line in out.splitlines()] == ["a"]
    assert command(capfd, "log", "shop.py:p")[1].count("\n") > 4
    assert command(capfd, "untag", "shop.py:p", "month-end")[1] == "removed tag `month-end`, which named version 0\n"
    status, _, err = command(capfd, "state", "shop.py:p", "--version", "month-end")
    assert (status, "unknown tag or branch `month-end`" in err) == (1, True)


def test_a_copied_repository_cannot_be_rewound_before_it_is_adopted(tmp_path: Path) -> None:
    three(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    with pytest.raises(tm.InvalidInput, match="to write: it was made at"):
        world(tmp_path, "copy").open(init=False).rewind(0, "a test")


def test_a_copy_that_goes_back_leaves_what_the_original_published(tmp_path: Path) -> None:
    three(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copy = world(tmp_path, "copy").open(init=False)
    copy.adopt("a copy", copy=True)
    before = files(tmp_path)
    made = copy.rewind(0, "a test")
    assert (made.withdraws, made.adds) == ({}, {})
    assert files(tmp_path) == before
    assert totals(copy) == {"a": 1}
    copy.rewind(2, "back")
    assert files(tmp_path) == before


def test_a_function_of_a_copy_is_not_called_for_batches_of_the_original(tmp_path: Path) -> None:
    calls: list[Any] = []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, list(withdrawn)))

    arrive(tmp_path, "a", "b")
    r = function_of(tmp_path, fn)
    run(r)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copy = tm.open(r.opened.pipeline, root=str(tmp_path / "copy"))
    copy.adopt("a copy", copy=True)
    calls.clear()
    copy.rewind(0, "a test")
    assert calls == []


def test_files_that_are_gone_and_files_that_were_skipped_are_named_before(tmp_path: Path) -> None:
    r = three(tmp_path)
    arrive(tmp_path, "d")
    r.skip("d.csv", "a test")
    (tmp_path / "in" / "b.csv").unlink()
    found = r.rewind(0, "a test", dry_run=True)
    assert isinstance(found, RewindPlan)
    assert [file.path for file in found.waiting] == ["c.csv", "d.csv"]
    assert [file.path for file in found.gone] == ["b.csv"]
    r.rewind(0, "a test")
    assert r.status().waiting_files == {"source": 2}
