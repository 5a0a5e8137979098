"""A promotion is bound to what was agreed to: the head, the branch as it was, and all that follows."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

import tidemill as tm
from tests.journeys.place import Place, sums
from tests.world import run
from tidemill.cli.main import main


def with_branch(place: Place) -> tm.Repository:
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    return r


def test_a_branch_that_has_gone_on_is_not_what_was_agreed_to(place: Place) -> None:
    r = with_branch(place)
    plan = r.promote("fix", "why", dry_run=True)
    place.arrive("6")
    run(place.open("fix", factor=2))
    for how in ({}, {"dry_run": True}):
        with pytest.raises(tm.Fenced, match="promote: what would happen now is not what was expected"):
            r.promote("fix", "why", expect=plan, **how)
    for other in ({"outputs": "keep"}, {"accept_output_change": False, "outputs": "keep"}):
        with pytest.raises(tm.Fenced):
            r.promote("fix", "why", expect=r.promote("fix", "why", dry_run=True), **other)
    assert r.head is not None and (r.head.version, r.head.kind) == (2, "batch")
    assert r.promote("fix", "why", expect=r.promote("fix", "why", dry_run=True).requires).kind == "promote"


def test_what_a_replay_makes_cannot_be_agreed_to_before(place: Place) -> None:
    r = with_branch(place)
    place.arrive("6")
    run(place.open())
    plan = r.promote("fix", catch_up=True, dry_run=True)
    assert plan.lines()[0] == "first, the branch repeats version 3; what follows is as it is before that"
    head = place.open("fix").head
    with pytest.raises(tm.InvalidInput, match="into fix on local comes first, so what will happen cannot be expected"):
        r.promote("fix", catch_up=True, engine="local", expect=plan)
    assert place.open("fix").head == head, "nothing was replayed"
    assert r.promote("fix", catch_up=True, engine="local").version == 4
    assert sums(r) == place.sums(2)


def test_versions_that_come_first_are_part_of_what_was_agreed_to(place: Place) -> None:
    place.open().branch("fix", 0)
    b = place.open("fix", factor=2)
    for name in ("6", "7", "8"):
        place.arrive(name)
        run(b)
    run(place.open())
    for name in ("9", "10"):
        place.arrive(name)
        run(b)
    r = place.open(factor=2)
    plan = r.promote("fix", dry_run=True)
    assert plan.promotion.empty == [5]
    assert r.promote("fix", "why", expect=plan).version == 6
    assert [(one.kind, one.reason) for one in r.commits(5)] == [
        ("void", "rows of branch `fix` have this number"),
        ("promote", "why"),
    ]
    assert place.lines() == sorted((row["_batch_id"], row["k"], row["n"]) for row in r.outputs().to_pylist())


def test_if_needed_returns_the_promotion_that_was_made(place: Place) -> None:
    r = with_branch(place)
    made = r.promote("fix", if_needed=True)
    assert r.promote("fix", if_needed=True, expect="main@1:gone") == made
    r.drop_branch("fix")
    assert r.promote("fix", if_needed=True) == made
    r.rewind(2, "no")
    with pytest.raises(tm.InvalidInput, match="unknown branch `fix`"):
        r.promote("fix", if_needed=True)


def test_if_needed_distinguishes_a_promotion_that_kept_the_outputs_from_one_that_corrects_them(place: Place) -> None:
    r = with_branch(place)
    kept = r.promote("fix", outputs="keep")
    assert r.promote("fix", outputs="keep", if_needed=True) == kept
    with pytest.raises(tm.InvalidInput, match='promoted it with outputs="keep", which left what is published') as error:
        r.promote("fix", if_needed=True)
    assert error.value.hint == "to publish what the branch made, rewind to version 2, and promote the branch again"
    r.rewind(2, "the outputs, too")
    made = r.promote("fix", if_needed=True)
    assert r.promote("fix", if_needed=True) == made != kept


def called(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    status = main(list(arguments))
    return status, json.loads(capfd.readouterr().out.splitlines()[-1])


def test_in_the_shell_a_promotion_is_bound_to_its_dry_run(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    with_branch(place)
    call = ["promote", f"{place.folder / 'shop.py'}:twice", "fix", "--root", str(place.folder / "root"), "--json"]
    status, shown = called(capfd, *call, "--dry-run")
    assert (status, shown["dry_run"], shown["branch"], shown["replaced"]) == (0, True, "fix", [0, 1, 2])
    assert called(capfd, *call, "--outputs", "keep", "--expect", shown["requires"])[0] == 4
    status, made = called(capfd, *call, "--expect", shown["requires"])
    assert (status, made["versions"], made["requires"]) == (0, [3], shown["requires"])


def test_a_yes_after_another_commit_promotes_nothing(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_branch(place)
    call = ["promote", f"{place.folder / 'shop.py'}:twice", "fix", "--root", str(place.folder / "root")]

    def slow_yes(*_: Any, **__: Any) -> bool:
        place.open().reset(batch_time="2021-01-01T00:00:00Z", reason="another one")
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", slow_yes)
    assert main(call) == 4, capfd.readouterr().err
    assert [one.kind for one in place.open().commits(2)] == ["batch", "reset"]


def test_a_plan_shows_no_secret(place: Place) -> None:
    with_branch(place)
    secret = {"sink": {"aws_secret_access_key": "TOPSECRET"}}
    conf = {"spark.hadoop.fs.s3a.secret.key": "SPARKSECRET"}
    r = tm.open(
        place.open(factor=2).opened.pipeline, root=str(place.folder / "root"), storage_options=secret, conf=conf
    )
    shown = repr(r.promote("fix", dry_run=True)) + repr(r.opened)
    assert "SECRET" not in shown


def test_a_branch_that_was_promoted_is_said_also_in_a_dry_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    r = with_branch(place)
    r.promote("fix")
    call = [
        "promote",
        f"{place.folder}/shop.py:twice",
        "fix",
        "--root",
        str(place.folder / "root"),
        "--if-needed",
        "--dry-run",
    ]
    assert main(call) == 3
    assert "was promoted before" in capsys.readouterr().out


def test_a_wrong_reason_is_found_before_a_replay(place: Place) -> None:
    r = with_branch(place)
    place.arrive("6")
    run(place.open())
    head = place.open("fix").head
    reason: Any = 5
    with pytest.raises(tm.InvalidInput, match="expected text"):
        r.promote("fix", reason, catch_up=True, engine="local")
    assert place.open("fix").head == head
