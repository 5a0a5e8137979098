"""The names of objects, and the rules for names that users choose."""

from __future__ import annotations

import pytest

from tidemill import names
from tidemill.errors import CorruptState, InvalidInput


@pytest.mark.parametrize("name", ["a", "0", "retail", "by-country", "a" * 63, "2nd-try-"])
def test_a_valid_name_is_returned(name: str) -> None:
    assert names.check_name(name, "pipeline") == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a b", "a/b", "..", "é", "a" * 64, "a\n", "a.", None, 7])
def test_an_invalid_name_is_an_error(name: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        names.check_name(name, "sink")  # type: ignore[arg-type]
    assert str(refused.value) == (
        f"invalid sink name {name!r}: expected at most 63 lower-case letters, digits and `-`, "
        "beginning with a letter or digit"
    )


def test_every_object_has_its_documented_name() -> None:
    stem = names.stem(7, "abc", 3, "def")
    assert [
        names.ref(0),
        names.plan("main", 7),
        names.commit("main", 7),
        names.head_hint("main"),
        names.segment("spend", "state", "main", stem),
        names.output("out", "main", stem, 0, 2, ".parquet"),
        names.quarantine_file("main", stem),
    ] == [
        "refs/0000000000.json",
        "branches/main/plans/0000000007.json",
        "branches/main/commits/0000000007.json",
        "branches/main/head.json",
        "state/spend/state/main/0000000007-abc-00003-def.parquet",
        "output/out/main/0000000007-abc-00003-def-p0-00002.parquet",
        "quarantine/main/0000000007-abc-00003-def.parquet",
    ]
    assert names.commit("main", 7).startswith(names.commits("main"))


def test_numbers_sort_as_text() -> None:
    numbers = [0, 1, 9, 10, 99, 100, 12345, 10**10 - 1]
    assert sorted(names.commit("main", number) for number in numbers) == [names.commit("main", n) for n in numbers]


@pytest.mark.parametrize("name", ["a", "a/b.json", "..a/b", "a/...", "ü/ x"])
def test_a_name_inside_the_repository_is_returned(name: str) -> None:
    assert names.inside(name) == name


@pytest.mark.parametrize("name", ["", "/", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", "..", "a\\..\\b"])
def test_a_name_outside_the_repository_is_corrupt_state(name: str) -> None:
    with pytest.raises(CorruptState) as refused:
        names.inside(name)
    assert str(refused.value) == f"a record names the object {name!r}, which is outside the repository"
