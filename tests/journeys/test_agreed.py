"""What a user agreed to is what an action does, or nothing: `dry_run`, `requires`, `expect`, `if_needed`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import pytest

import tidemill as tm
from tests.journeys.agreed import ACTS, called, stored, versions
from tests.journeys.shop import arrive, opened, published, world
from tests.world import World, run
from tidemill.actions import carry_out, restoring
from tidemill.actions.contract import ActionPlan, CommitAction
from tidemill.actions.maintaining import MaintainSteps
from tidemill.actions.registry import ACTIONS

LINES = {
    "rewind": "the state becomes that of version 0",
    "skip": "file `bad.csv` of source `source` (7 bytes) will not be read; the plan of version 2 ends",
    "replan": "the plan of version 2 (1 file) ends; the next run plans the files that are there then",
    "reset": "batch time: ",
}


@pytest.mark.parametrize("verb", list(ACTS))
def test_a_dry_run_says_what_will_happen_and_writes_nothing(
    verb: str, agreed_shop: tm.Repository, tmp_path: Path
) -> None:
    before = stored(tmp_path)
    plan = ACTS[verb](agreed_shop, dry_run=True)
    assert isinstance(plan, ActionPlan)
    assert plan.lines()[0].startswith(LINES[verb])
    assert plan.as_dict() == {**plan.as_dict(), "requires": plan.requires, "changes": plan.lines()}
    assert json.loads(json.dumps(plan.as_dict())) == plan.as_dict()
    assert stored(tmp_path) == before
    made = ACTS[verb](agreed_shop, expect=plan)
    assert (made.version, made.kind, made.reason) == (2, ACTIONS[verb].kind, "why")


@pytest.mark.parametrize("verb", list(ACTS))
@pytest.mark.parametrize("form", ["plan", "text", "head"])
def test_after_another_commit_nothing_of_what_was_agreed_is_done(
    verb: str, form: str, agreed_shop: tm.Repository, tmp_path: Path
) -> None:
    plan, head = ACTS[verb](agreed_shop, dry_run=True), agreed_shop.head
    expect = {"plan": plan, "text": plan.requires, "head": head}[form]
    other = opened(tmp_path)
    other.reset(batch_time="2021-01-01T00:00:00Z", reason="another one")
    with pytest.raises(tm.InvalidInput):
        run(other)  # makes the plan again, so that each action would be possible
    before = stored(tmp_path)
    for how in ({}, {"dry_run": True}):
        with pytest.raises(tm.Fenced, match=f"{verb}: what would happen now is not what was expected") as raised:
            ACTS[verb](agreed_shop, expect=expect, **how)
        assert "do a dry run again" in str(raised.value)
    assert stored(tmp_path) == before
    assert ACTS[verb](agreed_shop).version == 3, "without an expectation it is done"


@pytest.mark.parametrize("verb", ["rewind", "skip", "reset"])
def test_a_plan_that_was_made_since_is_not_ended_unseen(verb: str, tmp_path: Path) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b")
    run(r)
    world(tmp_path).put("bad", "a,much\n")
    seen = ACTS[verb](r, dry_run=True)
    with pytest.raises(tm.InvalidInput):
        run(opened(tmp_path))
    with pytest.raises(tm.Fenced, match=r"found `main@1:\w{12}`, expected `main@1:\w{12}`"):
        ACTS[verb](r, expect=seen)
    assert [version for version, _ in versions(r)] == [0, 1]


def test_a_tag_that_was_moved_a_file_that_changed_or_another_action_is_not_what_was_agreed(tmp_path: Path) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b", "c")
    run(r)
    r.tag("good", 0)
    to_tag, to_first = r.rewind("good", "why", dry_run=True), r.rewind(0, "why", dry_run=True)
    assert to_tag.requires == to_first.requires, "it is the same"
    before, reset = stored(tmp_path), r.reset(batch_time="2020-01-01T00:00:00Z", reason="why", dry_run=True)
    for expect in (reset, r.rewind(1, "why", dry_run=True), r.rewind(0, "why", ["b.csv"], dry_run=True)):
        with pytest.raises(tm.Fenced):
            r.rewind("good", "why", expect=expect)
    assert stored(tmp_path) == before
    r.tag("good", 1, move=True)
    with pytest.raises(tm.Fenced):
        r.rewind("good", "why", expect=to_tag.requires)
    (tmp_path / "in" / "b.csv").unlink()
    with pytest.raises(tm.Fenced):  # its rows would be lost
        r.rewind(0, "why", expect=to_first)
    world(tmp_path).put("z", "z,1\n")
    skip = r.skip("z.csv", "why", dry_run=True)
    world(tmp_path).put("z", "y,2\n")
    with pytest.raises(tm.Fenced):
        r.skip("z.csv", "why", expect=skip)
    assert [kind for _, kind in versions(r)] == ["batch"] * 3


def test_a_commit_says_only_that_no_other_one_came_since(tmp_path: Path) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b")
    run(r)
    head = r.head
    assert head is not None
    world(tmp_path).put("bad", "a,much\n")
    with pytest.raises(tm.InvalidInput):
        run(opened(tmp_path))
    assert r.reset(batch_time="2020-01-01T00:00:00Z", reason="why", expect=head).version == 2


def test_what_is_refused_publishes_nothing_of_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b")
    run(r)
    stale = r.rewind(0, "why", dry_run=True)
    arrive(tmp_path, "c")
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.run.drain.publish_new", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(opened(tmp_path))
    assert len(published(tmp_path)) == 2
    before = stored(tmp_path)
    again = opened(tmp_path)
    for expect, error in ((stale, tm.Fenced), (3, tm.InvalidInput)):
        with pytest.raises(error):
            again.rewind(0, "why", expect=expect)  # type: ignore[call-overload]
    assert (len(published(tmp_path)), stored(tmp_path)) == (2, before)
    assert again.rewind(0, "why", expect=again.rewind(0, "why", dry_run=True)).version == 3


@pytest.mark.parametrize("verb", list(ACTS))
def test_an_action_that_another_commit_overtakes_leaves_no_object(
    verb: str, agreed_shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    correct = carry_out.correct

    def overtaken(*arguments: Any) -> Any:
        with monkeypatch.context() as inner:
            inner.setattr(carry_out, "correct", correct)
            opened(tmp_path).reset(batch_time="2021-01-01T00:00:00Z", reason="another one")
        return correct(*arguments)

    monkeypatch.setattr(carry_out, "correct", overtaken)
    how = {"without": ["b.csv"]} if verb == "rewind" else {}
    with pytest.raises(tm.Fenced):
        ACTS[verb](agreed_shop, **how)
    assert versions(agreed_shop)[-1] == (2, "reset")
    found = agreed_shop.verify(deep=True)
    assert (found.problems, found.unnamed) == ([], 0)


@pytest.mark.parametrize("expect", ["", 3, ["main@1"]])
def test_what_is_no_expectation_is_refused(expect: Any, agreed_shop: tm.Repository) -> None:
    with pytest.raises(tm.InvalidInput, match="expected a plan, what it requires as text, or the commit of the head"):
        agreed_shop.replan("why", expect=expect)
    assert [version for version, _ in versions(agreed_shop)] == [0, 1]


def test_in_the_shell_expect_takes_what_a_dry_run_requires(
    agreed_code: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, shown, _ = called(capfd, "replan", *agreed_code, "--reason=why", "--dry-run")
    assert (status, shown["dry_run"], shown["requires"][:7]) == (0, True, "main@1:")
    agreed = f"--expect={shown['requires']}"
    opened(tmp_path).reset(batch_time="2021-01-01T00:00:00Z", reason="another one")
    with pytest.raises(tm.InvalidInput):
        run(opened(tmp_path))
    for more in ([], ["--dry-run"]):
        status, found, err = called(capfd, "replan", *agreed_code, "--reason=why", agreed, *more)
        assert (status, "not what was expected" in err + json.dumps(found)) == (4, True)
    status, shown, _ = called(capfd, "replan", *agreed_code, "--reason=why", "--dry-run")
    status, done, _ = called(capfd, "replan", *agreed_code, "--reason=why", f"--expect={shown['requires']}")
    assert (status, done["versions"], done["requires"]) == (0, [3], shown["requires"])


def test_a_yes_on_the_terminal_is_for_what_was_shown(
    agreed_code: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_yes(*_: Any, **__: Any) -> bool:
        opened(tmp_path).reset(batch_time="2021-01-01T00:00:00Z", reason="another one")
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", slow_yes)
    status, _, err = called(capfd, "rewind", *agreed_code, "--to=0", "--reason=why")
    assert status == 4, err
    assert versions(opened(tmp_path)) == [(0, "batch"), (1, "batch"), (2, "reset")]


def test_each_action_needs_a_reason(agreed_shop: tm.Repository) -> None:
    for action in (tm.Repository.replan, tm.Repository.skip, tm.Repository.rewind):
        given = {"replan": (" ",), "skip": ("bad.csv", ""), "rewind": (0, "")}[action.__name__]
        with pytest.raises(tm.InvalidInput, match="the reason is empty"):
            action(agreed_shop, *given)  # type: ignore[arg-type]
        assert action(agreed_shop, *given, dry_run=True).lines(), "to look needs no reason"  # type: ignore[arg-type]


def test_an_action_outside_of_the_registry_is_carried_out_alike(agreed_shop: tm.Repository) -> None:
    """What a verb needs is one class: a correction that changes nothing but says why."""
    from tidemill.actions.contract import Option, SeenBranch, option

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class NotePlan(ActionPlan):
        def lines(self) -> list[str]:
            return ["a note"]

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Note(CommitAction):
        verb = "note"
        kind = "void"
        reason: str = option(Option("Why."))

        def look(self, context: Any, seen: SeenBranch) -> NotePlan:
            return NotePlan(verb=self.verb, seen=seen)

        def prepare(self, context: Any, plan: Any, origin: Any, to: Any) -> Any:
            return {}

    plan = carry_out.look(agreed_shop.opened, Note(reason="a note"))
    assert carry_out.carry_out(agreed_shop.opened, Note(reason="a note"), plan).made.kind == "void"
    with pytest.raises(tm.Fenced):
        carry_out.carry_out(agreed_shop.opened, Note(reason="a note"), plan)


@pytest.mark.parametrize("verb", list(ACTS))
def test_an_action_that_nothing_precedes_looks_once(
    verb: str, agreed_shop: tm.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ACTS[verb](agreed_shop, dry_run=True)
    looks, kind = [], ACTIONS[verb]
    original = kind.look
    monkeypatch.setattr(kind, "look", lambda *given: looks.append(1) or original(*given))
    assert ACTS[verb](agreed_shop, expect=plan).version == 2
    assert len(looks) == 1


def test_an_action_that_has_to_publish_first_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b")
    run(r)
    arrive(tmp_path, "c")
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.run.drain.publish_new", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(opened(tmp_path))
    looks, original = [], ACTIONS["rewind"].look
    monkeypatch.setattr(ACTIONS["rewind"], "look", lambda *given: looks.append(1) or original(*given))
    again = opened(tmp_path)
    plan = again.rewind(0, "why", dry_run=True)
    assert again.rewind(0, "why", expect=plan).version == 3
    assert len(looks) == 3, "the dry run, before anything is written, and after the files of version 2 were published"


def test_a_rewind_lists_its_sources_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b", "c")
    run(r)
    calls, original = [], restoring.listed_files
    monkeypatch.setattr(restoring, "listed_files", lambda *given: calls.append(1) or original(*given))
    assert r.rewind(0, "why", ["b.csv"]).version == 3
    assert len(calls) == 1


def test_other_columns_than_those_that_were_agreed_to_are_not_searched(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("k").agg(n=tm.count(), friend=tm.max("f"), name="counts")
        made.write(tm.Json(world.out))

    made = World(tmp_path, build, schema="k string, f string", maxFilesPerTrigger=None)
    made.arrive("a,b\nb,a\nc,a\n")
    made.run()
    r = made.open()
    plan = r.forget("counts", ["a"], "why", columns={"counts": "k"}, dry_run=True)
    with pytest.raises(tm.Fenced, match="nothing has changed"):
        r.forget("counts", ["a"], "why", columns={"counts": "friend"}, expect=plan)
    assert sorted(row["k"] for row in made.published()) == ["a", "b", "c"]
    r.forget("counts", ["a"], "why", columns={"counts": "k"}, expect=plan)
    assert sorted(row["k"] for row in made.published()) == ["b", "c"]


def test_a_rewind_of_another_folder_than_that_which_was_agreed_to_is_refused(
    agreed_shop: tm.Repository, tmp_path: Path
) -> None:
    plan = agreed_shop.rewind(0, "why", dry_run=True)
    elsewhere = opened(tmp_path, sink=tm.Json(str(tmp_path / "elsewhere")))
    with pytest.raises(tm.Fenced, match="nothing has changed"):
        elsewhere.rewind(0, "why", expect=plan)
    assert agreed_shop.rewind(0, "why", expect=plan).version == 2


def test_upkeep_gives_up_no_version_that_was_not_agreed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b", "c")
    run(r)
    plan = r.maintain(keep_versions=2, dry_run=True)
    assert plan.floor == 1
    arrive(tmp_path, "d")
    real = MaintainSteps.raise_floor

    def after_a_batch(steps: MaintainSteps, report: Any) -> Any:
        run(opened(tmp_path))
        return real(steps, report)

    monkeypatch.setattr(MaintainSteps, "raise_floor", after_a_batch)
    assert r.maintain(keep_versions=2, expect=plan).floor == 1
    assert r.state("counts", 1).num_rows == 2
