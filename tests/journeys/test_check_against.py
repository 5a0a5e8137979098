"""`check` against a branch: what a change of code would change, in figures, for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.place import Place
from tests.world import Build, World, over, run
from tidemill.cli.main import main


def test_the_same_code_changes_nothing(place: Place) -> None:
    r = place.open()
    r.replay(0, into="same", engine="local")
    report = r.check(against="same")
    found = report.against
    assert (report.status, report.version) == ("compatible", 2)
    assert found.is_equal and found.refused is None and found.behind == []
    assert (found.before, found.after) == ("main@2", "same@2")
    assert {name: (one.keys, one.total, one.largest) for name, one in found.operators.items()} == {"sums": (3, 0, [])}


def test_a_change_is_counted_and_the_largest_change_is_found(place: Place) -> None:
    r = place.open(factor=-2, extra=True)
    r.replay(0, into="fix", engine="local")
    found = r.check(against="fix").against
    sums, extra = found.operators["sums"], found.operators["extra"]
    most = max(place.sums(), key=lambda key: place.sums()[key])
    (largest,) = sums.largest
    assert (sums.keys, sums.changed, sums.added, sums.removed) == (3, 3, 0, 0)
    assert (largest.key, largest.column) == ({"k": most}, "n")
    assert (largest.before, largest.after) == (place.sums()[most], -2 * place.sums()[most])
    assert (extra.keys, extra.added, extra.largest) == (0, 3, [])
    assert found.sinks["sums"].added == found.sinks["sums"].removed > 0
    assert not found.is_equal


def test_a_branch_that_is_behind_is_compared_at_the_version_that_it_repeats(place: Place) -> None:
    r = place.open()
    r.replay(0, to_version=1, into="same", engine="local")
    found = r.check(against="same").against
    assert (found.before, found.after, found.behind, found.is_equal) == ("main@1", "same@1", [2], True)
    assert found.is_promotable, "because it only has to catch up"
    assert found.refused is not None and "it has not read the input of version 2" in found.refused
    r.rewind(0, "a test")
    found = place.open().check(against="same").against
    assert found.refused == "promote `same`: version 1, which it repeats, was rewound"


def test_versions_that_a_branch_ran_by_itself_are_named(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    place.arrive("6")
    run(place.open("fix", factor=2))
    found = r.check(against="fix").against
    assert (found.own, found.behind, found.refused) == ([3], [], None)
    assert not r.check(against="fix").against.is_equal, "because only the branch has read 6.csv"
    root = ["--root", str(place.folder / "root")]
    assert main(["check", f"{place.folder / 'shop.py'}:twice", *root, "--against", "fix"]) == 0
    said = capfd.readouterr().out
    assert "`fix` ran version 3 by itself, so it may have read other files than main@2" in said


def test_the_code_is_compared_with_the_branch(place: Place) -> None:
    new = place.open(extra=True)
    assert new.check().status == "needs init"
    new.replay(0, into="fix", operators=["extra"], engine="local")
    report = new.check(against="fix")
    assert report.status == "compatible"
    assert [name for name, one in report.against.operators.items() if one.total] == ["extra"]


def test_tolerance_deadlines_and_what_cannot_be_compared(tmp_path: Path) -> None:
    def lasting(timeout: str, factor: float) -> Build:
        def last(batch_time: int, key: str, row: object, state: object) -> object:
            if not state.isTimingOut:
                state.update(row.n * factor)
            return (key, 1.0)

        spec = tm.StateSpec.function(last).timeout(timeout)
        return over(lambda rows: rows.groupBy("k").mapWithState(spec, "double", "k string, n double", name="last"))

    world = World(tmp_path, lasting("1 day", 1.0), schema="k string, n double")
    world.put("1", "a,1.5\nb,2\n")
    r = world.open()
    run(r)
    near = world.but(lasting("1 day", 1.0 + 1e-9)).open(init=False)
    later = world.but(lasting("2 days", 1.0)).open(init=False)
    near.replay(0, into="near", engine="local")
    later.replay(0, into="later", engine="local")
    assert not r.check(against="near").against.is_equal
    assert r.check(against="near", tolerance=1e-6).against.is_equal
    found = r.check(against="later").against
    assert (found.operators["last"].deadlines, found.is_equal) == (2, False)


def test_a_state_with_another_column_is_compared_by_those_that_both_have(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT k, n * 2 AS n FROM rows")
        rows.groupBy("k").agg(m=tm.max("n"), n=tm.sum("n"), name="sums").write(tm.Json(world.out))

    r = place.but(build).open()
    r.replay(0, into="fix", engine="local")
    found = r.check(against="fix").against
    changes, most = found.operators["sums"], max(place.sums().values())
    assert [(one.column, one.before, one.after) for one in changes.largest] == [("n", most, 2 * most)]
    assert changes.not_compared == ["`m`: only in fix@2"]
    assert found.refused is not None and "readers of the sink would find both" in found.refused


def test_what_is_refused(place: Place) -> None:
    r = place.open()
    with pytest.raises(tm.InvalidInput, match="unknown branch `nope`"):
        r.check(against="nope")
    with pytest.raises(tm.InvalidInput, match="it is the branch that is open"):
        r.check(against="main")
    r.branch("empty")
    with pytest.raises(tm.InvalidInput, match="it has no version of its own"):
        r.check(against="empty")


def test_the_command_line(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code = (place.folder / "shop.py").read_text() + (
        "\nonce = tm.Pipeline('shop')\n"
        "lines = once.read(tm.Files(str(here / 'in'), format='csv', schema='k string, n int', mode='PERMISSIVE'))\n"
        "lines.groupBy('k').agg(n=tm.sum('n'), name='sums').write(tm.Json(str(here / 'out')))\n"
    )
    (place.folder / "shop.py").write_text(code)
    root = ["--root", str(place.folder / "root")]
    twice, once = (f"{place.folder / 'shop.py'}:{name}" for name in ("twice", "once"))
    assert main(["replay", twice, *root, "--from", "0", "--into", "fix", "--engine", "local"]) == 0
    assert main(["replay", once, *root, "--from", "0", "--into", "same", "--engine", "local"]) == 0
    capfd.readouterr()
    assert main(["check", twice, *root, "--against", "fix"]) == 0
    text = capfd.readouterr().out
    most = max(place.sums().items(), key=lambda one: one[1])
    assert text.splitlines() == [
        "code: compatible, compared with version 2 of branch `fix`",
        "main@2 → fix@2",
        "operator `sums`: 3 of 3 keys differ: 0 added, 0 removed, 3 changed",
        f"  largest change of `n`: {most[1]} → {2 * most[1]} for k {most[0]}",
        "sink `sums`: 9 rows added, 9 removed",
    ]
    assert main(["check", twice, *root, "--against", "fix", "--fail-if-different"]) == 1
    assert main(["check", once, *root, "--against", "same", "--fail-if-different"]) == 0
    assert "main@2 → same@2: no difference" in capfd.readouterr().out
    assert main(["check", twice, *root, "--against", "fix", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert {name: found[name] for name in ("verb", "status", "head", "branch", "version", "published")} == {
        "verb": "check", "status": "compatible", "head": 2, "branch": "main", "version": 2, "published": [],
    }  # fmt: skip
    assert found["against"]["operators"]["sums"]["changed"] == 3 and found["against"]["is_equal"] is False
    assert main(["check", twice, *root, "--fail-if-different"]) == 2


def test_the_result_for_machines_has_what_others_have(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    place.open().branch("fix")
    assert main(["check", code, "--branch", "fix", "--json", *root]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["verb"], found["branch"], found["head"], found["version"]) == ("check", "fix", 2, 2)
    assert main(["check", code, "--json", "--root", str(place.folder / "elsewhere")]) == 1
    found = json.loads(capfd.readouterr().out)
    assert (found["verb"], found["branch"], found["head"], found["status"]) == ("check", "main", -1, "needs init")
    assert found.keys() == {
        "event", "verb", "status", "versions", "already_committed", "published", "head", "branch", "version",
        "differences", "other_code",
    }  # fmt: skip


def test_why_a_branch_cannot_be_promoted_is_said_once_and_with_what_helps(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    code, root = f"{place.folder / 'shop.py'}:twice", ["--root", str(place.folder / "root")]
    assert main(["replay", code, *root, "--from", "0", "--to", "1", "--into", "fix", "--engine", "local"]) == 0
    assert "`fix` is level with `main` up to version 1" in capfd.readouterr().out
    assert main(["check", code, *root, "--against", "fix"]) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last == "`fix` has not repeated version 2; replay on, or promote with --catch-up"
    place.open().rewind(0, "a test")
    assert main(["check", code, *root, "--against", "fix", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["against"]["is_promotable"] is False
    assert main(["check", code, *root, "--against", "fix"]) == 1
    assert capfd.readouterr().out.splitlines()[-2:] == [
        "it cannot be promoted: version 1, which it repeats, was rewound", "  hint: replay into a new branch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("long", [(2**53, 2**53 + 1), (2**53, 2**53 + 3), (-(2**63), 2**63 - 1)]),
        ("decimal(38,2)", [("9" * 36, "9" * 35 + "8"), ("9" * 36, "9" * 35 + "7"), ("-" + "9" * 36, "9" * 36)]),
        (
            "decimal(38,38)",
            [("0." + "0" * 37 + "1", "0." + "0" * 37 + "3"), ("0.1", "0." + "0" * 37 + "1"), ("0", "0.2")],
        ),
        ("float", [(1.0, 1.5), (2.0, 4.0), (-3.0, 5.0)]),
    ],
)
def test_the_largest_change_is_exact(tmp_path: Path, kind: str, values: list[tuple[object, object]]) -> None:
    def of(side: int, size: int) -> Build:
        cases = [f"WHEN 'k{place}' THEN '{pair[side]}'" for place, pair in enumerate(values[:size])]
        numbers = f"SELECT k, CAST(CASE k {' '.join(cases)} END AS {of_sql}) AS n FROM rows"
        return over(lambda rows: rows.sql(numbers).groupBy("k").agg(n=tm.max("n"), name="most"))

    of_sql = {"long": "bigint"}.get(kind, kind)
    for size in (1, 2, 3):
        world = World(tmp_path, of(0, size), root=f"root-{size}", schema="k string")
        world.put("1", [(f"k{place}",) for place in range(size)])
        world.run()
        other = world.but(of(1, size)).open(init=False)
        other.replay(0, into="fix", engine="local")
        (largest,) = other.check(against="fix").against.operators["most"].largest
        assert largest.key == {"k": f"k{size - 1}"}
