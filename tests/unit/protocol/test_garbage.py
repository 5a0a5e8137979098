"""Kept versions and garbage: floors, tags, forks, holds, numbers above the head, objects of `refs/`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tidemill import names
from tidemill.protocol.garbage import Stored, dead_bases, garbage
from tidemill.protocol.records import OutputFile, Parent, QuarantineFile, VersionOf
from tidemill.protocol.refs import MAIN, BaseOf, BranchRef, HeldVersions, Kept, Refs, TaggedVersion, begin
from tidemill.protocol.retained import first_kept, floor, is_kept, is_whole, kept_objects, pinned, refuse_if_gone
from tidemill.protocol.retention import ALL_OPERATORS, Retention, RetentionInput, Rule, floors


def refs(**more: Any) -> Refs:
    return dataclasses.replace(begin(make.init()), through=3, **more)


def state(number: int, branch: str = MAIN, attempt: str = "a" * 12) -> str:
    return names.segment("op", "m", branch, names.stem(number, attempt, 0, "t"))


def found(known: Refs, heads: dict[str, int], kept: set[str], *stored: str) -> list[str]:
    return [one.name for one in garbage(known, heads, kept, [Stored(name, 1) for name in stored])]


# garbage


def test_an_object_that_a_kept_version_names_stays() -> None:
    assert found(refs(), {MAIN: 9}, {state(3)}, state(3), state(4)) == [state(4)]


def test_an_object_above_the_head_stays_however_old_it_is() -> None:
    assert found(refs(), {MAIN: 4}, set(), state(4), state(5), state(6)) == [state(4)]


def test_an_object_of_a_branch_that_refs_do_not_have_yet_stays() -> None:
    assert found(refs(), {MAIN: 4}, set(), state(1, "fix-9")) == []
    assert found(refs(), {MAIN: 4, "fix-2": 1}, set(), state(1, "fix-2"), state(2, "fix-2")) == [state(1, "fix-2")]


def test_an_object_of_refs_is_garbage_only_up_to_the_newest_entry() -> None:
    seeds = [names.segment("op", "m", MAIN, names.seed_stem(number, "a" * 12)) for number in (2, 3, 4)]
    assert found(refs(), {MAIN: 9}, {seeds[0]}, *seeds) == [seeds[1]]


def test_records_published_files_and_unknown_objects_are_never_garbage() -> None:
    others = ["refs/0000000001.json", "branches/main/commits/0000000001.json", "published/main/out/0000000001.json",
              "state/op/m/main/notes.txt", "stores/x/00000/segments/0000000001-a.parquet"]  # fmt: skip
    assert found(refs(), {MAIN: 9}, set(), *others) == []


def test_garbage_is_ordered_by_age_and_says_why() -> None:
    known = refs(floors={MAIN: Kept(5, 1)})
    listed = [Stored(state(7), 1), Stored(state(2), 3)]
    old, orphan = garbage(known, {MAIN: 9}, set(), listed)
    assert (old.name, old.size, old.number) == (state(2), 3, 2)
    assert old.why == "of version 2, and no version that is kept names it"
    assert orphan.why == "left by an attempt at version 7 that was not committed"


def test_merged_segments_whose_input_no_kept_version_names_are_dead() -> None:
    def base(number: int, inputs: list[str], output: str) -> BaseOf:
        return BaseOf(number, "op", "m", [make.segment(name) for name in inputs], [make.segment(output)])

    bases = [base(1, ["a", "b"], "ab"), base(2, ["ab", "c"], "abc"), base(3, ["gone", "c"], "x"), base(4, ["x"], "y")]
    assert dead_bases(bases, {"a", "b", "c"}) == [3, 4]
    assert dead_bases(bases, {"a", "c"}) == [1, 2, 3, 4]


# what is kept


def test_a_version_is_kept_by_its_floor_a_tag_a_fork_or_a_hold() -> None:
    fork = BranchRef("fix", "fix-2", Parent(MAIN, 2, "c"))
    known = refs(
        floors={MAIN: Kept(5, 1)},
        tags={"good": TaggedVersion(MAIN, 1)},
        branches={MAIN: BranchRef(MAIN, MAIN), "fix": fork},
        holds=[HeldVersions(MAIN, 3, 4, MAIN, 9)],
    )
    assert [version for version in range(-1, 7) if is_kept(known, VersionOf(MAIN, version))] == [-1, 1, 2, 5, 6]
    assert pinned(known) == {VersionOf(MAIN, 1), VersionOf(MAIN, 2)}
    assert pinned(known, {MAIN: 8}) == {VersionOf(MAIN, version) for version in (1, 2, 3, 4)}
    assert pinned(known, {MAIN: 9}) == {VersionOf(MAIN, 1), VersionOf(MAIN, 2)}


def test_an_operator_with_a_floor_of_its_own_is_kept_apart() -> None:
    known = refs(floors={MAIN: Kept(5, 1, {"short": 7, "long": 3})})
    assert [is_kept(known, VersionOf(MAIN, 6), name) for name in (None, "short", "long", "other")] == [
        True,
        False,
        True,
        True,
    ]
    assert [is_kept(known, VersionOf(MAIN, 4), name) for name in (None, "short", "long", "other")] == [
        False, False, True, False,
    ]  # fmt: skip
    assert (is_whole(known, VersionOf(MAIN, 6)), is_whole(known, VersionOf(MAIN, 7))) == (False, True)
    assert first_kept(floor(known, MAIN)) == 3


def test_the_objects_of_a_version_are_kept_by_what_its_floors_say() -> None:
    commit = make.commit(
        6,
        state={name: {"m": [make.segment(f"{name}.parquet")]} for name in ("short", "long")},
        ledger=[make.segment("ledger")],
        outputs={"out": [OutputFile("out.json", "c", 1, 1, 0, 0, 0)]},
        quarantine=[QuarantineFile("bad", "c", 1, 1)],
    )
    rest = {"ledger", "out.json", "bad"}

    def kept(version: int, is_pinned: bool = False) -> set[str]:
        at = dataclasses.replace(commit, version=version)
        known = refs(floors={MAIN: Kept(5, 1, {"short": 7, "long": 3})})
        return {one.name for one in kept_objects(known, at, is_pinned)}

    assert kept(7) == {"short.parquet", "long.parquet", *rest}
    assert kept(6) == {"long.parquet", *rest}
    assert kept(4) == {"long.parquet"}
    assert kept(4, is_pinned=True) == kept(7)


def test_the_error_for_a_version_that_is_gone_says_what_is_kept_and_since_when() -> None:
    known = refs(floors={MAIN: Kept(5, 1_700_000_000_000)}, tags={"good": TaggedVersion(MAIN, 1)})
    with pytest.raises(
        tm.InvalidInput,
        match=r"^read version 4 of branch `main`: it is no longer kept; versions from 5 on are kept, since "
        r"2023-11-14T22:13:20.000Z, and the tags `good` \(1\)\nhint: a floor cannot be lowered",
    ):
        refuse_if_gone(known, VersionOf(MAIN, 4), "read")
    refuse_if_gone(known, VersionOf(MAIN, 1), "read")


# retention


def kept_by(rule: Rule, head: int = 9, before: int = -1, published: int = 9, now_ms: int = 1_000) -> int:
    """The floor if version n was committed at 100 * n ms."""
    observed = RetentionInput(head, published, now_ms)
    return floors(Retention({ALL_OPERATORS: rule}), Kept(before, 0), observed, lambda version: 100 * version).version


def test_a_number_of_versions_counts_from_the_head() -> None:
    assert [kept_by(Rule(versions=count)) for count in (1, 3, 10, 20)] == [9, 7, 0, -1]


def test_an_age_keeps_the_version_that_was_the_newest_at_its_start() -> None:
    assert kept_by(Rule(age_ms=250)) == 7  # at 750 ms, version 7 was the newest
    assert kept_by(Rule(age_ms=300)) == 7  # committed at that very time
    assert kept_by(Rule(age_ms=0), now_ms=5_000) == 9
    assert kept_by(Rule(age_ms=5_000)) == 0


def test_of_two_rules_the_one_that_keeps_more_counts() -> None:
    assert kept_by(Rule(age_ms=250, versions=5)) == 5
    assert kept_by(Rule(age_ms=650, versions=2)) == 3


def test_a_floor_is_never_lowered_and_never_passes_unpublished_versions() -> None:
    assert kept_by(Rule(versions=8), before=6) == 6
    assert kept_by(Rule(versions=1), published=4) == 5
    assert kept_by(Rule(versions=1), published=-1) == 0


def test_a_clock_that_stepped_back_keeps_more() -> None:
    times = [100, 200, 900, 300, 400]
    observed = RetentionInput(4, 4, 1_000)
    assert floors(Retention({ALL_OPERATORS: Rule(age_ms=500)}), Kept(-1, 0), observed, times.__getitem__).version == 1


def test_operators_have_rules_of_their_own() -> None:
    rules = {ALL_OPERATORS: Rule(versions=3), "short": Rule(versions=1), "long": Rule(versions=6)}
    found = floors(Retention(rules), Kept(-1, 0), RetentionInput(9, 9, 0), lambda version: version)
    assert (found.version, found.operators, found.highest) == (7, {"short": 9, "long": 4}, 9)
    only = floors(Retention({"short": Rule(versions=1)}), Kept(2, 0), RetentionInput(9, 9, 0), lambda version: version)
    assert (only.version, only.operators) == (2, {"short": 9})
