"""`history` and `changes --each` go through promotions: the versions of the branch stand in the promotion's place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.place import Place
from tests.world import Build, World, over, run
from tidemill.cli.main import main


def walked(r: tm.Reader, key: str, operator: str = "sums") -> list[tuple[str, Any]]:
    return [(one.label, one.value and one.value["n"]) for one in r.history(operator, key)]


def totals(place: Place, *factors: int, key: str = "k0") -> list[int]:
    """The totals of a key after each batch of the first files, each made with a factor: a naive loop."""
    names, found = "12345", [0]
    for number, factor in enumerate(factors):
        rows = [row for name in names[2 * number : 2 * number + 2] for row in place.files[name]]
        found.append(found[-1] + sum(n * factor for k, n in rows if k == key))
    return found[1:]


def changed(r: tm.Repository, span: tuple[Any, Any], key: str) -> list[tuple[str, int, int | None, int | None]]:
    rows = r.changes("sums", *span, each=True, keys=[key]).to_pylist()
    return [
        (row["branch"], row["version"], row["before"] and row["before"]["n"], row["after"] and row["after"]["n"])
        for row in rows
    ]


def fixed(place: Place, since: int, outputs: str = "correct") -> tm.Repository:
    """Replay with twice the amounts, promote, and run once more."""
    r = place.open(factor=2)
    r.replay(since, into="fix", engine="local")
    r.promote("fix", outputs=outputs)
    place.arrive("6", "7")
    run(r)
    return r


def after_promotion(place: Place) -> list[int]:
    """The totals of `k0`: the first batch with the old code, the others with twice the amounts."""
    first, second, third = totals(place, 1, 2, 2)
    return [first, second, third, third + 2 * sum(n for name in "67" for k, n in place.files[name] if k == "k0")]


@pytest.mark.parametrize("outputs", ["correct", "keep"])
def test_the_history_of_a_key_goes_through_a_promotion(place: Place, outputs: str) -> None:
    assert walked(place.open(), "k0") == [*zip("012", totals(place, 1, 1, 1), strict=True)]
    r = fixed(place, 1, outputs)
    promoted = next(one for one in r.commits() if one.kind == "promote").version
    found = r.history("sums", "k0")
    values = after_promotion(place)
    assert walked(r, "k0") == [*zip(["0", "fix@1", "fix@2", str(promoted + 1)], values, strict=True)]
    assert [one.files for one in found] == [["1.csv", "2.csv"], ["3.csv", "4.csv"], ["5.csv"], ["6.csv", "7.csv"]]
    assert [one.kind for one in found] == ["batch"] * 4
    assert found[1].code["definition"] == found[3].code["definition"] != found[0].code["definition"]
    assert sum(row["n"] for row in found[1].rows) == values[1] - values[0], "the rows that reach the operator"
    made_by = [("main", 0), ("fix", 1), ("fix", 2), ("main", promoted + 1)]
    pairs = zip(made_by, [None, *values], values, strict=False)
    assert changed(r, (-1, r.head.version), "k0") == [(*which, before, after) for which, before, after in pairs]
    assert r.verify(deep=True).problems == []


def test_a_key_that_the_branch_removed_or_never_changed_has_no_step_of_its_own(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT k, n FROM rows WHERE k <> 'k2'")
        rows.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(world.out))

    r = place.but(build).open()
    r.replay(0, into="without", engine="local")
    r.promote("without")
    assert walked(r, "k2") == []
    values = totals(place, 1, 1, 1, key="k1")
    assert walked(r, "k1") == [*zip(["without@0", "without@1", "without@2"], values, strict=True)]
    r.rewind(2, "undo the promotion")
    assert walked(r, "k1") == [*zip("012", values, strict=True)]
    assert [value for _, value in walked(r, "k2")] == totals(place, 1, 1, 1, key="k2")


def test_promotions_one_after_the_other_and_one_within_the_other(place: Place) -> None:
    r = fixed(place, 1)
    third = place.open(factor=3)
    head = r.head.version
    third.branch("late", head - 1)
    b = place.open("late", factor=3)
    run(b)
    third.promote("late")
    place.arrive("8")
    run(third)
    found = walked(third, "k0")
    assert [label for label, _ in found] == ["0", "fix@1", "fix@2", f"late@{b.head.version}", str(third.head.version)]
    assert [row[3] for row in changed(third, (-1, third.head.version), "k0")] == [value for _, value in found]


def test_a_branch_of_a_branch_is_walked_too(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    b = place.open("fix", factor=3)
    b.branch("sub", 1)
    c = place.open("sub", factor=3)
    run(c)
    b.promote("sub")
    r3 = place.open(factor=3)
    r3.promote("fix")
    last, values = f"sub@{c.head.version}", totals(place, 2, 2, 3)
    assert walked(r3, "k0") == [*zip(["fix@0", "fix@1", last], values, strict=True)]
    assert walked(b, "k0") == [*zip(["0", "1", last], values, strict=True)]


def test_a_dropped_branch_leaves_its_promotion_as_one_step(place: Place) -> None:
    r = fixed(place, 1)
    promoted = next(one for one in r.commits() if one.kind == "promote").version
    r.drop_branch("fix")
    r.maintain()
    first, _, *rest = after_promotion(place)
    assert walked(r, "k0") == [*zip(["0", str(promoted), str(promoted + 1)], [first, *rest], strict=True)]
    assert [row[:2] for row in changed(r, (-1, r.head.version), "k0")] == [
        ("main", 0), ("main", promoted), ("main", promoted + 1)
    ]  # fmt: skip


def test_an_operator_that_began_on_the_branch_has_its_past(place: Place) -> None:
    r = place.open(extra=True)
    r.replay(0, into="more", operators=["extra"], engine="local")
    r.promote("more")
    place.arrive("6")
    run(r)
    found = [(one.label, one.value["c"]) for one in r.history("extra", "k0")]
    assert [label for label, _ in found] == ["more@0", "more@1", "more@2", str(r.head.version)]
    assert [count for _, count in found] == sorted(count for _, count in found)
    assert r.changes("extra", -1, r.head.version, each=True)["branch"].unique().to_pylist() == ["more", "main"]


def test_changes_from_a_version_that_the_state_did_not_come_from_have_the_promotion_as_a_step(place: Place) -> None:
    r = fixed(place, 1, "keep")
    promoted = next(one for one in r.commits() if one.kind == "promote").version
    assert [row[:2] for row in changed(r, (1, r.head.version), "k0")] == [
        ("main", 2), ("main", promoted), ("main", promoted + 1)
    ]  # fmt: skip


def test_people_and_machines_see_the_branch(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed(place, 1)
    monkeypatch.chdir(place.folder)
    at = ["shop.py:twice", "--root", "root"]
    assert main(["history", *at, "--operator", "sums", "--key", "k0"]) == 0
    assert "version fix@1 (batch, batch time " in capfd.readouterr().out
    assert main(["history", *at, "--operator", "sums", "--key", "k0", "--json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(one["branch"], one["version"]) for one in lines][1:3] == [("fix", 1), ("fix", 2)]
    assert main(["changes", *at, "sums", "0..4", "--each"]) == 0
    assert "fix" in capfd.readouterr().out


@pytest.mark.parametrize("renamed_on_branch", [False, True])
def test_a_renamed_operator_is_walked_without_code_as_with_it(tmp_path: Path, renamed_on_branch: bool) -> None:
    def named(name: str) -> Build:
        return over(lambda rows: rows.groupBy("k").agg(n=tm.count(), name=name))

    before = World(tmp_path, named("sums"))
    before.arrive(*([("a", number)] for number in range(4)))
    before.run()
    r, after = before.open(), before.but(named("totals"))
    if renamed_on_branch:
        r.branch("fix", at=1)
        after.open("fix").migrate(rename={"sums": "totals"}, reason="a better name")
        run(after.open("fix"))
        after.open(init=False).promote("fix", engine="local")
    else:
        r.replay(2, into="fix", engine="local")
        r.promote("fix")
        after.open(init=False).migrate(rename={"sums": "totals"}, reason="a better name")
    after.arrive([("a", 9)])
    run(after.open(init=False))
    with_code = walked(after.open(init=False), "a", "totals")
    assert [value for _, value in with_code] == [1, 2, 3, 4, 5]
    assert [label.partition("@")[0] for label, _ in with_code][:4] == ["0", "1", "fix", "fix"]
    assert walked(tm.read(after.root, after.name), "a", "totals") == with_code
