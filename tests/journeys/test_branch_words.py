"""What the commands of branches print and refuse, in words: names instead of ids, and nothing that is not so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.cli.main import main
from tidemill.cli.render import cell

PIPELINE = """
import tidemill as tm

def pipeline(*more, factor=1):
    p = tm.Pipeline("s")
    o = p.read(tm.Files("in", format="csv", schema="u string, c bigint", maxFilesPerTrigger=1))
    o = o if factor == 1 else o.sql(f"SELECT u, c * {factor} AS c FROM rows")
    o.groupBy("u").agg(t=tm.sum("c"), name="sums").write(tm.Json("out/sums"))
    o.groupBy("u").agg(n=tm.count(), name="counts")
    for name in more:
        o.groupBy("u").agg(m=tm.max("c"), name=name).write(tm.Json(f"out/{name}"))
    return p

old, tens, more = pipeline(), pipeline(factor=10), pipeline("maxes", "mins")
"""
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Call a command: with its status, stdout and stderr. Versions 0 to 2 have read a file each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_ROOT", "lake")
    (tmp_path / "in").mkdir()
    (tmp_path / "code.py").write_text(PIPELINE)
    for number in (1, 2, 3):
        arrive(number)

    def called(verb: str, code: str, *more: str) -> tuple[int, str, str]:
        engine = ("--engine", "local") if verb in ("run", "replay") else ()
        status = main([verb, f"code.py:{code}", *more, *engine])
        found = capfd.readouterr()
        return status, found.out, found.err

    assert called("init", "old")[0] == called("run", "old")[0] == 0
    return called


def arrive(number: int, user: str = "ann") -> None:
    Path(f"in/{number}.csv").write_text(f"{user},{number}\n")


def test_added_keys_count_among_the_keys_of_an_operator(call: Call) -> None:
    call("branch", "old", "fix", "--at", "0")
    for number in range(4, 7):
        arrive(number, f"u{number}")
    call("run", "tens", "--branch", "fix")
    said = call("check", "tens", "--against", "fix")[1]
    assert "operator `sums`: 4 of 4 keys differ: 3 added, 0 removed, 1 changed" in said


def test_check_leaves_out_sinks_that_no_version_has_and_says_which_are_not_published(call: Call) -> None:
    call("replay", "more", "--from", "0", "--into", "some", "--operators", "maxes")
    lines = call("check", "more", "--against", "some")[1].splitlines()
    assert [line for line in lines if line.startswith("sink")] == [
        "sink `sums`: 0 rows added, 0 removed",
        "sink `maxes`: 3 rows added, 0 removed",
        "sink `counts` (kept in the repository): 0 rows added, 0 removed",
    ]


def test_a_promotion_says_what_is_published_and_what_is_kept(call: Call) -> None:
    call("replay", "tens", "--from", "0", "--into", "one")
    _, said, _ = call("promote", "tens", "one", "--dry-run")
    assert "sink `counts`: versions 0–2 of the branch are kept in the repository" in said
    assert "sink `sums`: versions 0–2 of the branch are published" in said
    _, said, _ = call("promote", "tens", "one", "--dry-run", "--outputs", "keep")
    assert "what is published stays as it is; the outputs of the branch are not taken over" in said
    _, said, _ = call("promote", "tens", "one", "--dry-run", "--outputs", "keep", "--json")
    found = json.loads(said)
    assert (found["outputs"], found["replaced"]) == ("keep", [])
    _, said, _ = call("promote", "tens", "one", "--json")
    assert json.loads(said)["outputs"] == "correct"


def test_log_names_the_version_that_a_promotion_took_over_also_of_a_dropped_branch(call: Call) -> None:
    call("replay", "tens", "--from", "0", "--into", "one")
    call("promote", "tens", "one")
    for _ in range(2):
        newest = call("log", "tens")[1].splitlines()[3]
        assert newest.rstrip().endswith("version 2 of `one`")
        found = json.loads(call("log", "tens", "--json")[1].splitlines()[0])
        assert found["promoted"] == {"branch": "one", "version": 2}
        assert call("branch", "tens", "one", "--drop", "--if-needed")[0] in (0, 3)
    assert json.loads(call("log", "tens", "--json")[1].splitlines()[1])["promoted"] is None


def test_a_replay_counts_no_rewind_and_names_versions_of_promoted_branches(call: Call) -> None:
    call("rewind", "old", "--to", "0", "--reason", "a test")
    call("run", "old")
    _, said, _ = call("replay", "tens", "--from", "0", "--into", "one", "--max-batches", "1")
    assert said == "replayed version 0 into `one`; 2 versions left\n"
    _, said, _ = call("replay", "tens", "--from", "0", "--into", "one")
    assert said == "replayed versions 4–5 into `one`; `one` is level with `main`\n"
    call("promote", "tens", "one")
    arrive(4)
    call("run", "tens")
    _, said, _ = call("replay", "tens", "--from", "0", "--into", "two")
    assert said == "replayed versions 0–2 of `one` and version 7 into `two`; `two` is level with `main`\n"
    _, said, _ = call("replay", "tens", "--from", "0", "--into", "three", "--json")
    found = json.loads(said.splitlines()[-1])
    assert (found["replayed"], found["of_branches"]) == ([0, 1, 2, 7], {"one": [0, 1, 2], "main": [7]})


def test_no_message_shows_the_id_of_a_branch(call: Call) -> None:
    call("replay", "old", "--from", "0", "--into", "past")
    assert json.loads(call("status", "old", "--branch", "past", "--json")[1])["branch"] == "past"
    call("branch", "old", "of-past", "--branch", "past")
    arrive(4)
    call("run", "old", "--branch", "of-past")
    assert "it starts from branch `past`, not from `main`" in call("promote", "old", "of-past")[2]
    said = call("replan", "old", "--branch", "of-past", "--reason", "a test")[2]
    assert "replan: branch `of-past` has no plan" in said
    call("run", "old")
    said = call("replay", "old", "--from", "1", "--into", "of-past")[2]
    assert "into branch `of-past`: the branch starts at version 2 of `past`" in said
    call("branch", "old", "own", "--at", "2")
    call("run", "old", "--branch", "own")
    said = call("replay", "old", "--from", "3", "--into", "own")[2]
    assert "replay into branch `own`: its version 3 repeats none of branch `main`" in said
    Path("in/1.csv").write_text("ann,50\n")
    _, _, said = call("replay", "tens", "--branch", "past", "--from", "0", "--into", "next")
    assert said.startswith("InvalidInput: replay version 0 of branch `past`: `1.csv` of source `source` changed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "old", "--from", "2", "--to", "1", "--into", "x"],
         "replay to version 1: it is before version 2, where the replay begins"),
        (["replay", "old", "--from", "0", "--to", "9", "--into", "x"], "replay to version 9: versions go from 0 to 2"),
        (["replay", "old", "--from", "0", "--into", "main"], "replay into `main`: `main` cannot be a target"),
        (["branch", "old", "nope", "--drop"], "unknown branch `nope`"),
        (["branch", "old", "main"], "branch `main` exists already\nhint: choose another name\n"),
        (["report", "old", "--html", "x.html", "--key", "ann"], "hint: add operator=… or --operator: `counts`, `sums`"),
        (["outputs", "old"], "hint: add sink=… or --sink: `counts`, `sums`"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why_and_what_helps(call: Call, arguments: list[str], said: str) -> None:
    status, _, error = call(*arguments)
    assert status == 1
    assert said in error


def test_a_replay_to_a_version_that_was_replaced_hints_at_another_end(call: Call) -> None:
    call("rewind", "old", "--to", "0", "--reason", "a test")
    _, _, said = call("replay", "old", "--from", "0", "--to", "2", "--into", "x")
    assert "replay to version 2: it was rewound, or a promotion replaced it\nhint: replay to another version" in said


def test_history_names_a_file_once_that_has_changed_or_is_gone(call: Call) -> None:
    Path("in/1.csv").write_text("ann,50\n")
    Path("in/2.csv").unlink()
    _, said, _ = call("history", "old", "--operator", "sums", "--key", "ann")
    assert [line for line in said.splitlines() if "not read" in line] == [
        "  not read: `1.csv` has changed since", "  not read: `2.csv` is gone",
    ]  # fmt: skip


def test_a_time_before_a_promotion_names_the_first_version_that_counts(call: Call) -> None:
    call("replay", "tens", "--from", "0", "--into", "one")
    call("promote", "tens", "one")
    _, _, said = call("branch", "tens", "early", "--at", "1999-01-01")
    assert "at='1999-01-01' is before version 3, the first one that counts, whose batch time is" in said


def test_times_have_no_fraction_or_one_of_three_or_six_digits() -> None:
    times = [datetime(2030, 1, 1, 13, 21, 15, fraction, UTC) for fraction in (0, 710_000, 710_500)]
    assert [cell(time).plain for time in times] == [
        "2030-01-01T13:21:15Z", "2030-01-01T13:21:15.710Z", "2030-01-01T13:21:15.710500Z",
    ]  # fmt: skip
