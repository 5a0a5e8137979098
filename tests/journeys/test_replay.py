"""`replay`: the same code makes the same rows, and other code what a naive loop makes."""

from __future__ import annotations

import datetime
import json
import time
from collections import Counter

import pytest

import tidemill as tm
from tests.journeys.place import Place, bag, rows, sums
from tests.world import World, run
from tidemill.cli.main import main
from tidemill.store.local import LocalStore


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_same_code_makes_the_same_state_outputs_and_quarantine(place: Place, tasks: int) -> None:
    r = place.open()
    made = r.replay(0, into="same", engine="local", tasks=tasks)
    assert (made.replayed, made.versions, made.left) == ([0, 1, 2], [0, 1, 2], 0)
    b = place.open("same")
    assert b.state("sums").sort_by("k") == r.state("sums").sort_by("k"), "with updated_at"
    assert rows(b) == rows(r)
    assert bag(b.quarantine()) == bag(r.quarantine())
    assert [commit.batch_time_ms for commit in b.commits()] == [commit.batch_time_ms for commit in r.commits()]
    assert len(place.lines()) == len(rows(r))
    assert b.verify(deep=True).problems == r.verify(deep=True).problems == []


def test_other_code_makes_what_a_naive_loop_makes_and_a_new_operator_gets_its_past(place: Place) -> None:
    changed = place.open(factor=2, extra=True)
    assert changed.replay(0, into="fix", engine="local").versions == [0, 1, 2]
    b = place.open("fix", factor=2, extra=True)
    assert sums(b) == place.sums(2)
    assert sums(b, "extra") == Counter(key for rows in place.files.values() for key, _ in rows)
    assert sums(place.open()) == place.sums()


def test_a_replay_from_a_later_version_takes_the_state_before_it(place: Place) -> None:
    place.open(factor=2).replay(2, into="fix", engine="local")
    expected = {key: 2 * place.sums()[key] - place.sums(without=("5",))[key] for key in place.sums()}
    assert sums(place.open("fix", factor=2)) == expected


def test_what_was_rewound_or_abandoned_is_left_out_and_skipped_files_stay_skipped(place: Place) -> None:
    r = place.open()
    r.rewind(0, "a test", without=["4.csv"])
    place.arrive("6", "7")
    r.skip("7.csv", "a test")
    run(r)
    r.replay(1, into="same", engine="local")
    b = place.open("same")
    assert sums(b) == sums(r) == place.sums(without=("4", "7"))
    assert [row[:2] for row in rows(b)] == [row[:2] for row in rows(r)]
    assert run(b) == [], "both files stay out of the input"
    first = b.commit(1)
    assert (first.kind, first.replays.version, [one.path for one in first.skipped]) == ("skip", 3, ["4.csv"])


def test_a_replay_goes_on_where_it_stopped_and_follows(place: Place) -> None:
    r = place.open(factor=2)
    assert r.replay(0, into="fix", engine="local", max_batches=1).left == 2
    assert r.replay(0, into="fix", engine="local", to_version=1).replayed == [1]
    place.arrive("6")
    run(place.open())
    made = place.open(factor=2).replay(0, into="fix", engine="local", follow=True)
    assert (made.replayed, made.left) == ([2, 3], 0)
    assert place.open(factor=2).replay(0, into="fix", engine="local").replayed == []
    assert sums(place.open("fix", factor=2)) == place.sums(2)


def test_requeued_rows_are_replayed(place: Place) -> None:
    r = place.open()
    rows = r.quarantine(0, export=True)
    fixed = rows.set_column(rows.column_names.index("k"), "k", [["k9"] * rows.num_rows])
    fixed = fixed.set_column(fixed.column_names.index("n"), "n", [[7] * rows.num_rows])
    r.requeue(0, rows=fixed)
    run(r)
    r.replay(1, into="same", engine="local")
    assert sums(place.open("same")) == sums(r) == place.sums() | {"k9": 14}


def test_files_that_changed_or_are_gone_are_named_and_taken_as_they_are_on_request(place: Place) -> None:
    place.put("2", "k0,100\n")
    (place.folder / "in/3.csv").unlink()
    (place.folder / "in/4.csv").touch()
    r = place.open()
    with pytest.raises(tm.InvalidInput, match=r"replay version 1 of branch `main`: `3.csv` of source `source` is gone"):
        r.replay(1, into="fix", engine="local")
    with pytest.raises(tm.InvalidInput, match=r"replay version 0 of branch `main`: `2.csv` of source `source` changed"):
        r.replay(0, into="fix", engine="local")
    place.put("3", "k0,3\n")
    with pytest.raises(tm.InvalidInput, match=r"replay version 1 of branch `main`: `3.csv` of source `source` changed"):
        r.replay(1, into="fix", engine="local")
    (place.folder / "in/3.csv").unlink()
    assert [one.name for one in r.branches()] == ["main"], "they are found before anything is written"
    made = r.replay(0, into="fix", engine="local", files="current")
    assert made.versions == [0, 1, 2]
    place.files |= {"2": [("k0", 100)], "3": []}
    assert sums(place.open("fix")) == place.sums()


def test_what_cannot_be_repeated_is_refused(place: Place) -> None:
    r = place.open()
    r.reset(batch_time=r.head.batch_time_ms + 1, reason="a test")
    with pytest.raises(tm.InvalidInput, match="replay version 3 of branch `main`: a `reset` cannot be repeated"):
        r.replay(2, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]
    r.branch("fix", 1)
    b = place.open("fix")
    place.arrive("6")
    run(b)
    with pytest.raises(tm.InvalidInput, match="its version 2 repeats none of branch `main`"):
        r.replay(2, into="fix", engine="local")
    with pytest.raises(tm.InvalidInput, match="the branch starts at version 1 of `main`"):
        r.replay(1, into="fix", engine="local")
    for arguments, said in (((9, None, "x"), "versions go from 0 to 3"), ((1, 0, "x"), "it is before version 1"),
                            ((0, None, "main"), "into `main`"), ((0, None, ""), "invalid branch name")):  # fmt: skip
        with pytest.raises(tm.InvalidInput, match=said):
            r.replay(*arguments, engine="local")
    with pytest.raises(tm.InvalidInput, match="files='now', expected one of recorded, current"):
        r.replay(0, into="y", engine="local", files="now")


def test_the_commands_replay_and_promote(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("TIDEMILL_ROOT", "root")
    replay = ["replay", "shop.py:twice", "--from", "0", "--into", "fix", "--engine", "local"]
    assert main([*replay, "--max-batches", "2"]) == 0
    assert "replayed versions 0–1 into `fix`; 1 version left" in capfd.readouterr().out
    assert main([*replay, "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["replayed"] == [2]
    assert main(replay) == 3
    assert main(["promote", "shop.py:twice", "fix", "--dry-run"]) == 0
    said = capfd.readouterr().out
    assert "the state becomes that of version 2 of branch `fix`" in said and "replaced: versions 0–2" in said
    assert main(["promote", "shop.py:twice", "fix", "--reason", "prices were wrong"]) == 0
    assert "promoted version 2 of `fix` in version 3" in capfd.readouterr().out
    assert sums(place.open(factor=2)) == place.sums(2)


def test_compacted_sinks_leave_nothing_to_repeat(place: Place) -> None:
    r = place.open()
    before = rows(r)
    assert r.maintain(compact_sinks=True).compacted
    assert r.head.kind == "compact"
    assert r.replay(0, into="same", engine="local").versions == [0, 1, 2]
    assert rows(place.open("same")) == before
    r.promote("same")
    assert place.lines() == sorted((row[2], row[0], row[1]) for row in before)


def test_a_branch_starts_at_a_time(place: Place) -> None:
    r = place.open()
    time.sleep(0.01)
    place.arrive("6")
    run(r)
    at = datetime.datetime.fromtimestamp(r.head.batch_time_ms / 1000, datetime.UTC)
    assert r.branch("exact", at).fork_version == 3
    assert r.branch("before", at - datetime.timedelta(milliseconds=1)).fork_version == 2
    assert r.branch("text", at.isoformat()).fork_version == 3
    r.tag("2026-01-05", 2)
    assert r.branch("tagged", "2026-01-05").fork_version == 2, "a tag comes first"
    with pytest.raises(tm.InvalidInput, match="at='1999-01-01' is before the first version"):
        r.branch("early", "1999-01-01")
    with pytest.raises(tm.InvalidInput, match="unknown tag `noon`"):
        r.branch("other", "noon")


def test_progress_shows_what_is_left_of_the_replay(place: Place) -> None:
    seen: list[int] = []
    place.open().replay(0, into="same", engine="local", on_progress=lambda one: seen.append(one.numFilesOutstanding))
    assert seen == [3, 1, 0]


def test_files_that_arrive_while_a_replay_follows_are_read(place: Place) -> None:
    more = iter(["6", "7"])

    def arrive(_: object) -> None:
        for name in more:
            place.arrive(name)
            run(place.open())
            break

    made = place.open(factor=2).replay(0, into="fix", engine="local", follow=True, on_progress=arrive)
    assert (made.replayed, made.left) == ([0, 1, 2, 3, 4], 0)
    assert sums(place.open("fix", factor=2)) == place.sums(2)


def test_a_source_that_the_code_lost_is_named_before_anything_is_written(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p, "other").groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(world.out))

    r = place.but(build).open()
    with pytest.raises(tm.InvalidInput, match="unknown source of version 0 `source`"):
        r.replay(0, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_code_that_cannot_continue_from_the_fork_is_refused_before_anything_is_written(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("n").agg(c=tm.count(), name="sums").write(tm.Json(world.out))

    r = place.but(build).open()
    with pytest.raises(tm.InvalidInput, match=r"operator `sums` has state by key \['k'\], this code declares"):
        r.replay(1, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_a_changed_sink_is_replayed_from_any_version(place: Place) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("k").agg(n=tm.sum("n"), name="sums")
        made.sql("SELECT k, CAST(n AS double) AS n FROM rows").write(tm.Json(world.out), name="sums")

    r = place.but(build).open()
    assert r.replay(2, into="fix", engine="local").versions == [2]
    with pytest.raises(tm.InvalidInput, match="column `n` is double, expected bigint"):
        r.promote("fix")
    r.promote("fix", accept_output_change=True)
    assert sums(r) == place.sums()


def test_a_call_reads_each_commit_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    get = LocalStore.get

    def counted(self: LocalStore, name: str) -> bytes:
        seen[name] += "/commits/" in name
        return get(self, name)

    monkeypatch.setattr(LocalStore, "get", counted)
    older = [f"branches/main/commits/{version:010d}.json" for version in (0, 1)]
    place.open().replay(0, into="fix", engine="local")
    assert [seen.pop(name) for name in older] == [1, 1]
    place.open().promote("fix")
    assert [seen.pop(name) for name in older] == [1, 1]
