"""Rewinds past a promotion say whose results come back, and rewinds into one keep those of the branch."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.place import PIPELINE, Place, bag, placed, rows, sums
from tests.journeys.rewound import command
from tests.world import run
from tidemill.protocol import codec
from tidemill.protocol.records import INSIDE

FIRST, SECOND, THIRD = (("1", 1), ("2", 1)), (("3", 2), ("4", 2)), (("5", 2),)
"""The files of three versions, and the factor of the code that made each: `fix` has repeated the last two."""


@pytest.fixture
def promoted(tmp_path: Path) -> Place:
    """Three versions, of which `fix` repeats the last two with twice the amounts. Version 3 promotes it."""
    place = placed(tmp_path)
    r = place.open(factor=2)
    r.replay(1, into="fix", engine="local")
    assert r.promote("fix").version == 3
    return place


def part(place: Place, *factors: tuple[str, int]) -> dict[str, int]:
    """The sums of some files, each with a factor: a naive loop."""
    found: dict[str, int] = {}
    for name, factor in factors:
        for key, n in place.files[name]:
            found[key] = found.get(key, 0) + n * factor
    return found


def whole(place: Place, r: tm.Repository) -> list[tuple[int, str, int]]:
    """The rows of the sink, which are those of `outputs`, in a repository without damage."""
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(r))
    assert r.verify(deep=True).problems == []
    return place.lines()


def test_a_rewind_into_a_promotion_keeps_the_results_of_the_branch(promoted: Place) -> None:
    r = promoted.open(factor=2)
    before = whole(promoted, r)
    promoted.arrive("6")
    assert run(r) == [4]
    made = r.rewind("fix@1", "a bad file")
    assert (made.version, made.kind, made.requires) == (5, "rewind", [INSIDE])
    assert sums(r) == part(promoted, *FIRST, *SECOND)
    assert whole(promoted, r) == [row for row in before if row[0] < 2]
    assert bag(r.quarantine(5)) == bag(promoted.open("fix", factor=2).quarantine(1))
    assert run(promoted.open(factor=2)) == [6], "the files since wait again"
    assert sums(r) == part(promoted, *FIRST, *SECOND, *THIRD, ("6", 2))
    assert [one.label for one in r.history("sums", "k0")] == ["0", "fix@1", "6"]
    whole(promoted, r)
    r.rewind(3, "the promotion as it was")
    assert (sums(r), whole(promoted, r)) == (part(promoted, *FIRST, *SECOND, *THIRD), before)


def test_a_rewind_goes_back_and_forth_inside_of_a_promotion(promoted: Place) -> None:
    r = promoted.open(factor=2)
    before = whole(promoted, r)
    r.rewind("fix@1", "back")
    with pytest.raises(tm.InvalidInput, match="rewind to `fix@1`: this is what the newest version has"):
        r.rewind("fix@1", "again")
    r.rewind("fix@2", "forth")
    assert (sums(r), whole(promoted, r)) == (part(promoted, *FIRST, *SECOND, *THIRD), before)
    r.rewind(2, "the code before")
    assert sums(r) == part(promoted, *((name, 1) for name in "12345"))
    whole(promoted, r)
    r.rewind("fix@1", "the branch after all")
    assert (sums(r), whole(promoted, r)) == (part(promoted, *FIRST, *SECOND), [row for row in before if row[0] < 2])


def test_versions_that_both_branches_have_are_versions_of_this_one(promoted: Place) -> None:
    r = promoted.open(factor=2)
    for spec in ("fix@0", "main@0", 0):
        plan = r.rewind(spec, dry_run=True, reason="a test")
        assert (plan.to_version, plan.into) == (0, None)
    assert r.rewind("main@1", "the code before").requires == []
    assert sums(r) == part(promoted, *FIRST, ("3", 1), ("4", 1))


def test_a_preview_says_whose_results_come_back_and_which_files_wait(promoted: Place) -> None:
    r = promoted.open(factor=2)
    undone = "the promotion of branch `fix` in version 3 is undone: results are those of the code before it"
    plan = r.rewind(1, "a test", dry_run=True)
    assert plan.lines()[:2] == [
        "the state becomes that of version 1",
        f"{undone}; `--to fix@1` keeps those of the branch",
    ]
    assert [file.path for file in plan.waiting] == ["5.csv"], "the promoted versions had read it"
    assert r.rewind(0, "a test", dry_run=True).results == [undone]
    plan = r.rewind("fix@1", "a test", dry_run=True)
    assert plan.lines() == [
        "the state becomes that of `fix@1`",
        "results are those of the code of branch `fix`, as version 3 promoted them",
        "undone: version 3",
        "1 file (`5.csv`) will be read again",
        "sink `sums`: files are deleted: version 3, but for files that branch `fix` has made up to then",
        "sink `sums`: what branch `fix` made is published again: version 1",
    ]
    assert (plan.as_dict()["of_branch"], plan.as_dict()["results"]) == ("fix", plan.results)
    r.rewind(2, "a test")
    assert r.rewind(3, "a test", dry_run=True).results == [
        "results are those of the code of branch `fix` again, as version 3 promoted them"
    ]
    assert r.rewind(1, "a test", dry_run=True).results == []


def test_a_preview_after_a_rewind_into_a_promotion_names_the_version_that_promoted(promoted: Place) -> None:
    r = promoted.open(factor=2)
    made = r.rewind("fix@1", "back").version
    assert made == 4
    assert r.rewind("fix@2", "a test", dry_run=True).results == [
        "results are those of the code of branch `fix`, as version 3 promoted them"
    ]
    [line] = r.rewind(0, "a test", dry_run=True).results
    assert line.startswith("the promotion of branch `fix` in version 3 is undone")
    r.rewind(0, "before it")
    assert r.rewind(made, "a test", dry_run=True).results == [
        "results are those of the code of branch `fix` again, as version 3 promoted them"
    ]


def test_the_command_rewinds_into_a_promotion(
    promoted: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(promoted.folder)
    (promoted.folder / "shop.py").write_text(PIPELINE)
    capfd.readouterr()
    status, out, _ = command(capfd, "rewind", "shop.py:twice", "--to", "fix@1", "--reason", "a bad file", "--yes")
    assert status == 0
    assert out.splitlines()[-1] == "rewound to `fix@1` in version 4: a bad file"
    assert "version 1 of `fix`; a bad file" in command(capfd, "log", "shop.py:twice")[1]
    assert "to version 1" not in command(capfd, "log", "shop.py:twice")[1]


def test_files_that_such_a_rewind_takes_out_stay_out_of_replays(promoted: Place) -> None:
    r = promoted.open(factor=2)
    r.rewind("fix@1", "a bad file", without=["5.csv"])
    assert run(r) == []
    r.replay(0, into="again", engine="local")
    assert sums(promoted.open("again", factor=2)) == promoted.sums(2, without=("5",))
    r.promote("again")
    whole(promoted, r)


def test_only_what_was_promoted_with_its_outputs_can_be_restored(promoted: Place) -> None:
    r = promoted.open(factor=2)
    r.replay(1, into="other", engine="local")
    for spec, said in (
        ("other@1", "rewind to `other@1`: no promotion into `main` has taken over this version"),
        ("fix@9", "rewind to `fix@9`: no promotion into `main` has taken over this version"),
        ("nix@1", "unknown tag or branch|unknown branch"),
        ("fix@", "expected BRANCH@VERSION"),
        ("fix", "version `fix`: expected a number or a tag of the branch that is open, found the name of a branch"),
    ):
        with pytest.raises(tm.InvalidInput, match=said):
            r.rewind(spec, "a test")
    r.drop_branch("fix")
    with pytest.raises(tm.InvalidInput, match="branch `fix` was dropped, so its versions are no longer kept") as caught:
        r.rewind("fix@1", "a test")
    assert caught.value.hint == "rewind to version 3, which has taken it over"
    assert r.head.version == 3


def test_a_promotion_that_left_the_outputs_or_came_before_a_forget_has_no_inside(tmp_path: Path) -> None:
    place = placed(tmp_path)
    r = place.open(factor=2)
    r.replay(1, into="fix", engine="local")
    r.promote("fix", outputs="keep")
    with pytest.raises(tm.InvalidInput, match="version 3, which promoted the branch, left what is published as it was"):
        r.rewind("fix@1", "a test")
    r.rewind(2, "undo")
    r.promote("fix")
    place.arrive("6")
    run(r)
    r.forget("sums", ["k0"], "a test", columns={"sums": "k"}, drop_refs=True)
    with pytest.raises(tm.InvalidInput, match="was dropped|forgot keys, which the branch may have"):
        r.rewind("fix@1", "a test")


def test_a_tidemill_that_does_not_know_such_rewinds_stops(promoted: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted.open(factor=2).rewind("fix@1", "a test")
    monkeypatch.setattr(codec, "FEATURES", frozenset())
    with pytest.raises(tm.InvalidInput, match=f"it requires {INSIDE}; it was written by a newer Tidemill"):
        run(promoted.open(factor=2))


def test_an_operator_that_came_with_the_branch_stays_with_a_rewind_into_it(tmp_path: Path) -> None:
    place = placed(tmp_path)
    r = place.open(factor=2, extra=True)
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    r.rewind("fix@0", "a test")
    assert sums(r, "extra") == {"k0": 2, "k1": 2, "k2": 1}
    assert run(place.open(factor=2, extra=True)) == [5, 6]
    assert sums(r) == place.sums(2) and sum(sums(r, "extra").values()) == sum(map(len, place.files.values()))
    whole(place, r)


def test_a_branch_is_compared_with_what_is_live(tmp_path: Path) -> None:
    """Two branches repeat the same versions. Once one is promoted, the other is compared with its results."""
    place = placed(tmp_path)
    twice, thrice = place.open(factor=2), place.open(factor=3)
    twice.replay(1, into="fix", engine="local")
    twice.replay(1, into="same", engine="local")
    thrice.replay(1, into="other", engine="local")
    before = thrice.check(against="other").against
    twice.promote("fix")
    found = twice.check(against="same").against
    assert (found.before, found.after, found.is_equal) == ("main@3", "same@2", True)
    found = thrice.check(against="other").against
    assert (found.before, before.before, found.is_equal) == ("main@3", "main@2", False)
    live, made = sums(twice), sums(place.open("other", factor=3))
    largest = max(live, key=lambda key: made[key] - live[key])
    [change] = found.operators["sums"].largest
    assert (change.key, change.before, change.after) == ({"k": largest}, live[largest], made[largest])
    twice.rewind("fix@1", "a test")
    assert thrice.check(against="other").against.before == "main@2", "nothing that is live has read as much"


def test_a_branch_that_repeats_a_promotion_is_compared_with_the_code_before_if_that_is_live_again(
    promoted: Place,
) -> None:
    r = promoted.open(factor=2)
    r.replay(1, into="again", engine="local")
    assert r.check(against="again").against.before == "main@3"
    r.rewind(2, "the code before")
    found = r.check(against="again").against
    assert (found.before, found.behind) == ("main@4", [])
    assert found.operators["sums"].changed == 3


def test_an_operator_that_init_has_added_since_stays(promoted: Place) -> None:
    r = promoted.open(factor=2, extra=True)
    r.init()
    r.rewind("fix@1", "a test")
    assert run(promoted.open(factor=2, extra=True)) == [5]
    assert sums(r, "extra") == {f"k{j}": 2 for j in range(3)}, "the rows of `5.csv`, which it is the first to read"
    whole(promoted, r)


def test_a_branch_that_a_promoted_branch_had_taken_over_is_refused_by_name(tmp_path: Path) -> None:
    place = placed(tmp_path)
    place.open(factor=2).replay(1, into="fix", engine="local")
    place.open("fix", factor=3).replay(2, into="better", engine="local")
    assert place.open("fix", factor=3).promote("better").version == 3
    r = place.open(factor=3)
    assert r.promote("fix").version == 3
    before = whole(place, r)
    with pytest.raises(
        tm.InvalidInput, match="branch `fix` had taken over `better` when version 3 promoted it"
    ) as error:
        r.rewind("better@2", "a test")
    assert "rewind to `fix@3` or an earlier version of `fix`, or to version 3" in error.value.hint
    with pytest.raises(tm.InvalidInput, match="rewind to `fix@3`: this is what the newest version has"):
        r.rewind("fix@3", "a test")
    place.arrive("6")
    assert run(r) == [4]
    assert r.rewind("fix@3", "what the branch took over").version == 5
    assert [row[1:] for row in whole(place, r)] == [row[1:] for row in before]
    r.rewind("fix@1", "before that")
    assert sums(r) == part(place, *FIRST, *SECOND)
