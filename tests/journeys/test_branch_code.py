"""Which code may continue a branch and promote it: no operator is lost or starts empty, and no two codes are mixed."""

from __future__ import annotations

import json

import pytest

import tidemill as tm
from tests.journeys.place import Place, scaled, sums, with_keys
from tests.world import World, run
from tidemill.cli.main import main


def versions(r: tm.Repository) -> list[int]:
    return [one.version for one in r.commits()]


def test_code_without_an_operator_of_the_branch_does_not_continue_it(place: Place) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", engine="local", max_batches=1)
    b = place.open("more", extra=True)
    before = versions(b)
    with pytest.raises(
        tm.InvalidInput, match="has versions up to 0: it has operator `extra`, which this code does not"
    ):
        place.open().replay(0, into="more", engine="local")
    with pytest.raises(tm.InvalidInput, match="it has operator `extra`, which this code does not have"):
        place.open().promote("more", catch_up=True, engine="local")
    assert versions(b) == before
    more.promote("more", catch_up=True, engine="local")
    assert sums(more, "extra").keys() == sums(more).keys()


def test_a_promotion_ends_no_operator_that_the_caller_does_not_name(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", operators=["extra"], engine="local")
    more.promote("more")
    place.open().replay(0, into="less", engine="local")
    found = place.open().check(against="less").against
    assert found is not None
    assert (found.refused, found.only_behind) == (
        "promote `less`: it does not have operator `extra`, whose state would end", False
    )  # fmt: skip
    with pytest.raises(tm.InvalidInput) as raised:
        place.open().promote("less")
    assert raised.value.hint == (
        "promote with drop=['extra'] or --drop extra; or replay with code that has the operator"
    )
    with pytest.raises(tm.InvalidInput, match="drop names `sums`, whose state the promotion does not end"):
        place.open().promote("less", drop=["extra", "sums"])
    code = f"{place.folder / 'shop.py'}:twice"
    (place.folder / "shop.py").write_text((place.folder / "shop.py").read_text().replace("n * 2", "n * 1"))
    assert main(["promote", code, "less", "--root", str(place.folder / "root"), "--drop", "extra", "--dry-run"]) == 0
    assert "operator `extra`: its state ends, because the branch does not have it" in capfd.readouterr().out
    assert main(["promote", code, "less", "--root", str(place.folder / "root"), "--drop", "extra", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["ends"] == ["extra"]
    assert list(place.open().head.state) == ["sums"]


def test_a_new_operator_starts_on_a_branch_only_if_a_replay_names_it(place: Place) -> None:
    more = place.open(extra=True)
    with pytest.raises(tm.InvalidInput, match="operator `extra` has no state on this branch, so it would start empty"):
        more.replay(1, into="more", engine="local")
    assert [one.name for one in more.branches()] == ["main"]
    more.branch("ran", 1)
    with pytest.raises(tm.InvalidInput, match="operator `extra` has no state on this branch") as raised:
        run(place.open("ran", extra=True))
    assert "run init on `main` first" in str(raised.value.hint)
    assert place.open("ran", extra=True).check().status == "needs init"
    more.replay(1, into="named", operators=["extra"], engine="local")
    assert sums(place.open("named", extra=True), "extra")
    more.replay(0, into="whole", engine="local")
    assert sums(place.open("whole", extra=True), "extra").keys() == sums(more).keys()
    more.init()
    run(place.open("ran", extra=True))
    assert set(place.open("ran", extra=True).head.state) == {"sums", "extra"}


def test_operators_that_a_replay_does_not_name_do_not_start_empty_later(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        scaled(extra=True)(p, world)
        world.read(p, "more", maxFilesPerTrigger=None).groupBy("k").agg(most=tm.max("n"), name="most")

    most = place.but(build)
    most.open().replay(0, into="named", operators=["extra"], engine="local")
    assert most.open("named").check().status == "needs init"
    with pytest.raises(tm.InvalidInput, match="operator `most` has no state on this branch"):
        run(most.open("named"))


def test_two_codes_do_not_mix_on_a_branch(place: Place) -> None:
    twice = place.open(factor=2)
    twice.replay(0, into="fix", engine="local", max_batches=1)
    with pytest.raises(tm.InvalidInput) as raised:
        place.open().replay(0, into="fix", engine="local")
    assert raised.value.message == (
        "replay into branch `fix`, which has versions up to 0: other code made its versions: operator `sums`"
    )
    with pytest.raises(tm.InvalidInput, match="other code made its versions"):
        place.open(factor=3).promote("fix", catch_up=True, engine="local")
    assert versions(place.open("fix", factor=2))[-1] == 0
    twice.replay(0, into="fix", engine="local")
    assert place.open().replay(0, into="fix", engine="local").replayed == [], "nothing is left, so nothing is mixed"
    assert sums(place.open("fix", factor=2)) == place.sums(factor=2)


def test_who_promotes_with_other_code_than_the_branch_is_shown_it(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.open().replay(0, into="same", engine="local")
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    assert main(["promote", code, "same", *root, "--dry-run"]) == 0
    assert "other code than this ran on the branch: operator `sums`" in capfd.readouterr().out


def test_a_partial_branch_is_continued_by_code_that_changed_elsewhere(place: Place) -> None:
    place.open(extra=True).replay(0, into="more", operators=["extra"], engine="local", max_batches=1)
    made = place.open(extra=True, factor=2).replay(0, into="more", engine="local")
    assert (made.operators, made.left) == (["extra"], 0)


def test_check_against_compares_what_has_read_the_same(place: Place) -> None:
    twice = place.open(factor=2)
    twice.replay(0, into="one", engine="local")
    twice.replay(0, into="early", engine="local", max_batches=2)
    twice.promote("one")
    twice.replay(0, into="half", engine="local", max_batches=2)
    found = twice.check(against="half").against
    assert found is not None
    assert (found.before, found.after, found.behind, found.is_equal) == ("one@1", "half@1", [3], True)
    early = twice.check(against="early").against
    assert early is not None and early.refused is not None
    assert (early.before, early.after, early.operators["sums"].changed) == ("one@1", "early@1", 0), "what counts now"
    twice.replay(0, into="half", engine="local")
    level = twice.check(against="half").against
    assert level is not None
    assert (level.before, level.behind, level.refused, level.is_equal) == ("main@3", [], None, True)
    twice.drop_branch("one")
    assert twice.check(against="half").against == level


def test_a_file_that_a_replay_left_out_is_named_also_after_a_promotion(place: Place) -> None:
    r = place.open()
    r.replay(0, into="one", engine="local")
    r.promote("one")
    (place.folder / "in/5.csv").unlink()
    made = r.replay(0, into="gone", files="current", engine="local")
    assert [one.path for one in made.left_out] == ["5.csv"]
    found = r.check(against="gone").against
    assert found is not None and [one.path for one in found.left_out] == ["5.csv"]
    r.promote("gone")
    rows = place.files.pop("5")
    assert sums(r) == place.sums()
    place.files["5"] = rows
    place.arrive("5")
    run(r)
    assert sums(r) == place.sums(without=("5",)), "as after a skip, it is not read"


def test_a_dry_run_that_catches_up_says_what_it_would_repeat(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    twice = place.open(factor=2)
    twice.replay(0, into="fix", engine="local", max_batches=2)
    assert main(["promote", code, "fix", *root, "--catch-up", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("first, the branch repeats version 2; what follows is as it is before that\n")
    assert versions(place.open("fix", factor=2)) == [0, 1]


def test_a_branch_that_read_the_files_itself_is_not_asked_to_replay(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    twice = place.open(factor=2)
    twice.replay(0, into="fix", engine="local")
    place.arrive("6")
    run(place.open())
    run(place.open("fix", factor=2))
    main(["check", code, "--against", "fix", *root])
    out = capfd.readouterr().out
    assert "`fix` has not repeated version 3, but has read the same input" in out
    assert "catch-up" not in out


def test_files_of_several_versions_that_are_gone_are_all_named(place: Place) -> None:
    for name in ("2", "3", "5"):
        (place.folder / f"in/{name}.csv").unlink()
    with pytest.raises(tm.InvalidInput) as raised:
        place.open().replay(0, into="fix", engine="local")
    assert raised.value.message == (
        "replay version 0 of branch `main`: `2.csv` of source `source` is gone, version 1: `3.csv` of source `source` "
        "is gone, version 2: `5.csv` of source `source` is gone"
    )


def test_a_branch_that_was_promoted_says_so(place: Place) -> None:
    twice = place.open(factor=2)
    twice.replay(0, into="fix", engine="local")
    twice.promote("fix")
    with pytest.raises(tm.InvalidInput, match="promote `fix`: version 3 has taken over all of it") as raised:
        twice.promote("fix")
    assert raised.value.hint == "there is nothing left to promote"
    found = twice.check(against="fix").against
    assert found is not None and found.refused == "promote `fix`: version 3 has taken over all of it"


def test_two_codes_do_not_mix_on_a_branch_by_a_sink(place: Place) -> None:
    more = place.but(with_keys())
    place.open().replay(0, into="fix", engine="local", max_batches=1)
    with pytest.raises(tm.InvalidInput, match="has versions up to 0: its versions have no sink `keys`"):
        more.open().replay(0, into="fix", engine="local")
    more.open().replay(0, into="more", engine="local", max_batches=1)
    with pytest.raises(tm.InvalidInput, match="it has sink `keys`, which this code does not have"):
        place.open().replay(0, into="more", engine="local")


def test_a_branch_of_some_operators_goes_on_with_the_recorded_files_only(place: Place) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", operators=["extra"], engine="local", max_batches=1)
    (place.folder / "in/5.csv").unlink()
    with pytest.raises(tm.InvalidInput, match="replay with operators: files='current', expected 'recorded'"):
        more.replay(0, into="more", files="current", engine="local")
    assert versions(place.open("more", extra=True)) == [0]


def test_what_is_accepted_counts_also_when_catching_up(place: Place) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", engine="local")
    more.promote("more")
    more.branch("less", more.head.version)
    place.arrive("6")
    run(more)
    run(place.open("less"))
    made = place.open().promote("less", catch_up=True, drop=["extra"], engine="local")
    assert made.kind == "promote" and list(place.open().head.state) == ["sums"]


def test_a_branch_that_ran_by_itself_and_is_behind_cannot_catch_up(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", max_batches=2)
    run(place.open("fix"))
    place.arrive("6")
    run(r)
    found = r.check(against="fix").against
    assert found is not None and found.refused is not None
    assert (found.only_behind, found.is_promotable) == (False, False)


def test_a_correction_between_a_promotion_and_the_next_run_hides_no_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    twice = place.open(factor=2)
    twice.replay(0, into="fix", engine="local")
    twice.promote("fix")
    place.arrive("6", "7")
    twice.skip("6.csv", "a test")
    caplog.clear()
    run(place.open())
    assert [one for one in caplog.messages if one.startswith("version 3 promoted a branch on which other code ran")]


def test_operators_of_a_promotion_are_recorded_also_if_a_correction_came_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", engine="local")
    before = more.head.version
    more.promote("more")
    monkeypatch.setattr("tidemill.repo.promoted.record_operators", lambda *_: None)  # the process dies before it
    more.rewind(before, "undo")
    place.arrive("6", "7")
    place.open().skip("6.csv", "a test")
    monkeypatch.undo()
    run(place.open())
    assert list(place.open().head.state) == ["sums"]
    with pytest.raises(tm.InvalidInput, match="operator `extra` has no state in this repository"):
        run(place.open(extra=True))
