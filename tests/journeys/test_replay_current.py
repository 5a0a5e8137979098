"""`replay(files="current")`: files that are gone or have changed are named, and the branch can be promoted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.journeys.place import Place, sums
from tests.world import run
from tidemill.branches.inputs import RecordedFile
from tidemill.cli.main import main

GONE, CHANGED = RecordedFile("source", "3.csv", 1), RecordedFile("source", "2.csv", 0)
NAMES = {"left_out": [{"source": "source", "path": "3.csv", "version": 1}]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Three versions; then 3.csv goes, 2.csv gets another row, and 4.csv is only touched."""
    made = Place(tmp_path)
    made.arrive("1", "2", "3", "4", "5")
    assert run(made.open()) == [0, 1, 2]
    (tmp_path / "in/3.csv").rename(tmp_path / "3.csv")
    made.put("2", "k0,100\n")
    (tmp_path / "in/4.csv").touch()
    made.files |= {"2": [("k0", 100)]}
    return made


def without_3(place: Place) -> dict[str, int]:
    return place.sums(without=("3",))


def test_the_report_names_what_is_gone_and_what_changed(place: Place) -> None:
    r = place.open()
    made = r.replay(0, into="fix", engine="local", files="current")
    assert (made.left_out, made.changed) == ([GONE], [CHANGED])
    skipped = [(commit, one.path) for commit in place.open("fix").commits() for one in commit.skipped]
    assert [(commit.replays and commit.replays.version, path) for commit, path in skipped] == [(1, "3.csv")]
    again = r.replay(0, into="fix", engine="local")
    assert (again.replayed, again.left_out, again.changed) == ([], [], [])


def test_a_branch_without_a_file_that_is_gone_is_promoted_and_the_file_is_named(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", files="current")
    found = r.check(against="fix").against
    assert (found.refused, found.left_out) == (None, [GONE])
    r.promote("fix")
    assert sums(r) == without_3(place)
    place.arrive("6")
    assert run(place.open()) == [4]
    assert sums(place.open()) == without_3(place)
    assert place.open().verify(deep=True).problems == []


def test_a_file_that_appears_again_after_the_promotion_is_treated_as_a_skipped_one(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", files="current")
    r.promote("fix")
    (place.folder / "3.csv").rename(place.folder / "in/3.csv")
    os.utime(place.folder / "in/3.csv", (1, 1))
    assert run(place.open()) == [], "the same bytes"
    place.put("3", "k0,3\n")
    with pytest.raises(tm.InvalidInput, match=r"file `3.csv` of source `source` was modified after it was skipped"):
        run(place.open())
    place.open().skip("3.csv", "a test")
    assert run(place.open()) == []
    assert sums(place.open()) == without_3(place)


def test_a_batch_whose_files_are_all_gone_is_repeated_without_a_row(place: Place) -> None:
    (place.folder / "in/5.csv").unlink()
    r = place.open()
    made = r.replay(0, into="fix", engine="local", files="current")
    assert made.versions == [0, 1, 2] and RecordedFile("source", "5.csv", 2) in made.left_out
    r.promote("fix")
    assert sums(r) == place.sums(without=("3", "5"))
    assert run(place.open()) == []


def test_a_replay_that_died_after_its_plan_still_records_what_is_gone(place: Place) -> None:
    with dying("create", r"fix-1/commits/0000000001\.json$", "before"):
        place.open().replay(0, into="fix", engine="local", files="current")
    (place.folder / "3.csv").rename(place.folder / "in/3.csv")
    r = place.open()
    made = r.replay(0, into="fix", engine="local", files="current")
    assert made.left_out == [GONE], "the plan was made without it"
    r.promote("fix")
    assert run(place.open()) == [] and sums(place.open()) == without_3(place)


def test_a_replay_through_the_promotion_leaves_the_file_out_again(place: Place) -> None:
    place.open().replay(0, into="one", engine="local", files="current")
    place.open().promote("one")
    (place.folder / "3.csv").rename(place.folder / "in/3.csv")
    r = place.open(factor=2)
    made = r.replay(0, into="two", engine="local")
    assert made.left_out == [], "they are the plans of the promoted branch"
    assert r.check(against="two").against.left_out == [GONE]
    r.promote("two")
    assert run(r) == []
    assert sums(r) == {key: 2 * n for key, n in without_3(place).items()}


def test_a_file_that_a_rewind_of_the_branch_gives_back_waits_again(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", files="current")
    b = place.open("fix")
    b.rewind(0, "a test")
    (place.folder / "3.csv").rename(place.folder / "in/3.csv")
    run(b)
    assert sums(b) == place.sums()
    assert r.check(against="fix").against.left_out == []


def test_the_command_line_names_every_file(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    where = [f"{place.folder / 'shop.py'}:twice", "--root", str(place.folder / "root")]
    arguments = ["--from", "0", "--into", "fix", "--engine", "local", "--files", "current"]
    assert main(["replay", *where, *arguments]) == 0
    assert capfd.readouterr().out.splitlines()[-3:] == [
        "replayed versions 0–2 into `fix`; `fix` is level with `main`",
        "left out: `3.csv` of source `source`, which version 1 has read, is gone",
        "changed: `2.csv` of source `source` has changed since version 0 read it; its present rows were read",
    ]
    left_out = (
        "left out: `3.csv` of source `source`, which version 1 has read; it was gone when the branch was replayed"
    )
    assert main(["check", *where, "--against", "fix"]) == 0
    assert left_out in capfd.readouterr().out.splitlines()
    assert main(["promote", *where, "fix", "--dry-run"]) == 0
    assert left_out in capfd.readouterr().out.splitlines()
    for command in (["replay", *where, *arguments[:3], "new", *arguments[4:]], ["promote", *where, "fix"]):
        assert main([*command, "--json"]) == 0
        result = json.loads(capfd.readouterr().out.splitlines()[-1])
        assert {"left_out": result["left_out"]} == NAMES
    assert main(["log", *where]) == 0
