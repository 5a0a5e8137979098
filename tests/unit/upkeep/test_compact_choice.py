"""Which published files are compacted: a pure choice, and what it promises for random sizes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

import pytest

from tidemill.upkeep.compact_choice import VersionFiles, VersionGroup, choose_groups, split

TARGET = 100
SMALL = 1
"""In these tests no version counts as larger than it is; see `sizes_count_as_they_are`."""


@pytest.fixture(autouse=True)
def sizes_count_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.upkeep.compact_choice.SMALLEST_BYTES", SMALL)


def version(number: int, *sizes: int, **folders: Sequence[int]) -> VersionFiles:
    return VersionFiles(number, number, number, folders or {"": sizes})


def one_file_each(*sizes: int) -> list[VersionFiles]:
    return [version(number, size) for number, size in enumerate(sizes)]


def chosen(published: Sequence[VersionFiles]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in choose_groups(published, TARGET)]


def after(published: Sequence[VersionFiles], groups: Sequence[VersionGroup]) -> list[VersionFiles]:
    """The versions once the groups are joined: a group is one version with the new files."""
    found = []
    members = {one.record: group for group in groups for one in group.members}
    for one in published:
        group = members.get(one.record)
        if group is None:
            found.append(one)
        elif one is group.members[-1]:
            folders: dict[str, list[int]] = {}
            for member in group.members:
                for folder, sizes in member.folders.items():
                    folders.setdefault(folder, []).extend(sizes)
            joined = {folder: as_split(sizes) for folder, sizes in folders.items()}
            found.append(VersionFiles(one.record, group.first, group.last, joined))
    return found


def as_split(sizes: Sequence[int]) -> list[int]:
    left, made = list(sizes), []
    for count in split(sizes, TARGET):
        made.append(sum(left[:count]))
        del left[:count]
    return made


def test_small_files_of_neighbours_are_joined_up_to_the_target() -> None:
    assert chosen(one_file_each(*[10] * 25)) == [(0, 9), (10, 19), (20, 24)]
    [group] = choose_groups(one_file_each(10, 20, 30), TARGET)
    assert (group.files, group.bytes, group.into) == (3, 60, 1)


def test_one_version_alone_large_files_and_nothing_stay() -> None:
    assert chosen([]) == chosen(one_file_each(10)) == chosen(one_file_each(50, 60, 200)) == []
    assert chosen(one_file_each(10, 10, 50, 10, 10)) == [(0, 1), (3, 4)]  # a version never joins across a large one


def test_the_many_small_files_of_one_version_are_joined() -> None:
    assert chosen([version(0, *[10] * 8)]) == [(0, 0)]
    [group] = choose_groups([version(0, *[40] * 12)], TARGET)  # larger than the target together
    assert group.into == 6


def test_a_version_that_has_most_bytes_is_not_written_again() -> None:
    assert chosen(one_file_each(30, 5, 5)) == [(1, 2)]
    assert chosen(one_file_each(10, 5, 5)) == [(0, 2)]
    assert chosen(one_file_each(5, 5, 30, 5, 5)) == [(0, 1), (3, 4)]


def test_the_smallest_versions_count_as_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.upkeep.compact_choice.SMALLEST_BYTES", 20)
    assert chosen(one_file_each(19, 1)) == [(0, 1)]


def test_files_that_stay_as_they_are_part_what_is_around_them() -> None:
    fixed = dataclasses.replace(version(2, 5), is_fixed=True)
    assert chosen([version(0, 5), version(1, 5), fixed, version(3, 5), version(4, 5)]) == [(0, 1), (3, 4)]
    without_files = dataclasses.replace(fixed, folders={})
    assert chosen([version(0, 5), without_files, version(3, 5)]) == []


def test_versions_that_share_no_folder_are_not_joined() -> None:
    days = [version(number, **{f"day={number}": [10]}) for number in range(6)]
    assert chosen(days) == []
    today = [version(number, **{"day=6": [5]}) for number in range(6, 12)]
    assert chosen([*days, *today]) == [(6, 11)]


def test_few_files_fewer_are_not_worth_a_commit() -> None:
    wide = {f"country={number}": [10] for number in range(5)}
    assert chosen([version(0, **wide), version(1, **{"country=1": [10]})]) == []
    assert chosen([version(0, **wide), version(1, **wide)]) == [(0, 1)]


@pytest.mark.parametrize("seed", range(300))
def test_random_choices_keep_their_promises(seed: int) -> None:
    chance = random.Random(seed)
    folders = [""] if chance.random() < 0.5 else [f"d={number}" for number in range(chance.randint(1, 4))]
    published = [
        dataclasses.replace(one, is_fixed=chance.random() < 0.05)
        for one in (version(number, **sizes(chance, folders)) for number in range(chance.randint(0, 40)))
    ]
    groups = choose_groups(published, TARGET)
    places = [published.index(one) for group in groups for one in group.members]
    assert places == sorted(set(places))
    for group in groups:
        at = published.index(group.members[0])
        assert list(group.members) == published[at : at + len(group.members)]
        assert not any(one.is_fixed or 2 * one.largest >= TARGET for one in group.members)
        assert 2 * group.into <= group.files
        assert len(group.members) == 1 or group.bytes <= 4 * TARGET
    joined = after(published, groups)
    assert sum(one.bytes for one in joined) == sum(one.bytes for one in published)
    assert max((size for group in groups for one in joined if one.record == group.members[-1].record
                for of_folder in one.folders.values() for size in of_folder), default=0) <= TARGET  # fmt: skip
    for _ in range(8):  # a second choice may find neighbours that were apart; each makes fewer files, so that it ends
        joined = after(joined, choose_groups(joined, TARGET))
    assert choose_groups(joined, TARGET) == []


def sizes(chance: random.Random, folders: Sequence[str]) -> Mapping[str, Sequence[int]]:
    most = chance.choice([3, 20, 120])
    return {
        folder: [chance.randint(1, most) for _ in range(chance.choice([1, 1, 1, 4]))]
        for folder in chance.sample(folders, chance.randint(1, len(folders)))
    }


def test_every_night_the_files_stay_few_and_a_row_is_written_again_a_few_times() -> None:
    published: list[VersionFiles] = []
    written = total = 0
    for night in range(200):
        for hour in range(4):
            number = 4 * night + hour
            published.append(version(number, 1 + number % 3))
            total += 1 + number % 3
        while groups := choose_groups(published, TARGET):
            written += sum(group.bytes for group in groups)
            published = after(published, groups)
        assert sum(one.files for one in published) <= 4 + sum(one.bytes for one in published) / (TARGET / 3) + 4
    assert written / total < 6
