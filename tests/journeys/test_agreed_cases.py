"""Every other verb that changes a repository: what was shown differs from what is now, so nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

import tidemill as tm
from tests.journeys.migrated import Place as Bank
from tests.journeys.migrated import euros, sums, to_euros
from tests.journeys.place import placed
from tests.journeys.requeued import begin
from tests.journeys.shop import arrive, opened, world
from tests.journeys.test_agreed import called, stored
from tests.world import run
from tidemill.actions import carry_out
from tidemill.actions.registry import ACTIONS
from tidemill.cli.main import main


@dataclass(frozen=True)
class Case:
    """A verb: how its repository begins, the call, what happens in the meantime, and how its first line begins."""

    begin: Callable[[Path], tm.Repository]
    act: Callable[..., Any]
    meanwhile: Callable[[Path, tm.Repository], object]
    line: str


def quarantined(folder: Path) -> tm.Repository:
    """Two rows of version 0 are in quarantine, and a file has them corrected."""
    shop = begin(folder)
    (folder / "rows.json").write_text("".join(_row(number, n) for number, n in ((0, 20), (1, 30))))
    return shop.open()


def _row(number: int, n: int) -> str:
    row = {"_version": 0, "_row_id": number, "id": number + 2, "k": "b", "n": n, "ts": "2024-01-01T00:00:02"}
    return json.dumps(row) + "\n"


def two(folder: Path, root: str = "root", names: str = "ab") -> tm.Repository:
    r = opened(folder, root)
    arrive(folder, *names)
    run(r)
    return r


def tagged(folder: Path) -> tm.Repository:
    r = two(folder)
    r.tag("good", 0)
    return r


def forked(folder: Path) -> tm.Repository:
    """Branch `fix` starts at version 0, and has not read the second file."""
    r = two(folder)
    r.branch("fix", 0)
    return r


def moved(folder: Path) -> tm.Repository:
    """A repository that was made at another place."""
    two(folder, "first")
    (folder / "first").rename(folder / "root")
    return world(folder).open(init=False)


def other_columns(folder: Path) -> tm.Repository:
    """Code that declares other columns than those of the state."""
    bank = Bank(folder)
    bank.begun(sums(), users=3)
    return bank.opened(euros())


def branched(folder: Path) -> tm.Repository:
    """Other code has repeated all versions on the branch `fix`."""
    place = placed(folder)
    place.open(factor=2).replay(0, into="fix", engine="local")
    return place.open(factor=2)


CASES = {
    "requeue": Case(
        quarantined,
        lambda r, folder, **how: r.requeue(0, rows=str(folder / "rows.json"), reason="why", **how),
        lambda folder, _: (folder / "rows.json").write_text(_row(0, 21) + _row(1, 30)),
        "2 rows of source `shop` that version 0 quarantined (unreadable) will be read again by the whole pipeline",
    ),
    "migrate": Case(
        other_columns,
        lambda r, folder, **how: r.migrate({"sums": to_euros}, "why", **how),
        lambda folder, r: r.reset(batch_time=9_000, reason="another one"),
        "operator `sums`: 3 rows will be rewritten",
    ),
    "promote": Case(
        branched,
        lambda r, folder, **how: r.promote("fix", "why", **how),
        lambda folder, r: r.reset(batch_time="2021-01-01T00:00:00Z", reason="another one"),
        "the state becomes that of version 2 of branch `fix`",
    ),
    "forget": Case(
        two,
        lambda r, folder, **how: r.forget("counts", ["a"], "why", {"counts": "k"}, **how),
        lambda folder, _: two(folder, names="c"),
        "operator `counts`: 1 key will be removed (1 row of map `partials`)",
    ),
    "maintain": Case(
        two,
        lambda r, folder, **how: r.maintain(keep_versions=1, reason="why", **how),
        lambda folder, _: two(folder, names="c"),
        "version 0 will no longer be readable",
    ),
    "adopt": Case(
        moved,
        lambda r, folder, **how: r.adopt("why", copy=True, **how),
        lambda folder, r: r.adopt("another call", moved=True),
        "repository file://",
    ),
    "tag": Case(
        tagged,
        lambda r, folder, **how: r.tag("good", 1, "why", move=True, **how),
        lambda folder, r: r.untag("good"),
        "tag `good` will name version 1, and no longer version 0",
    ),
    "untag": Case(
        tagged,
        lambda r, folder, **how: r.untag("good", "why", **how),
        lambda folder, r: r.tag("good", 1, move=True),
        "tag `good` of version 0 is removed",
    ),
    "branch": Case(
        tagged,
        lambda r, folder, **how: r.branch("fix", "good", str(folder / "place"), "why", **how),
        lambda folder, r: r.tag("good", 1, move=True),
        "branch `fix` will start at version 0 of `main`",
    ),
    "drop_branch": Case(
        forked,
        lambda r, folder, **how: r.drop_branch("fix", "why", **how),
        lambda folder, _: run(world(folder).open("fix")),
        "branch `fix` ends; its versions can no longer be read",
    ),
}


@pytest.mark.parametrize("verb", list(CASES))
def test_what_was_agreed_to_is_done_or_nothing(verb: str, tmp_path: Path) -> None:
    case = CASES[verb]
    r = case.begin(tmp_path)
    before = stored(tmp_path)
    plan = case.act(r, tmp_path, dry_run=True)
    assert plan.lines()[0].startswith(case.line)
    assert json.loads(json.dumps(plan.as_dict())) == {**plan.as_dict(), "changes": plan.lines()}
    assert stored(tmp_path) == before, "a dry run writes nothing"
    case.meanwhile(tmp_path, r)
    before = stored(tmp_path)
    for expect in (plan, plan.requires):
        for how in ({}, {"dry_run": True}):
            with pytest.raises(tm.Fenced, match=f"{verb}: what would happen now is not what was expected"):
                case.act(r, tmp_path, expect=expect, **how)
    assert stored(tmp_path) == before
    again = case.act(r, tmp_path, dry_run=True)
    assert again.requires != plan.requires
    case.act(r, tmp_path, expect=again.requires)
    assert stored(tmp_path) != before


def test_every_action_has_a_case() -> None:
    from tests.journeys.test_agreed import ACTS

    assert {*ACTS, *CASES} == set(ACTIONS)


@pytest.mark.parametrize("verb", ["adopt", "tag", "untag", "branch"])
def test_an_entry_is_compared_with_the_entries_that_it_follows(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call adds an entry after the look, and before the conditional create."""
    case = CASES[verb]
    r = case.begin(tmp_path)
    plan = case.act(r, tmp_path, dry_run=True)
    other = tm.open(r.opened.pipeline, root=str(tmp_path / "root"))
    before_the_append(monkeypatch, lambda: case.meanwhile(tmp_path, other))
    with pytest.raises(tm.Fenced, match="what would happen now is not what was expected"):
        case.act(r, tmp_path, expect=plan)


def before_the_append(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Let something happen once after the next look, and before its conditional create."""
    probe = carry_out.probe

    def meanwhile(store: Any) -> None:
        monkeypatch.setattr(carry_out, "probe", probe)
        do()
        probe(store)

    monkeypatch.setattr(carry_out, "probe", meanwhile)


def test_a_branch_that_another_caller_starts_meanwhile_is_accepted_only_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = two(tmp_path)
    other = opened(tmp_path)
    before_the_append(monkeypatch, lambda: other.branch("fix", 0))
    made = r.branch("fix", 0, if_needed=True)
    assert [one for one in other.branches() if one.name == "fix"] == [made]
    assert r.branch("fix", 0, if_needed=True, expect="refs:gone") == made
    before_the_append(monkeypatch, lambda: other.branch("new", 0))
    with pytest.raises(tm.InvalidInput, match="branch `new` exists already; it starts at version 0"):
        r.branch("new", 1, if_needed=True)
    for how in ({}, {"dry_run": True}, {"dry_run": True, "if_needed": True}):
        with pytest.raises(tm.InvalidInput, match="branch `fix` exists already"):
            r.branch("fix", 0, **how)  # type: ignore[call-overload]


def test_a_branch_that_another_caller_drops_meanwhile_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = forked(tmp_path)
    plan = r.drop_branch("fix", dry_run=True)
    before_the_append(monkeypatch, lambda: opened(tmp_path).drop_branch("fix"))
    assert r.drop_branch("fix", expect=plan) == plan.branch
    assert r.drop_branch("fix", if_needed=True) is None
    with pytest.raises(tm.InvalidInput, match="unknown branch `fix`"):
        r.drop_branch("fix", if_needed=True, dry_run=True)


def test_a_branch_starts_only_at_the_version_that_was_agreed_to(tmp_path: Path) -> None:
    r = two(tmp_path)
    plan = r.branch("fix", publish_to=str(tmp_path / "place"), dry_run=True)
    place = f"it will publish to `{tmp_path / 'place'}`"
    assert plan.lines() == ["branch `fix` will start at version 1 of `main`", place]
    r.tag("another", 0)
    assert r.branch("fix", publish_to=str(tmp_path / "place"), dry_run=True).requires == plan.requires
    two(tmp_path, names="c")
    with pytest.raises(tm.Fenced):
        r.branch("fix", publish_to=str(tmp_path / "place"), expect=plan)
    assert r.branch("fix", 1, str(tmp_path / "place"), expect=plan).fork_version == 1


def test_an_entry_about_something_else_does_not_matter(tmp_path: Path) -> None:
    r = tagged(tmp_path)
    plan = r.tag("good", 1, move=True, dry_run=True)
    r.tag("another", 0)
    assert r.tag("good", 1, move=True, expect=plan.requires).version == 1
    assert r.tag("good", 1, dry_run=True).lines() == ["tag `good` names version 1 already"]
    with pytest.raises(tm.InvalidInput, match="expected a plan or its requires"):
        r.untag("good", expect=r.head)


def test_a_tag_in_the_shell_asks_nothing_and_has_a_dry_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    r = two(tmp_path)
    (tmp_path / "code.py").write_text(
        f"from pathlib import Path\nfrom tests.journeys.shop import opened\n"
        f"p = opened(Path({str(tmp_path)!r})).opened.pipeline\n"
    )
    code = [f"{tmp_path}/code.py:p", f"--root={tmp_path}/root"]
    status, shown, _ = called(capfd, "tag", *code, "good", "0", "--dry-run", "--json")
    assert (status, shown["dry_run"], shown["changes"]) == (0, True, ["tag `good` will name version 0"])
    assert r.tags() == []
    assert called(capfd, "tag", *code, "good", "--json", f"--expect={shown['requires']}")[0] == 4, "another version"
    status, done, err = called(capfd, "tag", *code, "good", "0", "--json", f"--expect={shown['requires']}")
    assert (status, done["tag"], done["version"], err) == (0, "good", 0, "")
    for options in (["--dry-run"], ["--move"], ["--reason", "why"], ["--expect", "refs@1:a"]):
        assert main(["tag", *code, *options]) == 2
        said = capfd.readouterr().err
        assert f"without NAME, `tag` lists all, and does not accept {options[0]}" in " ".join(said.split())


def test_another_function_than_that_which_was_agreed_to_is_not_called(tmp_path: Path) -> None:
    r = other_columns(tmp_path)
    plan = r.migrate({"sums": to_euros}, "why", dry_run=True)
    called: list[Any] = []

    def other(table: Any) -> Any:
        called.append(table)
        return to_euros(table)

    for given in ({"functions": {"sums": other}}, {"functions": {"sums": to_euros}, "drop_keys": True}):
        with pytest.raises(tm.Fenced, match="migrate: what would happen now is not what was expected"):
            r.migrate(reason="why", expect=plan, **given)
    assert not called and r.head is not None and r.head.kind == "batch"


def test_a_migration_starts_no_engine_unless_it_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = Bank(tmp_path)
    bank.begun(sums(), users=3)
    r = bank.opened(sums(name="totals"))
    monkeypatch.setattr("tidemill.run.engine.engine_of", lambda *_: pytest.fail("it started an engine"))
    plan = r.migrate(rename={"sums": "totals"}, reason="why", dry_run=True)
    assert r.migrate(rename={"sums": "totals"}, reason="why", expect=plan).kind == "migrate"


def test_in_the_shell_a_migration_is_bound_to_its_dry_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other_columns(tmp_path)
    (tmp_path / "code.py").write_text(
        f"from pathlib import Path\nfrom tests.journeys.migrated import Place, euros, to_euros\n"
        f"p = Place(Path({str(tmp_path)!r})).opened(euros()).opened.pipeline\n"
    )
    code = [f"{tmp_path}/code.py:p", f"--root={tmp_path}/root", "--json", "--reason=why"]
    code += ["--operator=sums", f"--function={tmp_path}/code.py:to_euros"]
    status, shown, _ = called(capfd, "migrate", *code, "--dry-run")
    assert (status, shown["dry_run"], shown["changes"][0]) == (0, True, "operator `sums`: 3 rows will be rewritten")
    assert called(capfd, "migrate", *code, "--expect=main@0:gone")[0] == 4
    assert called(capfd, "migrate", *code, "--drop-keys", f"--expect={shown['requires']}")[0] == 4
    status, done, _ = called(capfd, "migrate", *code, f"--expect={shown['requires']}")
    assert (status, done["versions"], done["requires"]) == (0, [1], shown["requires"])


def test_merging_is_no_part_of_what_upkeep_was_agreed_to(tmp_path: Path) -> None:
    r = two(tmp_path)
    plan = r.maintain(dry_run=True)
    assert plan.lines() == ["0 objects (0 bytes) will be deleted"]
    two(tmp_path, names="c")
    assert r.maintain(expect=plan).deleted == 0


def test_what_upkeep_was_agreed_to_is_compared_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = two(tmp_path)
    plan = r.maintain(keep_versions=1, dry_run=True)
    looks: list[int] = []
    original = ACTIONS["maintain"].look
    monkeypatch.setattr(ACTIONS["maintain"], "look", lambda *given: looks.append(1) or original(*given))
    assert r.maintain(keep_versions=1).floor == 1 and not looks, "without an expectation, the steps look for themselves"
    two(tmp_path, names="c")
    before = stored(tmp_path)
    with pytest.raises(tm.Fenced, match="maintain: what would happen now is not what was expected"):
        r.maintain(keep_versions=1, expect=plan)
    assert looks == [1] and stored(tmp_path) == before


def test_a_yes_after_another_batch_discards_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two(tmp_path)
    (tmp_path / "code.py").write_text(
        f"from pathlib import Path\nfrom tests.journeys.shop import opened\n"
        f"p = opened(Path({str(tmp_path)!r})).opened.pipeline\n"
    )
    code = ["maintain", f"{tmp_path}/code.py:p", f"--root={tmp_path}/root", "--json", "--keep-versions=1"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: bool(two(tmp_path, names="c")))
    assert called(capfd, *code)[0] == 4
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    status, found, _ = called(capfd, *code)
    assert (status, found["dry_run"], found["floor"]) == (3, False, 2)
    assert opened(tmp_path).maintain(dry_run=True).floor_before == 0, "nothing was discarded"
    shown = called(capfd, *code, "--dry-run")[1]
    status, done, _ = called(capfd, *code, "--yes", f"--expect={shown['requires']}")
    assert (status, done["floor"], done["dry_run"]) == (0, 2, False)
