"""Promotions that are easily got wrong: branches that were rewound, other code, and runs at the same time."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.place import Place, rows, sums, with_keys
from tests.world import run
from tidemill.actions import carry_out
from tidemill.cli.main import main


@pytest.mark.parametrize("to_version", [-1, 0, 1])
def test_a_branch_that_was_rewound_to_before_its_start_publishes_no_row_twice(place: Place, to_version: int) -> None:
    r = place.open()
    r.branch("fix", 1)
    b = place.open("fix")
    run(b)
    b.rewind(to_version, "a test")
    run(b)
    expected = sorted(row[:2] for row in rows(b))
    made = r.promote("fix")
    assert made.replaced == [(to_version + 1, made.version - 1)]
    assert sums(r) == place.sums()
    assert sorted(row[:2] for row in rows(r)) == expected
    assert sorted(row[1:] for row in place.lines()) == expected
    place.arrive("6")
    run(r)
    again = r.replay(0, into="again", engine="local")
    assert again.left == 0 and sums(place.open("again")) == place.sums()
    found = r.changes("sums", -1, r.head.version, each=True).to_pylist()
    by_branch = [(row["branch"], row["version"]) for row in found]
    assert by_branch == sorted(by_branch, key=lambda one: one[1]), "each version once, in order"
    last = {row["k"]: row["after"]["n"] for row in found}
    assert last == place.sums()
    r.rewind(2, "undo")
    assert sorted(row[1:] for row in place.lines()) == expected
    assert r.verify(deep=True).problems == []


def test_code_that_lacks_what_began_on_the_branch_is_not_promoted(place: Place) -> None:
    place.open(factor=2, extra=True).replay(0, into="operator", engine="local")
    place.but(with_keys(factor=2)).open().replay(0, into="sink", engine="local")
    r = place.open()
    before = r.head
    with pytest.raises(tm.InvalidInput, match="promote `operator`: it has operator `extra`, which this code does not"):
        r.promote("operator")
    with pytest.raises(tm.InvalidInput, match="promote `sink`: it has sink `keys`, which this code does not have"):
        r.promote("sink")
    assert (
        r.check(against="sink").against.refused == "promote `sink`: it has sink `keys`, which this code does not have"
    )
    assert place.open().head == before and place.open().verify(deep=True).problems == []


def test_a_run_that_commits_during_a_promotion_fences_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    commit = carry_out.correct

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(carry_out, "correct", commit)
        place.arrive("6")
        assert run(place.open()) == [3]
        return commit(*given)

    monkeypatch.setattr(carry_out, "correct", meanwhile)
    with pytest.raises(tm.Fenced):
        r.promote("fix")
    live = place.open()
    assert (live.head.version, live.head.kind) == (3, "batch")
    assert sums(live) == place.sums() and live.verify(deep=True).problems == []
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(live))
    with pytest.raises(tm.InvalidInput, match=r"it has not read the input of version 3 \(`6.csv`\)"):
        r.promote("fix")
    r.promote("fix", catch_up=True, engine="local")
    assert sums(r) == place.sums(2) and r.verify(deep=True).problems == []


def test_the_command_says_what_it_commits_and_publishes(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    place.open().branch("fix", 0)
    b = place.open("fix", factor=2)
    for name in ("6", "7", "8"):
        place.arrive(name)
        run(b)
    run(place.open())
    for name in ("9", "10"):
        place.arrive(name)
        run(b)
    assert (place.open().head.version, b.head.version) == (4, 6)
    assert main(["promote", code, "fix", "--dry-run", *root]) == 0
    assert (
        "first, 1 empty version is committed (version 5), because rows of the branch have these numbers as `_batch_id`"
        in capfd.readouterr().out.splitlines()
    )
    assert main(["promote", code, "fix", "--json", *root]) == 0
    found = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (found["versions"], found["published"], found["head"]) == ([5, 6], [6], 6)
    assert (found["withdraws"], found["adds"]) == ({"sums": [1, 2, 3, 4]}, {"sums": [1, 2, 3, 4, 5, 6]})
    assert [one.kind for one in place.open().commits(5)] == ["void", "promote"]


def test_a_promotion_that_leaves_outputs_publishes_nothing(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    place.open(factor=2).replay(0, into="fix", engine="local")
    assert main(["promote", code, "fix", "--outputs", "keep", "--json", *root]) == 0
    found = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (found["versions"], found["published"], found["withdraws"], found["adds"]) == ([3], [], {}, {})
