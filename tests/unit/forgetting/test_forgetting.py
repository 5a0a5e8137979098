"""What keeps versions that a `forget` gives up: tags and branches, also branches of branches."""

from __future__ import annotations

import dataclasses

import pytest

from tidemill.forgetting.following import pins_below
from tidemill.protocol.entries import Init
from tidemill.protocol.records import Parent
from tidemill.protocol.refs import BranchRef, Refs, TaggedVersion, begin

INIT = Init(number=0, attempt="0" * 12, uuid="u", parent="", reason="", created_ms=0, pipeline="p", root="r")


def refs(**changes: object) -> Refs:
    return dataclasses.replace(begin(INIT), **changes)  # type: ignore[arg-type]


def branch(name: str, of: str, version: int) -> BranchRef:
    return BranchRef(name, f"{name}-1", Parent(of, version, ""))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"tags": {"t": TaggedVersion("main", 4)}}, ["tag `t` (version 4)"]),
        ({"tags": {"t": TaggedVersion("main", 5)}}, []),
        ({"branches": {"main": BranchRef("main", "main"), "a": branch("a", "main", 4)}}, ["branch `a` (version 4)"]),
        ({"branches": {"main": BranchRef("main", "main"), "a": branch("a", "main", 5)}}, []),
        (
            {
                "branches": {"a": branch("a", "main", 2), "b": branch("b", "a-1", 9)},
                "tags": {"t": TaggedVersion("b-1", 12)},
            },
            ["tag `t` (version 12)", "branch `a` (version 2)", "branch `b` (version 9)"],
        ),
        ({"branches": {"a": branch("a", "main", 6), "b": branch("b", "a-1", 9)}}, []),
        ({"tags": {"t": TaggedVersion("gone-7", 12)}}, ["tag `t` (version 12)"]),
        ({"branches": {"a": branch("a", "", -1)}}, ["branch `a` (version -1)"]),
    ],
)
def test_whatever_comes_from_an_earlier_version_of_main_keeps_it(changes: dict, expected: list[str]) -> None:
    assert pins_below(refs(**changes), 5) == expected
