"""`replay` and `promote`: the same code makes the same rows, and other code what a naive loop makes."""

from __future__ import annotations

import datetime
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import run
from tidemill.cli.main import main

PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent

twice = tm.Pipeline("shop")
rows = twice.read(tm.Files(str(here / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE"))
doubled = rows.sql("SELECT k, n * 2 AS n FROM rows")
doubled.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(here / "out")))
"""


class Place:
    """A folder with input files, a repository, and a naive model of what each file has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        (folder / "shop.py").write_text(PIPELINE)
        self.files: dict[str, list[tuple[str, int]]] = {}
        self.open().init()

    def make(self, factor: int = 1, extra: bool = False) -> tm.Pipeline:
        p = tm.Pipeline("shop")
        files = tm.Files(
            str(self.folder / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE", maxFilesPerTrigger=2
        )
        rows = p.read(files)
        scaled = rows.sql(f"SELECT k, n * {factor} AS n FROM rows")
        scaled.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(self.folder / "out")))
        if extra:
            rows.groupBy("k").agg(c=tm.count(), name="extra")
        return p

    def open(self, branch: str = "main", **code: Any) -> tm.Repository:
        return tm.open(self.make(**code), root=str(self.folder / "root"), branch=branch)

    def arrive(self, *names: str) -> None:
        for name in names:
            rows = [(f"k{j % 3}", int(name) + j) for j in range(int(name) + 1)]
            self.files[name] = rows
            text = "".join(f"{k},{n}\n" for k, n in rows)
            (self.folder / "in" / f"{name}.csv").write_text(text + "bad\n")

    def sums(self, factor: int = 1, without: tuple[str, ...] = ()) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name, rows in self.files.items():
            for key, n in rows if name not in without else ():
                found[key] += n * factor
        return dict(found)

    def published(self) -> list[tuple[int, str, int]]:
        """The rows that a plain reader finds in the sink."""
        texts = (path.read_text() for path in sorted((self.folder / "out").glob("*.json")))
        lines = (line for text in texts for line in text.splitlines())
        rows = map(json.loads, lines)
        return sorted((row["_batch_id"], row["k"], row["n"]) for row in rows)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.arrive("1", "2", "3", "4", "5")
    assert run(made.open()) == [0, 1, 2]
    return made


def sums(r: tm.Repository, operator: str = "sums") -> dict[str, int]:
    table = r.state(operator)
    return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


def rows(r: tm.Repository) -> list[tuple[Any, ...]]:
    table = r.outputs(sink="sums")
    return [tuple(row.values()) for row in table.to_pylist()]


def bag(table: Any) -> Counter[str]:
    return Counter(map(str, table.drop_columns(["version"]).to_pylist()))


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
    assert len(place.published()) == len(rows(r))
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
    (place.folder / "in/2.csv").write_text("k0,100\n")
    (place.folder / "in/3.csv").unlink()
    (place.folder / "in/4.csv").touch()
    r = place.open()
    with pytest.raises(tm.InvalidInput, match=r"replay version 1 of branch `main`: `3.csv` of source `source` is gone"):
        r.replay(1, into="fix", engine="local")
    with pytest.raises(tm.InvalidInput, match=r"replay version 0 of branch `main`: `2.csv` of source `source` changed"):
        r.replay(0, into="fix", engine="local")
    (place.folder / "in/3.csv").write_text("k0,3\n")
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


def test_a_promotion_takes_the_place_of_the_versions_since_the_fork_and_can_be_undone(place: Place) -> None:
    r = place.open()
    changed = place.open(factor=2)
    before = place.published()
    changed.replay(1, into="fix", engine="local")
    place.arrive("6")
    run(r)
    later = place.published()
    with pytest.raises(tm.InvalidInput, match=r"it has not read the input of version 3 \(`6.csv`\)"):
        changed.promote("fix")
    assert place.published() == later
    made = changed.promote("fix", "twice", catch_up=True, engine="local")
    assert (made.version, made.kind, made.reason, made.replaced) == (4, "promote", "twice", [(1, 3)])
    assert sums(changed) == sums(place.open("fix", factor=2))
    assert [row for row in place.published() if row[0] == 0] == [row for row in before if row[0] == 0]
    assert place.published() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []
    assert bag(changed.quarantine()) == bag(place.open("fix", factor=2).quarantine())
    changed.drop_branch("fix")
    changed.maintain()
    assert changed.verify(deep=True).problems == []
    assert place.published() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    place.arrive("7")
    assert run(changed) == [5]
    changed.rewind(3, "undo")
    assert place.published() == later and sums(place.open(factor=2)) == place.sums(without=("7",))
    changed.rewind(4, "redo")
    assert place.published() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []


def test_a_compacted_sink_follows_a_promotion_and_is_split_again(place: Place) -> None:
    r = place.open()
    place.arrive("6", "7", "8", "9")
    run(r)
    changed = place.open(factor=2)
    changed.replay(3, into="fix", engine="local")
    r.maintain(compact_sinks=True)
    assert len(list((place.folder / "out").glob("*.json"))) == 1
    made = changed.promote("fix").version
    expected = sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert place.published() == expected
    place.arrive("10")
    run(changed)
    changed.maintain(compact_sinks=True)
    assert len(list((place.folder / "out").glob("*.json"))) == 1
    head = changed.head.version
    changed.rewind(made, "to the promotion")
    assert place.published() == expected
    changed.rewind(made - 1, "before it")
    assert place.published() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    changed.rewind(head, "after it")
    assert place.published() == sorted((row[2], row[0], row[1]) for row in rows(changed))
    assert changed.verify(deep=True).problems == []


def test_a_promotion_may_leave_what_was_published_as_it_is(place: Place) -> None:
    changed = place.open(factor=2)
    changed.replay(0, into="fix", engine="local")
    before, known = place.published(), rows(place.open())
    changed.promote("fix", outputs="keep")
    assert sums(changed) == place.sums(2)
    assert place.published() == before and rows(changed) == known
    place.arrive("6")
    assert run(changed) == [4]
    assert changed.verify(deep=True).problems == []


def test_a_branch_that_ran_by_itself_is_promoted_if_it_has_read_everything(place: Place) -> None:
    r = place.open(factor=2)
    r.branch("fix", at=-1)
    b = place.open("fix", factor=2)
    run(b)
    place.arrive("6")
    run(b)
    r.promote("fix")
    assert sums(r) == place.sums(2)
    assert run(r) == [], "the branch has read it"


def test_a_wrong_promotion_changes_nothing(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(1, into="fix", engine="local")
    before = r.head
    for name, said in (("main", "it is this branch itself"), ("nix", "unknown branch `nix`")):
        with pytest.raises(tm.InvalidInput, match=said):
            r.promote(name)
    with pytest.raises(tm.InvalidInput, match="outputs='all', expected one of correct, keep"):
        r.promote("fix", outputs="all")
    r.branch("empty")
    with pytest.raises(tm.InvalidInput, match="it has no version of its own"):
        r.promote("empty")
    place.open("fix", factor=2).branch("nested")
    place.arrive("8")
    run(place.open("nested", factor=2))
    with pytest.raises(tm.InvalidInput, match="it starts from branch `fix`, not from `main`"):
        r.promote("nested")
    assert place.open().head == before
    r.branch("late", at=2)
    place.arrive("6")
    run(place.open("late", factor=2))
    r.rewind(0, "a test")
    with pytest.raises(tm.InvalidInput, match="promote `late`: version 2, from which it starts, was rewound"):
        r.promote("late")


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


def test_a_branch_that_missed_a_correction_is_not_promoted(place: Place) -> None:
    r = place.open()
    r.branch("one", 0)
    r.branch("two", 0)
    for name in ("one", "two"):
        run(place.open(name))
    r.promote("one")
    with pytest.raises(tm.InvalidInput, match="version 3 has taken over version 2 of branch `one` since it started"):
        r.promote("two")
    r.rewind(2, "undo")
    r.rewind(0, "without a file", without=["4.csv"])
    run(r)
    with pytest.raises(tm.InvalidInput, match="it has read `4.csv`, which version 5 took out of the input"):
        r.promote("two")
    assert sums(r) == place.sums(without=("4",))


def test_compacted_sinks_leave_nothing_to_repeat(place: Place) -> None:
    r = place.open()
    before = rows(r)
    assert r.maintain(compact_sinks=True).compacted
    assert r.head.kind == "compact"
    assert r.replay(0, into="same", engine="local").versions == [0, 1, 2]
    assert rows(place.open("same")) == before
    r.promote("same")
    assert place.published() == sorted((row[2], row[0], row[1]) for row in before)


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


def test_quarantine_with_a_limit_knows_the_files_of_other_branches(place: Place) -> None:
    r = place.open()
    r.branch("fix", 0)
    b = place.open("fix")
    run(b)
    assert b.quarantine(limit=3).to_pylist() == b.quarantine().slice(0, 3).to_pylist()
    assert b.quarantine(limit=1)["version"].to_pylist() == [0]
    r.promote("fix")
    r.drop_branch("fix")
    assert r.quarantine(limit=3).to_pylist() == r.quarantine().slice(0, 3).to_pylist()


def promoted(place: Place) -> tm.Repository:
    """A pipeline of which version 3 is the promotion of branch `fix`, with twice every number, and 4 a batch."""
    r = place.open(factor=2)
    r.replay(0, into="fix", engine="local")
    r.promote("fix")
    place.arrive("6")
    assert run(r) == [4]
    return r


def test_a_replay_goes_through_a_promotion(place: Place) -> None:
    r = promoted(place)
    made = r.replay(0, into="again", engine="local")
    again = place.open("again", factor=2)
    assert (made.versions, made.left) == ([0, 1, 2, 3], 0)
    assert [(one.replays.branch, one.replays.version) for one in again.commits()] == [
        ("fix-1", 0), ("fix-1", 1), ("fix-1", 2), ("main", 4)
    ]  # fmt: skip
    assert again.state("sums").sort_by("k") == r.state("sums").sort_by("k")
    assert [row[:2] for row in rows(again)] == [row[:2] for row in rows(r)]
    found = r.check(against="again").against
    assert (found.before, found.is_equal, found.behind, found.refused) == ("main@4", True, [], None)
    published = place.published()
    r.promote("again")
    assert [row[1:] for row in place.published()] == [row[1:] for row in published]
    place.arrive("7")
    assert run(r) == [6] and sums(r) == place.sums(2)


def test_a_promotion_that_a_branch_did_not_go_through_is_missed(place: Place) -> None:
    r = place.open(factor=2)
    r.replay(0, into="old", engine="local")
    r = promoted(place)
    with pytest.raises(tm.InvalidInput, match="follows version 2 of branch `main`, which was rewound"):
        r.replay(0, into="old", engine="local")
    with pytest.raises(tm.InvalidInput, match="version 3 has taken over version 2 of branch `fix` since it started"):
        r.promote("old")
    r.replay(4, into="new", engine="local")
    assert r.check(against="new").against.is_equal
    r.promote("new")
    assert sums(r) == place.sums(2)


def test_operators_through_a_promotion_need_its_branch(place: Place) -> None:
    promoted(place)
    r = place.open(factor=2, extra=True)
    assert r.replay(0, into="kept", operators=["extra"], engine="local").versions == [0, 1, 2, 3]
    expected = Counter(key for those in place.files.values() for key, _ in those)
    assert sums(place.open("kept", factor=2, extra=True), "extra") == expected
    assert sums(place.open("kept", factor=2, extra=True)) == place.sums(2)
    r.drop_branch("kept")
    r.drop_branch("fix")
    r.maintain()
    with pytest.raises(
        tm.InvalidInput, match="replay version 0 of dropped branch `fix` with operators: .* then dropped"
    ):
        r.replay(0, into="gone", operators=["extra"], engine="local")
    assert [one.name for one in r.branches()] == ["main"]
    assert r.replay(0, into="all", engine="local").versions == [0, 1, 2, 3]
    r.promote("all")
    assert (sums(r), sums(r, "extra")) == (place.sums(2), expected)
    assert r.verify(deep=True).problems == []


def test_promotions_of_promotions_are_gone_through(place: Place) -> None:
    promoted(place)
    r = place.open(factor=3)
    r.replay(0, into="three", engine="local")
    r.promote("three")
    r.rewind(4, "undo")
    r.rewind(5, "redo")
    place.arrive("7", "8", "9")
    run(r)
    assert [commit.kind for commit in r.commits(5)] == ["promote", "rewind", "rewind", "batch", "batch"]
    r.replay(6, into="end", engine="local", to_version=8)
    assert [one.replays.version for one in place.open("end", factor=3).commits(6)] == [8]
    r.replay(0, into="all", engine="local")
    b = place.open("all", factor=3)
    assert [one.replays.branch for one in b.commits()] == ["three-3"] * 4 + ["main"] * 2
    assert sums(b) == sums(r) == place.sums(3)


def test_a_branch_of_a_branch_is_promoted_with_its_outputs(place: Place) -> None:
    r = place.open()
    r.branch("one", 0)
    one = place.open("one")
    run(one)
    one.branch("two", 1)
    two = place.open("two", factor=2)
    run(two)
    with pytest.raises(tm.InvalidInput, match="it starts from branch `one`, not from `main`"):
        place.open(factor=2).promote("two")
    place.open("one", factor=2).promote("two")
    expected = [row[:2] for row in rows(place.open("one", factor=2))]
    r = place.open(factor=2)
    r.promote("one")
    assert [row[:2] for row in rows(r)] == expected
    assert sorted(row[1:] for row in place.published()) == sorted(expected)
    assert r.verify(deep=True).problems == []


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
    p = tm.Pipeline("shop")
    files = tm.Files(str(place.folder / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE")
    p.read(files, name="other").groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(place.folder / "out")))
    r = tm.open(p, root=str(place.folder / "root"))
    with pytest.raises(tm.InvalidInput, match="unknown source of version 0 `source`"):
        r.replay(0, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_code_that_cannot_continue_from_the_fork_is_refused_before_anything_is_written(place: Place) -> None:
    p = tm.Pipeline("shop")
    files = tm.Files(str(place.folder / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE")
    p.read(files).groupBy("n").agg(c=tm.count(), name="sums").write(tm.Json(str(place.folder / "out")))
    r = tm.open(p, root=str(place.folder / "root"))
    with pytest.raises(tm.InvalidInput, match=r"operator `sums` has state by key \['k'\], this code declares"):
        r.replay(1, into="fix", engine="local")
    assert [one.name for one in r.branches()] == ["main"]


def test_a_changed_sink_is_replayed_from_any_version(place: Place) -> None:
    p = tm.Pipeline("shop")
    files = tm.Files(str(place.folder / "in"), format="csv", schema="k string, n int", mode="PERMISSIVE",
                     maxFilesPerTrigger=2)  # fmt: skip
    made = p.read(files).groupBy("k").agg(n=tm.sum("n"), name="sums").sql("SELECT k, CAST(n AS double) AS n FROM rows")
    made.write(tm.Json(str(place.folder / "out")), name="sums")
    r = tm.open(p, root=str(place.folder / "root"))
    assert r.replay(2, into="fix", engine="local").versions == [2]
    with pytest.raises(tm.InvalidInput, match="column `n` is double, expected bigint"):
        r.promote("fix")
    r.promote("fix", accept_output_change=True)
    assert sums(r) == place.sums()
