"""A replay of a pipeline that was promoted repeats the versions of the promoted branch."""

from __future__ import annotations

from collections import Counter

import pytest

import tidemill as tm
from tests.journeys.place import Place, rows, sums
from tests.world import run


def promoted(place: Place) -> tm.Repository:
    """A pipeline of which version 3 is the promotion of branch `fix`, with twice every number, and 4 a batch."""
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    place.arrive("6")
    assert run(r) == [4]
    return r


def test_a_replay_goes_through_a_promotion(place: Place) -> None:
    r = promoted(place)
    made = r.replay(0, into="again", engine="local")
    again = place.open("again", factor=2)
    assert (made.versions, made.left) == ([0, 1, 2, 3], 0)
    assert [(one.replays.branch, one.replays.version) for one in again.commits()] == [
        ("fix-1", 0), ("fix-1", 1), ("fix-1", 2), ("main", 4)
    ]  # fmt: skip
    assert again.state("sums").sort_by("k") == r.state("sums").sort_by("k")
    assert [row[:2] for row in rows(again)] == [row[:2] for row in rows(r)]
    found = r.check(against="again").against
    assert (found.before, found.is_equal, found.behind, found.refused) == ("main@4", True, [], None)
    published = place.lines()
    r.promote("again")
    assert [row[1:] for row in place.lines()] == [row[1:] for row in published]
    place.arrive("7")
    assert run(r) == [6] and sums(r) == place.sums(2)


def test_a_promotion_that_a_branch_did_not_go_through_is_missed(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(0, into="old", engine="local")
    r = promoted(place)
    with pytest.raises(tm.InvalidInput, match="follows version 2 of branch `main`, which was rewound"):
        r.replay(0, into="old", engine="local")
    with pytest.raises(tm.InvalidInput, match="version 3 has taken over version 2 of branch `fix` since it started"):
        r.promote("old")
    r.replay(4, into="new", engine="local")
    assert r.check(against="new").against.is_equal
    r.promote("new")
    assert sums(r) == place.sums(2)


def test_operators_through_a_promotion_need_its_branch(place: Place) -> None:
    promoted(place)
    r = place.open(factor=2, extra=True)
    assert r.replay(0, into="kept", operators=["extra"], engine="local").versions == [0, 1, 2, 3]
    expected = Counter(key for those in place.files.values() for key, _ in those)
    assert sums(place.open("kept", factor=2, extra=True), "extra") == expected
    assert sums(place.open("kept", factor=2, extra=True)) == place.sums(2)
    r.drop_branch("kept")
    r.drop_branch("fix")
    r.maintain()
    with pytest.raises(
        tm.InvalidInput, match="replay version 0 of dropped branch `fix` with operators: .* then dropped"
    ):
        r.replay(0, into="gone", operators=["extra"], engine="local")
    assert [one.name for one in r.branches()] == ["main"]
    assert r.replay(0, into="all", engine="local").versions == [0, 1, 2, 3]
    r.promote("all")
    assert (sums(r), sums(r, "extra")) == (place.sums(2), expected)
    assert r.verify(deep=True).problems == []


def test_promotions_of_promotions_are_gone_through(place: Place) -> None:
    promoted(place)
    r = place.open(factor=3)
    r.replay(0, into="three", engine="local")
    r.promote("three")
    r.rewind(4, "undo")
    r.rewind(5, "redo")
    place.arrive("7", "8", "9")
    run(r)
    assert [commit.kind for commit in r.commits(5)] == ["promote", "rewind", "rewind", "batch", "batch"]
    r.replay(6, into="end", engine="local", to_version=8)
    assert [one.replays.version for one in place.open("end", factor=3).commits(6)] == [8]
    r.replay(0, into="all", engine="local")
    b = place.open("all", factor=3)
    assert [one.replays.branch for one in b.commits()] == ["three-3"] * 4 + ["main"] * 2
    assert sums(b) == sums(r) == place.sums(3)
