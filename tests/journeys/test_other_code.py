"""Which operators and sinks the code makes otherwise than was recorded: after a promotion, in `check`, in a replay."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.place import Place
from tests.journeys.test_replay_operators import Code, Shop
from tests.world import Build, World, run
from tidemill.cli.main import main
from tidemill.pipeline.definition import definitions
from tidemill.repo.code import OtherCode


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_a_run_after_a_promotion_with_the_code_of_the_branch_says_nothing(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.open(factor=2).replay(0, into="fix", engine="local")
    made = place.open(factor=2).promote("fix")
    assert made.code["definitions"] == place.open("fix", factor=2).head.code["definitions"]
    place.arrive("6")
    warnings(caplog)
    assert run(place.open(factor=2)) == [made.version + 1]
    assert warnings(caplog) == []


def test_a_run_with_the_old_code_after_a_promotion_goes_on_and_says_so_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.open(factor=2).replay(0, into="fix", engine="local")
    place.open(factor=2).promote("fix")
    place.arrive("6")
    warnings(caplog)
    assert run(place.open()) == [4]
    (said,) = warnings(caplog)
    assert said == (
        "version 3 promoted a branch on which other code ran than this; the difference is in operator `sums`. This run "
        "goes on. If you did not mean that, end it, and run with the code of the branch"
    )
    place.arrive("7")
    assert run(place.open()) == [5]
    assert warnings(caplog) == []


def test_operators_and_sinks_of_other_code_are_listed_by_kind() -> None:
    found = OtherCode(3, ["counts", "sums"], ["alerts", "sums"])
    assert found.names == "operators `counts` and `sums`, sink `alerts`"


def test_check_names_what_is_made_by_other_code_than_before(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = place.open().check()
    assert (found.status, bool(found.other_code)) == ("compatible", False)
    found = place.open(factor=2).check()
    assert (found.status, found.other_code.operators, found.other_code.version) == ("compatible", ["sums"], 2)
    place.open().rewind(1, "a commit without definitions")
    assert place.open(factor=2).check().other_code.operators == ["sums"]
    monkeypatch.chdir(place.folder)
    assert main(["check", "shop.py:twice", "--root", "root"]) == 0
    assert "other code than in version 3: operator `sums`" in capfd.readouterr().out
    assert main(["check", "shop.py:twice", "--root", "root", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)["other_code"]
    assert shown == {"version": 3, "operators": ["sums"], "sinks": ["sums"]}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    r = made.open(init=True)
    made.arrive(*range(1, 5))
    run(r)
    return made


def test_a_replay_of_some_operators_names_the_others_that_this_code_makes_otherwise(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    changed = shop.open(code=Code(factor=2))
    made = changed.replay(0, into="fix", operators=["per-hour"], engine="local")
    found = {one.name: one for one in made.left_alone}
    assert found["last"].versions == [0, 1, 2, 3]
    assert not found["last"].feeds
    assert found["last"].message == (
        "operator `last` has other code than in versions 0–3 but is not replayed. Add it to `--operators` if its "
        "results would differ"
    )
    assert [one.message for one in made.left_alone] == [one for one in warnings(caplog) if "other code" in one]
    branch = shop.open("fix", code=Code(factor=2)).head
    recorded = shop.open().head.code["definitions"]["operators"]
    assert branch.code["definitions"]["operators"]["last"] == recorded["last"], "it is as recorded"
    assert shop.open("fix", code=Code(factor=2)).check().other_code.operators == sorted(found)


def chained(text: str) -> Build:
    def build(p: tm.Pipeline, world: World) -> None:
        sums = world.read(p).sql(text).groupBy("k").agg(n=tm.sum("n"), name="sums")
        sums.groupBy("k").agg(most=tm.max("n"), name="most")

    return build


def test_a_replay_says_if_an_operator_that_feeds_it_is_made_otherwise(place: Place) -> None:
    before, after = "SELECT k, n FROM rows", "SELECT k, n + 0 AS n FROM rows"
    options = {**place.options, "maxFilesPerTrigger": None}
    world = World(place.folder, chained(before), name="chain", **options)
    r = world.open()
    run(r)
    made = world.but(chained(after)).open(init=False).replay(0, into="fix", operators=["most"], engine="local")
    (alone,) = made.left_alone
    assert (alone.kind, alone.name, alone.versions, alone.feeds) == ("operator", "sums", [0], True)
    assert alone.message == (
        "operator `sums` has other code than in version 0 but is not replayed; replayed operators read what this code "
        "makes of it. Add it to `--operators` if its results would differ"
    )
    assert r.diff("main", "fix").total == 0


def test_a_replay_with_the_same_code_leaves_nothing_alone(shop: Shop) -> None:
    made = shop.open().replay(0, into="same", operators=["last"], engine="local")
    assert made.left_alone == []
    assert dataclasses.asdict(made)["left_alone"] == []


def test_digests_are_taken_before_the_first_batch_and_only_if_something_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr("tidemill.repo.open.definitions", lambda job: taken.append(1) or definitions(job))

    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def seen(self, key: str, rows: Any, state: tm.State) -> Any:
            self.calls += 1
            state.update(self.calls)
            return (key, self.calls)

    def build(p: tm.Pipeline, world: World) -> None:
        spec = tm.StateSpec.function(Counting().seen)
        counting = world.read(p).groupBy("k")
        counting.mapWithState(spec, stateSchema="int", outputSchema="k string, n int", name="seen")

    world = World(tmp_path, build)
    world.arrive("a,1\n", "a,1\n")
    r = world.open()
    assert run(r) == [0, 1]
    assert taken == [1]
    first, second = (one.code["definitions"] for one in r.commits())
    assert first == second, "although the fields of the object changed in between"
    assert not world.open(init=False).check().other_code
    reader = world.open(init=False)
    taken.clear()
    assert reader.state("seen").num_rows == 1 and len(reader.log()) == 2 and reader.status().head == 1
    assert taken == []
