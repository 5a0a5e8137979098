"""`promote`: a branch takes the place of the versions since its start, with its outputs, and a rewind undoes it."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.journeys.place import Place, bag, rows, sums
from tests.world import World, run


def test_a_promotion_takes_the_place_of_the_versions_since_the_fork_and_can_be_undone(place: Place) -> None:
    r = place.open()
    changed = place.open(factor=2)
    before = place.lines()
    changed.replay(1, into="fix", engine="local")
    place.arrive("6")
    run(r)
    later = place.lines()
    with pytest.raises(tm.InvalidInput, match=r"it has not read the input of version 3 \(`6.csv`\)"):
        changed.promote("fix")
    assert place.lines() == later
    made = changed.promote("fix", "twice", catch_up=True, engine="local")
    assert (made.version, made.kind, made.reason, made.replaced) == (4, "promote", "twice", [(1, 3)])
    assert sums(changed) == sums(place.open("fix", factor=2))
    assert [row for row in place.lines() if row[0] == 0] == [row for row in before if row[0] == 0]
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []
    assert bag(changed.quarantine()) == bag(place.open("fix", factor=2).quarantine())
    changed.drop_branch("fix")
    changed.maintain()
    assert changed.verify(deep=True).problems == []
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    place.arrive("7")
    assert run(changed) == [5]
    changed.rewind(3, "undo")
    assert place.lines() == later and sums(place.open(factor=2)) == place.sums(without=("7",))
    changed.rewind(4, "redo")
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []


def test_a_compacted_sink_follows_a_promotion_and_is_split_again(place: Place) -> None:
    r = place.open()
    place.arrive("6", "7", "8", "9")
    run(r)
    changed = place.open(factor=2)
    changed.replay(3, into="fix", engine="local")
    r.maintain(compact_sinks=True)
    assert len(list((place.folder / "out").glob("*.json"))) == 1
    made = changed.promote("fix").version
    expected = sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert place.lines() == expected
    place.arrive("10")
    run(changed)
    changed.maintain(compact_sinks=True)
    assert len(list((place.folder / "out").glob("*.json"))) == 1
    head = changed.head.version
    changed.rewind(made, "to the promotion")
    assert place.lines() == expected
    changed.rewind(made - 1, "before it")
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    changed.rewind(head, "after it")
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []


def test_a_promotion_may_leave_what_was_published_as_it_is(place: Place) -> None:
    changed = place.open(factor=2)
    changed.replay(0, into="fix", engine="local")
    before, known = place.lines(), rows(place.open())
    changed.promote("fix", outputs="keep")
    assert sums(changed) == place.sums(2)
    assert place.lines() == before and rows(changed) == known
    place.arrive("6")
    assert run(changed) == [4]
    assert changed.verify(deep=True).problems == []


def test_a_branch_that_ran_by_itself_is_promoted_if_it_has_read_everything(place: Place) -> None:
    r = place.open(factor=2)
    r.branch("fix", at=-1)
    b = place.open("fix", factor=2)
    run(b)
    place.arrive("6")
    run(b)
    r.promote("fix")
    assert sums(r) == place.sums(2)
    assert run(r) == [], "the branch has read it"


def test_a_wrong_promotion_changes_nothing(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(1, into="fix", engine="local")
    before = r.head
    for name, said in (("main", "it is this branch itself"), ("nix", "unknown branch `nix`")):
        with pytest.raises(tm.InvalidInput, match=said):
            r.promote(name)
    with pytest.raises(tm.InvalidInput, match="outputs='all', expected one of correct, keep"):
        r.promote("fix", outputs="all")
    r.branch("empty")
    for catch_up in (False, True):
        with pytest.raises(tm.InvalidInput, match="it has no version of its own"):
            r.promote("empty", catch_up=catch_up, engine="local")
    place.open("fix", factor=2).branch("nested")
    place.arrive("8")
    run(place.open("nested", factor=2))
    for catch_up in (False, True):
        with pytest.raises(tm.InvalidInput, match="it starts from branch `fix`, not from `main`") as refused:
            place.open(factor=2).promote("nested", catch_up=catch_up, engine="local")
        assert refused.value.hint == "promote it into `fix`, and then that branch"
    assert place.open().head == before
    r.branch("late", at=2)
    place.arrive("6")
    run(place.open("late", factor=2))
    r.rewind(0, "a test")
    with pytest.raises(tm.InvalidInput, match="promote `late`: version 2, from which it starts, was rewound"):
        r.promote("late")


def test_a_branch_that_missed_a_correction_is_not_promoted(place: Place) -> None:
    r = place.open()
    r.branch("one", 0)
    r.branch("two", 0)
    for name in ("one", "two"):
        run(place.open(name))
    r.promote("one")
    with pytest.raises(tm.InvalidInput, match="version 3 has taken over version 2 of branch `one` since it started"):
        r.promote("two")
    r.rewind(2, "undo")
    r.rewind(0, "without a file", without=["4.csv"])
    run(r)
    with pytest.raises(tm.InvalidInput, match="it has read `4.csv`, which version 5 took out of the input"):
        r.promote("two")
    assert sums(r) == place.sums(without=("4",))


def test_quarantine_with_a_limit_knows_the_files_of_other_branches(place: Place) -> None:
    r = place.open()
    r.branch("fix", 0)
    b = place.open("fix")
    run(b)
    assert b.quarantine(limit=3).to_pylist() == b.quarantine().slice(0, 3).to_pylist()
    assert b.quarantine(limit=1)["version"].to_pylist() == [0]
    r.promote("fix")
    r.drop_branch("fix")
    assert r.quarantine(limit=3).to_pylist() == r.quarantine().slice(0, 3).to_pylist()


def test_a_branch_of_a_branch_is_promoted_with_its_outputs(place: Place) -> None:
    r = place.open()
    r.branch("one", 0)
    one = place.open("one")
    run(one)
    one.branch("two", 1)
    two = place.open("two", factor=2)
    run(two)
    with pytest.raises(tm.InvalidInput, match="it starts from branch `one`, not from `main`"):
        place.open(factor=2).promote("two")
    place.open("one", factor=2).promote("two")
    expected = [row[:2] for row in rows(place.open("one", factor=2))]
    r = place.open(factor=2)
    r.promote("one")
    assert [row[:2] for row in rows(r)] == expected
    assert sorted(row[1:] for row in place.lines()) == sorted(expected)
    assert r.verify(deep=True).problems == []


def test_an_undone_promotion_leaves_the_format_of_its_sinks_to_the_code_before(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Parquet(world.out))

    other = place.but(build, maxFilesPerTrigger=None).open
    other().replay(0, into="fix", engine="local")
    with pytest.raises(tm.InvalidInput, match="has format `json`, this code writes `parquet`"):
        other().promote("fix")
    made = other().promote("fix", accept_output_change=True)
    other().rewind(made.version - 1, "undo")
    place.arrive("6")
    with pytest.raises(tm.InvalidInput, match="has format `json`, this code writes `parquet`"):
        run(other())
    assert run(place.open()) == [made.version + 2]
    assert sums(place.open()) == place.sums()
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in rows(place.open()))
    other().rewind(made.version, "redo")
    with pytest.raises(tm.InvalidInput, match="has format `parquet`, this code writes `json`"):
        run(place.open())
    assert run(other()) == [made.version + 4]
    assert other().verify(deep=True).problems == []


def test_a_replay_that_has_repeated_only_corrections_continues_with_this_code(place: Place) -> None:
    place.arrive("6", "7")
    r = place.open()
    r.skip("6.csv", "a test")
    changed = place.open(factor=2)
    assert changed.replay(3, into="fix", engine="local").versions == []
    assert place.open("fix").head.kind == "skip"
    run(r)
    assert changed.replay(3, into="fix", engine="local").versions == [4]
    place.arrive("8")
    run(r)
    with pytest.raises(tm.InvalidInput, match="other code made its versions: operator `sums`"):
        place.open(factor=3).replay(3, into="fix", engine="local")
    changed.promote("fix", catch_up=True, engine="local")
    before = place.sums(1, without=("6", "7", "8"))
    assert sums(changed) == {k: before[k] + 2 * (place.sums(without=("6",))[k] - before[k]) for k in before}


@pytest.mark.parametrize("of", ["output/sums", "state/sums"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_branch_that_lost_an_object_is_not_promoted(place: Place, of: str, is_there: bool) -> None:
    place.open(factor=2).replay(0, into="fix", engine="local")
    lost = next(path for path in sorted((place.folder / "root/shop" / of).rglob("fix-1/*")))
    lost.write_bytes(b"") if is_there else lost.unlink()
    said = "found 0 bytes, expected" if is_there else "the object is missing"
    with pytest.raises(tm.CorruptState, match=rf"promote `fix`: `{of}/.*/?{lost.name}`: {said}"):
        place.open(factor=2).promote("fix")
    place.arrive("6")
    assert run(place.open()) == [3], "the pipeline goes on"
    assert sums(place.open()) == place.sums()
