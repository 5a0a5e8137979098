"""Branches under attack: rewinds on them, promotions of promotions, two callers at once, processes that die."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.journeys.place import Place, rows, sums
from tests.world import World, run


def shows_its_history(place: Place, r: tm.Repository) -> bool:
    """Whether a plain reader finds the rows of the effective history, and each `_batch_id` and `_seq` once."""
    ids = Counter((row[2], row[3]) for row in rows(r))
    return place.lines() == sorted((row[2], row[0], row[1]) for row in rows(r)) and set(ids.values()) <= {1}


def counts(place: Place) -> Counter[str]:
    return Counter(key for those in place.files.values() for key, _ in those)


def failing(place: Place, key: str) -> tm.Repository:
    """Another pipeline over the same files, with a function that fails on a key."""

    def add(k: str, row: Any, state: Any) -> Any:
        if k == key:
            raise ValueError("unlucky")
        state.update((state.getOption or 0) + row.n)
        return (k, state.get)

    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("k").mapWithState(
            tm.StateSpec.function(add), stateSchema="int", outputSchema="k string, n int", name="keys",
            on_error="quarantine",
        )  # fmt: skip

    return World(place.folder, build, name="keys", **{**place.options, "maxFilesPerTrigger": None}).open()


def test_no_later_version_has_the_number_of_promoted_rows(place: Place) -> None:
    r = place.open()
    r.branch("fix", -1)
    run(place.but(maxFilesPerTrigger=1).open("fix"))
    with dying("create", r"main/commits/0000000004\.json$", "before"):
        r.promote("fix")
    made = place.open().promote("fix")
    r = place.open()
    assert [commit.kind for commit in r.commits(3)] == ["void", "promote"] and made.version == 4
    place.arrive("6")
    run(r)
    r.maintain(compact_sinks=True)
    assert shows_its_history(place, r)
    r.rewind(made.version, "a test")
    assert shows_its_history(place, r)


def test_a_compacted_promotion_of_a_promotion_is_split_again(place: Place) -> None:
    place.open().branch("one", 0)
    one = place.open("one")
    run(one)
    one.branch("two", 1)
    run(place.open("two", factor=2))
    place.open("one", factor=2).promote("two")
    r = place.open(factor=2)
    made = r.promote("one").version
    for name in ("two", "one"):
        r.drop_branch(name)
    place.arrive("6")
    run(r)
    r.maintain(compact_sinks=True)
    r.rewind(made, "a test")
    assert shows_its_history(place, r)


def test_promotions_that_keep_outputs_may_follow_each_other(place: Place) -> None:
    r = place.open()
    for name in ("one", "two"):
        r.replay(0, into=name, engine="local")
        r.promote(name, outputs="keep")
    r.branch("three", 0)
    run(place.open("three"))
    with pytest.raises(tm.InvalidInput, match="version 4 has taken over version 2 of branch `two` since it started"):
        r.promote("three")


def test_a_replay_from_a_version_that_does_not_count_makes_no_branch(place: Place) -> None:
    r = place.open()
    r.rewind(0, "a test")
    with pytest.raises(tm.InvalidInput, match="replay from version 2: version 1 was rewound, or a promotion replaced"):
        r.replay(2, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


@pytest.mark.parametrize("operators", [None, ["sums"]])
def test_a_replay_does_not_take_the_plan_of_a_run_for_its_own(place: Place, operators: list[str] | None) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", max_batches=1, operators=operators)
    (place.folder / "in/2.csv").touch()
    with dying("create", r"fix-1/commits/0000000001\.json$", "before"):
        run(place.open("fix"))
    with pytest.raises(tm.InvalidInput, match="replay into branch `fix`: its plan 1 is of a batch of its own"):
        place.open().replay(0, into="fix", engine="local")
    assert place.open("fix").head.version == 0


def test_a_replay_does_not_carry_out_a_plan_that_was_rewound_since(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local", max_batches=1)
    with dying("create", r"fix-1/commits/0000000001\.json$", "before"):
        r.replay(0, into="fix", engine="local")
    r = place.open()
    r.rewind(0, "a test", without=["3.csv"])
    run(r)
    with pytest.raises(tm.InvalidInput, match="its plan 1 is of version 1, which was rewound"):
        r.replay(0, into="fix", engine="local")


def test_of_two_replays_into_a_branch_each_goes_on_after_the_other(place: Place) -> None:
    place.arrive("6", "7", "8", "9")
    r = place.open()
    run(r)
    others = iter([2])

    def meanwhile(_: object) -> None:
        for batches in others:
            place.open().replay(0, into="fix", engine="local", max_batches=batches)

    r.replay(0, into="fix", engine="local", on_progress=meanwhile)
    b = place.open("fix")
    assert [commit.replays.version for commit in b.commits()] == [0, 1, 2, 3, 4]
    assert sums(b) == place.sums()


def test_a_branch_that_was_dropped_while_a_promotion_died_is_no_obstacle(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local")
    with dying("create", r"main/commits/0000000003\.json$", "before"):
        r.promote("fix")
    r = place.open()
    r.drop_branch("fix")
    r.maintain()
    assert r.verify(deep=True).problems == []
    place.arrive("6")
    run(r)
    r.maintain()
    assert not list((place.folder / "root").glob("shop/state/sums/*/fix-1/*"))


def test_a_replay_into_a_branch_that_is_dropped_meanwhile_ends(place: Place) -> None:
    def drop(_: object) -> None:
        place.open().drop_branch("fix")

    with pytest.raises(tm.InvalidInput, match="write to dropped branch `fix`"):
        place.open().replay(0, into="fix", engine="local", on_progress=drop)
    with pytest.raises(tm.InvalidInput, match="unknown branch `fix`"):
        place.open("fix")


def test_versions_are_kept_while_some_operators_are_replayed(place: Place) -> None:
    done: list[object] = []

    def maintain(_: object) -> None:
        if not done:
            done.append(place.open().maintain(keep_versions=1))

    r = place.open(extra=True)
    r.replay(0, into="fix", operators=["extra"], engine="local", on_progress=maintain)
    assert sums(place.open("fix", extra=True), "extra") == counts(place)
    r.promote("fix")
    assert r.verify(deep=True).problems == []
    r.drop_branch("fix")
    place.arrive("6")
    run(r)
    r.maintain(keep_versions=1)
    assert not list((place.folder / "root").glob("shop/output/sums/main/0000000001*")), "it is not kept for ever"


def test_init_after_a_promotion_adds_an_operator(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    place.open(factor=2, extra=True).init()
    place.arrive("6")
    assert run(place.open(factor=2, extra=True)) == [4]


def test_an_operator_does_not_start_empty_after_its_promotion_was_rewound(place: Place) -> None:
    r = place.open(extra=True)
    r.replay(0, into="fix", engine="local")
    with dying("create", r"refs/0000000003\.json$", "before"):
        r.promote("fix")
    r = place.open(extra=True)
    run(r)
    made = r.head.version
    r.rewind(1, "undo")
    with pytest.raises(tm.InvalidInput, match="operator `extra` has no state in this repository"):
        run(place.open(extra=True))
    assert run(place.open()) == [5]
    place.open().rewind(made, "redo")
    place.arrive("6")
    run(place.open(extra=True))
    assert sums(place.open(extra=True), "extra") == counts(place)


def test_an_operator_comes_back_if_the_promotion_that_ended_it_is_rewound(place: Place) -> None:
    more = place.open(extra=True)
    more.replay(0, into="more", engine="local")
    before = more.promote("more").version
    r = place.open()
    r.replay(0, into="less", engine="local")
    with pytest.raises(
        tm.InvalidInput, match="promote `less`: it does not have operator `extra`, whose state would end"
    ):
        r.promote("less")
    r.promote("less", drop=["extra"])
    place.arrive("6")
    run(r)
    r.rewind(before, "undo")
    run(place.open(extra=True))
    assert sums(place.open(extra=True), "extra") == counts(place)


def test_a_rewind_on_a_branch_keeps_the_operators_that_began_there(place: Place) -> None:
    place.open(extra=True).replay(0, into="fix", engine="local")
    b = place.open("fix", extra=True)
    b.rewind(1, "a test")
    run(b)
    assert sums(b, "extra") == counts(place)


def test_a_promotion_without_a_batch_leaves_the_operators(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.arrive("1")
    r = place.open()
    r.skip("1.csv", "a test")
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    place.arrive("2")
    assert run(place.open()) == [2]


def test_rows_of_a_version_that_a_promotion_replaced_are_not_requeued(place: Place) -> None:
    for name in place.files:
        place.put(name, place.files[name])
    run(failing(place, "k1"))
    r = failing(place, "none")
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    with pytest.raises(tm.InvalidInput, match="requeue version 0: version 1, a promotion, replaced it"):
        r.requeue(0)


def other_sums(place: Place, sink: bool = True, **aggregates: Any) -> tm.Repository:
    """The pipeline with another declaration of `sums`."""

    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("k").agg(**(aggregates or {"n": tm.sum("n")}), name="sums")
        if sink:
            made.write(tm.Json(world.out))

    return place.but(build).open()


def test_operators_that_do_not_fit_are_found_before_a_branch_is_made(place: Place) -> None:
    r = other_sums(place, n=tm.max("n"))
    with pytest.raises(tm.InvalidInput, match="operator `sums` has state made with `n` = sum"):
        r.replay(1, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_an_operator_with_other_state_is_replayed_from_the_beginning(place: Place) -> None:
    r = other_sums(place, m=tm.max("n"))
    r.replay(0, into="fix", engine="local")
    with pytest.raises(tm.InvalidInput, match="sink `sums` .* has columns"):
        r.promote("fix")
    made = r.promote("fix", accept_output_change=True)
    assert sums(r) == {
        key: max(n for those in place.files.values() for k, n in those if k == key) for key in counts(place)
    }
    place.arrive("6")
    run(r)
    place.open().rewind(2, "undo")
    place.arrive("7")
    run(place.open(), accept_output_change=True)
    assert sums(place.open()) == place.sums() and shows_its_history(place, place.open())
    r.rewind(made.version, "redo")
    run(r, accept_output_change=True)
    assert sums(r) == {
        key: max(n for those in place.files.values() for k, n in those if k == key) for key in counts(place)
    }
    assert r.verify(deep=True).problems == []


def test_requeued_rows_that_are_not_kept_are_found_before_a_branch_is_made(place: Place) -> None:
    r = place.open()
    found = r.quarantine(0, export=True)
    fixed = found.set_column(found.column_names.index("k"), "k", [["k9"] * found.num_rows])
    r.requeue(0, rows=fixed.set_column(fixed.column_names.index("n"), "n", [[7] * found.num_rows]))
    run(r)
    place.arrive("6", "7")
    run(r)
    r.maintain(keep_versions=1)
    with pytest.raises(
        tm.InvalidInput, match="replay version 3 of branch `main`: the rows that it requeued are no longer kept"
    ):
        r.replay(0, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_a_level_branch_that_ran_by_itself_needs_no_catching_up(place: Place) -> None:
    r = place.open()
    r.branch("fix", 0)
    run(place.open("fix"))
    assert r.promote("fix", catch_up=True, engine="local").version == 3


def test_files_for_another_kind_of_sink_are_not_promoted(place: Place) -> None:
    other_sums(place, sink=False).replay(1, into="fix", engine="local")
    before = place.lines()
    with pytest.raises(tm.InvalidInput, match="has files of sink `sums` for the kind none, this code declares json"):
        place.open().promote("fix")
    assert place.lines() == before
