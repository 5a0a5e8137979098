"""`branch`, `promote` and `replay` called again, as a scheduler does: what is so already is a success."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.place import Place, sums
from tests.world import run
from tidemill.actions import carry_out
from tidemill.cli.main import main


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Call the command line; return its status and its last JSON line."""
    place = Place(tmp_path)
    place.arrive("1", "2", "3", "4")
    assert run(place.open()) == [0, 1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_ROOT", "root")

    def command(verb: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        status = main([verb, "shop.py:twice", *arguments, "--json"])
        return status, json.loads(capfd.readouterr().out.splitlines()[-1])

    return command


def test_branch_of_the_same_start_is_accepted_and_a_dropped_one_is_dropped(call: Any) -> None:
    start = ("fix", "--at", "0", "--if-needed")
    status, first = call("branch", *start)
    assert (status, first["status"], first["fork_version"]) == (0, "done", 0)
    status, again = call("branch", *start)
    assert (status, again["status"], again["id"]) == (3, "nothing", first["id"])
    status, other = call("branch", "fix", "--at", "1", "--if-needed")
    assert (status, other["message"].split("\n")[0]) == (1, "branch `fix` exists already; it starts at version 0")
    assert call("branch", *start[:3])[0] == 1
    assert call("branch", *start, "--dry-run")[0] == 3, "it is there already"
    assert call("branch", *start[:-1], "--dry-run")[0] == 1
    assert first["changes"] == ["branch `fix` will start at version 0 of `main`"]
    status, shown = call("branch", "fix", "--drop", "--dry-run")
    assert (status, shown["dry_run"], shown["id"]) == (0, True, first["id"])
    assert call("branch", "fix", "--drop", "--expect", first["requires"])[0] == 4
    status, dropped = call("branch", "fix", "--drop", "--if-needed", "--expect", shown["requires"])
    assert (status, dropped["verb"], dropped["id"], dropped["changes"]) == (0, "branch", first["id"], shown["changes"])
    status, gone = call("branch", "fix", "--drop", "--if-needed")
    assert (status, gone["verb"], gone["status"], gone["name"]) == (3, "branch", "nothing", "fix")
    assert call("branch", "fix", "--drop")[0] == 1


def test_promotion_that_was_made_is_seen_also_after_the_branch_was_dropped(call: Any) -> None:
    promote = ("promote", "fix", "--if-needed", "--catch-up", "--engine", "local")
    call("replay", "--from", "0", "--into", "fix", "--engine", "local")
    status, made = call(*promote)
    assert (status, made["versions"], made["already_committed"]) == (0, [2], [])
    status, again = call(*promote)
    assert (status, again["versions"], again["already_committed"]) == (3, [], [2])
    call("branch", "fix", "--drop")
    assert call(*promote)[1]["already_committed"] == [2]
    call("replay", "--from", "0", "--into", "fix", "--engine", "local")
    status, later = call(*promote)
    assert (status, later["versions"]) == (0, [3]), "another branch of this name was not promoted yet"


def test_promotion_that_was_rewound_is_made_again(call: Any) -> None:
    call("replay", "--from", "0", "--into", "fix", "--engine", "local")
    call("promote", "fix", "--if-needed")
    call("rewind", "--to", "1", "--reason", "a test")
    status, refused = call("promote", "fix", "--if-needed")
    assert (status, refused["event"]) == (0, "result")
    assert refused["versions"] == [4]


def test_promotion_beside_a_pipeline_that_commits_catches_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.branches import promote as verb

    place = Place(tmp_path)
    place.arrive("1", "2", "3", "4")
    run(place.open())
    changed = place.open(factor=2)
    changed.replay(0, into="fix", engine="local")
    names, catch_up = iter("567"), verb.catch_up

    def slow(*arguments: Any) -> Any:
        report = catch_up(*arguments)
        if name := next(names, None):
            place.arrive(name)
            run(place.open())
        return report

    monkeypatch.setattr(verb, "catch_up", slow)
    made = changed.promote("fix", catch_up=True, engine="local")
    assert made.version == 5
    assert sums(changed) == place.sums(2)


def test_promotion_that_never_catches_up_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.branches import promote as verb

    place = Place(tmp_path)
    place.arrive("1", "2")
    run(place.open())
    changed = place.open(factor=2)
    changed.replay(0, into="fix", engine="local")
    names = iter("3456789")

    def never(*_: Any) -> None:
        place.arrive(next(names))
        run(place.open())

    monkeypatch.setattr(verb, "catch_up", never)
    with pytest.raises(tm.InvalidInput, match="it has not read the input of versions 1 "):
        changed.promote("fix", catch_up=True, engine="local")
    assert next(names) == str(3 + carry_out.ROUNDS)


def test_replay_into_a_branch_without_versions_looks_for_its_files_first(call: Any, tmp_path: Path) -> None:
    call("branch", "fix", "--at", "-1")
    (tmp_path / "in/4.csv").unlink()
    status, refused = call("replay", "--from", "0", "--into", "fix", "--engine", "local")
    assert (status, refused["versions"]) == (1, []), "nothing is replayed before"
    assert "`4.csv` of source `source` is gone" in refused["message"] or "`4.csv`" in refused["message"]
