"""Versions of other branches, `diff`, `changes`, `history` and `explain`, as users call them, and what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.differing import declared, state_of
from tests.journeys.shop import PIPELINE, arrive, opened, totals, world
from tests.world import Build, World, run
from tidemill.cli.main import main
from tidemill.protocol.differing import differing
from tidemill.reading.diff import DiffReport
from tidemill.reading.diff_outputs import OutputDiff, bag_difference


def two_branches(folder: Path) -> tm.Repository:
    """`main` has a, b, c; `fix` starts after a and has b and another a."""
    arrive(folder, "a", "b", "c")
    r = opened(folder)
    assert run(r, max_batches=2) == [0, 1]
    r.branch("fix", at=0)
    assert run(r) == [2]
    fix = world(folder).open("fix")
    (folder / "in/c.csv").rename(folder / "c.csv")
    world(folder).put("d", "a,1\n")
    assert run(fix) == [1, 2]
    r.tag("done", 2)
    fix.tag("tried", 2)
    return r


def test_a_version_of_another_branch_is_read_by_its_branch_and_number_or_tag(tmp_path: Path) -> None:
    r = two_branches(tmp_path)
    assert totals(r, "fix@1") == totals(r, 1) == {"a": 1, "b": 1}
    assert totals(r, "fix") == totals(r, "fix@2") == totals(r, "fix@tried") == {"a": 2, "b": 1}
    assert totals(r, "main") == totals(r, "main@done") == totals(r, "done") == {"a": 1, "b": 1, "c": 1}
    assert totals(r, "fix@-1") == {}
    fix = world(tmp_path).open("fix")
    assert totals(fix, "main@2") == totals(r) and totals(fix, 2) == {"a": 2, "b": 1}
    assert r.outputs("fix@2").drop_columns(["_seq"]).to_pylist() == [{"k": "a", "n": 2, "_batch_id": 2}]
    assert r.commit("fix@2").branch == fix.opened.branch and r.quarantine("fix@2").num_rows == 0


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("fux@1", "unknown branch `fux`; did you mean `fix`"),
        ("fix@9", "read version 9 of branch `fix-.*`.*: versions go from 0 to 2"),
        ("fix@done", "tag `done` names version 2 of branch `main`"),
        ("fix@", "version `fix@`: expected BRANCH@VERSION"),
        ("@1", "version `@1`: expected BRANCH@VERSION"),
        ("trie", "unknown tag or branch `trie`; did you mean `tried`"),
        (-2, "expected at least -1"),
        (True, "expected a whole number or a tag"),
    ],
)
def test_a_wrong_version_is_one_clear_error(tmp_path: Path, spec: Any, said: str) -> None:
    r = two_branches(tmp_path)
    for read in (lambda: r.state(version=spec), lambda: r.diff(0, spec), lambda: r.changes("counts", 0, spec)):
        with pytest.raises(tm.InvalidInput, match=said):
            read()


def test_corrections_refuse_versions_of_other_branches(tmp_path: Path) -> None:
    r = two_branches(tmp_path)
    with pytest.raises(tm.InvalidInput, match="rewind to `fix@1`: no promotion into `main` has taken over"):
        r.rewind("fix@1", "a test")
    with pytest.raises(tm.InvalidInput, match="version `fix`: .* found the name of a branch"):
        r.tag("new", "fix")
    assert r.head is not None and r.head.version == 2


def test_a_diff_of_everything_has_all_operators_and_sinks(tmp_path: Path) -> None:
    r = two_branches(tmp_path)
    report = r.diff("main", "fix")
    assert isinstance(report, DiffReport)
    assert (report.before, report.after, report.total, report.problems) == ("main@2", "fix@2", 4, {})
    counts, rows = report.operators["counts"], report.sinks["counts"]
    assert (counts.added, counts.removed, counts.changed) == (0, 1, 1)
    assert sorted(counts.table.to_pylist(), key=str) == [
        {"k": "a", "before": {"n": 1}, "after": {"n": 2}}, {"k": "c", "before": {"n": 1}, "after": None},
    ]  # fmt: skip
    assert rows.added_rows.to_pylist() == [{"k": "a", "n": 2}] and rows.removed_rows.to_pylist() == [{"k": "c", "n": 1}]
    same = r.diff("main@1", "fix@1")
    assert isinstance(same, DiffReport) and same.total == 0, "the same file, read on both branches"


def test_ids_of_outputs_count_on_request(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    r.rewind(-1, "a test")
    assert run(r) == [2]
    found = r.diff(0, 2, sink="counts")
    assert isinstance(found, OutputDiff) and (found.added, found.removed) == (0, 0)
    found = r.diff(0, 2, sink="counts", ids=True)
    assert isinstance(found, OutputDiff) and (found.added, found.removed) == (1, 1)
    assert found.added_rows["_batch_id"].to_pylist() == [2]


def test_other_columns_are_compared_where_both_versions_have_them(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    made = World(tmp_path, declared("v int, gone int"))
    r = made.open()
    run(r)
    r.branch("fix", at=0)
    fix = made.but(declared("v bigint, late int", late="late")).open("fix")

    def changed(table: pa.Table) -> pa.Table:
        return table.drop_columns(["gone"]).append_column("late", pa.nulls(table.num_rows, pa.int32()))

    fix.migrate({"last": changed}, reason="a test")
    run(fix)
    found = state_of(fix, "main@1", "fix@2", "last")
    assert (found.total, found.not_compared) == (0, ["`late`: only in fix@2", "`gone`: only in main@1"])
    found = state_of(fix, "main@0", "fix@2", "last")
    assert found.table.to_pylist() == [{"k": "b", "before": None, "after": {"v": 1, "late": 7}}]


def test_versions_with_other_keys_cannot_be_compared(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")

    def by(*key: str) -> Build:
        def build(p: tm.Pipeline, world: World) -> None:
            spec = tm.StateSpec.function(lambda key, row, state: state.update(row.v))
            world.read(p).groupBy(*key).mapWithState(spec, name="last", stateSchema="int", outputSchema="k string")

        return build

    made = World(tmp_path, by("k"))
    r = made.open()
    run(r)
    r.branch("fix", at=0)
    fix = made.but(by("k", "v")).open("fix")
    fix.migrate({"last": lambda t: t.append_column("v", pa.array([1] * t.num_rows, pa.int32()))}, reason="a test")
    run(fix)
    said = "the key of operator `last` is `k string` in main@1 and `k string, v int` in fix@2"
    with pytest.raises(tm.InvalidInput, match=said):
        fix.diff("main@1", "fix@2", operator="last")
    report = fix.diff("main@1", "fix@2")
    assert isinstance(report, DiffReport) and said in report.problems["operator `last`"]
    assert report.sinks["last"].total == 0
    assert [(one.version, one.value) for one in fix.history("last", ("a", 1))] == [(1, 1)], (
        "it begins with the migration"
    )


def test_an_operator_that_one_version_lacks_is_added_or_removed(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    r.branch("fix", at=-1)

    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p).groupBy("v").agg(n=tm.count(), name="by-v")

    fix = World(tmp_path, build).open("fix")
    run(fix)
    assert state_of(fix, "main", "fix", "by-v").table.to_pylist() == [{"v": 1, "before": None, "after": {"n": 1}}]
    gone = state_of(fix, "main", "fix", "counts")
    assert gone.table.to_pylist() == [{"k": "a", "before": {"n": 1}, "after": None}]


def test_deadlines_are_counted_apart_and_updates_with_the_same_value_do_not_count(tmp_path: Path) -> None:
    def last(key: str, row: Any, state: Any) -> None:
        if not state.isTimingOut:
            state.update(row.v)

    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(lambda plan: 1_000 * int(plan.splits[0].path[0]) if plan.splits else 90_000)
        spec = tm.StateSpec.function(last).timeout("30 seconds", clock="batch")
        world.read(p).groupBy("k").mapWithState(spec, name="last", stateSchema="int", outputSchema="k string")

    made = World(tmp_path, build)
    for number, text in enumerate(["a,1\nb,1\n", "a,1\n", "b,2\n"], start=1):
        made.put(f"{number}", text)
    r = made.open()
    run(r)
    found = state_of(r, 0, 1, "last")
    assert (found.total, found.deadlines, found.table.num_rows) == (0, 1, 0)
    found = state_of(r, 1, 2, "last")
    assert found.table.to_pylist() == [{"k": "b", "before": {"state": 1}, "after": {"state": 2}}]
    r.sweep(engine="local", batch_time=90_000)
    history = r.history("last", "b")
    assert [(one.version, one.value, one.kind) for one in history] == [
        (0, 1, "batch"),
        (2, 2, "batch"),
        (3, None, "sweep"),
    ]
    assert [one.fired for one in history] == [[], [], [33_001]]
    assert [one.rows for one in history] == [[{"k": "b", "v": 1}], [{"k": "b", "v": 2}], []]
    assert list(history[0].code["functions"]) == ["last"]


def test_files_that_are_gone_or_changed_are_named(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    world(tmp_path).put("b", "a,2\n")
    r = opened(tmp_path)
    run(r)
    (tmp_path / "in/a.csv").unlink()
    world(tmp_path).put("b", "a,3\na,4\n")
    first, second = r.history("counts", "a")
    assert (first.files, first.rows, second.files, second.rows) == (["a.csv"], [], ["b.csv"], [])
    assert (first.unread, second.unread) == (["`a.csv` is gone"], ["`b.csv` has changed since"])


def test_a_file_that_was_only_touched_is_read_again(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    os.utime(tmp_path / "in/a.csv", (1_000_000, 1_000_000))
    (one,) = r.history("counts", "a")
    assert (one.rows, one.unread) == ([{"k": "a", "v": 1}], [])


def test_a_replay_with_the_same_code_shares_every_segment_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    r.replay(0, into="again", engine="local")
    read: list[str] = []
    get = type(r.opened.store).get
    monkeypatch.setattr(type(r.opened.store), "get", lambda store, name: read.append(name) or get(store, name))
    report = r.diff("main", "again")
    assert isinstance(report, DiffReport) and report.total == 0
    assert not [name for name in read if name.startswith(("state/", "output/"))]
    before, after = (next(iter(r.commit(spec).state["counts"].values())) for spec in ("main@2", "again@2"))
    assert before != after and differing(before, after) == ([], [])


def test_after_a_promotion_the_target_equals_the_branch_and_undone_again_what_it_was(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    world(tmp_path).put("b", "b,5\nb,6\n")
    r.replay(1, into="tried", files="current", engine="local")
    before = r.diff("main", "tried")
    assert isinstance(before, DiffReport)
    assert before.operators["counts"].table.to_pylist() == [{"k": "b", "before": {"n": 1}, "after": {"n": 2}}]
    assert before.sinks["counts"].added_rows.to_pylist() == [{"k": "b", "n": 2}] and before.total == 3
    promoted = r.promote("tried")
    after = r.diff(f"main@{promoted.version}", "tried")
    assert isinstance(after, DiffReport) and after.total == 0
    assert [(one.label, one.value) for one in r.history("counts", "b")] == [("tried@1", {"n": 2})]
    r.rewind(2, "a test")
    assert [(one.version, one.value) for one in r.history("counts", "b")] == [(1, {"n": 1})]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"operator": "count"}, "unknown operator `count`; did you mean `counts`"),
        ({"sink": "count"}, "unknown sink `count`; did you mean `counts`"),
        ({"operator": "counts", "sink": "counts"}, "found both operator and sink"),
        ({"limit": -1}, "limit=-1, expected a whole number of at least 0"),
        ({"tolerance": float("nan")}, "tolerance=nan, expected a number of at least 0"),
        ({"variable": "x"}, "found variable without operator"),
    ],
)
def test_wrong_arguments_of_diff_are_refused(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    with pytest.raises(tm.InvalidInput, match=said):
        r.diff(-1, 0, **arguments)


def test_rows_that_are_near_are_paired_once_within_their_other_columns() -> None:
    before = pa.table({"k": ["a", "a", "b", "c"], "x": [1.0, 2.0, 1.0, float("nan")]})
    after = pa.table({"k": ["a", "a", "b", "c"], "x": [2.05, 1.05, 1.3, float("nan")]})
    assert [one.to_pylist() for one in bag_difference(before, after)] == [[0, 1, 2], [0, 1, 2]]
    assert [one.to_pylist() for one in bag_difference(before, after, 0.1)] == [[2], [2]]
    nested = pa.table(
        {"l": pa.array([[{"x": 0.0}], None]), "m": pa.array([[("a", -0.0)], None], pa.map_("string", "double"))}
    )
    other = pa.table(
        {"l": pa.array([[{"x": -0.0}], None]), "m": pa.array([[("a", -0.0)], None], pa.map_("string", "double"))}
    )
    assert [one.to_pylist() for one in bag_difference(nested, other)] == [[0], [0]]
    assert [one.to_pylist() for one in bag_difference(nested, nested)] == [[], []]


def test_the_commands_show_counts_examples_files_and_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    two_branches(tmp_path)
    (tmp_path / "c.csv").rename(tmp_path / "in/c.csv")
    (tmp_path / "shop.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_ROOT", "root")

    def said(*arguments: str, status: int = 0) -> str:
        assert main([arguments[0], "shop.py:p", *arguments[1:]]) == status
        return capfd.readouterr().out

    assert said("diff", "main", "fix").splitlines() == [
        "main@2 → fix@2", "operator `counts`: 2 keys differ: 0 added, 1 removed, 1 changed",
        "sink `counts`: 1 row added, 1 removed",
    ]  # fmt: skip
    assert "operator `counts`: the same state" in said("diff", "main@1", "fix@1")
    table = said("diff", "main", "fix", "--operator", "counts")
    assert '{"n": 1}' in table and "before" in table and "after" in table
    one = json.loads(said("diff", "main", "fix", "--operator", "counts", "--limit", "1", "--json"))
    assert (one["added"], one["removed"], one["changed"], len(one["rows"])) == (0, 1, 1, 1)
    every = json.loads(said("diff", "main", "fix", "--json"))
    assert every["operators"]["counts"]["changed"] == 1 and every["sinks"]["counts"]["added"] == 1
    said("diff", "main", "fix", "--operator", "counts", "-o", "found.parquet")
    assert pq.read_table("found.parquet").num_rows == 2
    said("diff", "main", "fix", "--sink", "counts", "-o", "rows", "--format", "csv")
    assert Path("rows").read_text() == "side,k,n\nremoved,c,1\nadded,a,2\n"
    said("changes", "counts", "0..2", "-o", "changes.csv")
    assert sorted(Path("changes.csv").read_text().splitlines()) == ["b,,1", "c,,1", "k,before.n,after.n"]
    rows = [json.loads(line) for line in said("changes", "counts", "main@0..main", "--each", "--json").splitlines()]
    assert rows == [
        {"version": 1, "branch": "main", "k": "b", "after": {"n": 1}},
        {"version": 2, "branch": "main", "k": "c", "after": {"n": 1}},
    ]  # fmt: skip
    lines = said("history", "--branch", "fix", "--key", "a", "--operator", "counts").splitlines()
    assert [line for line in lines if "version" in line or "row" in line] == [
        line for line in lines if line.startswith(("version 0 (batch", "version 2 (batch", '  row {"k": "a", "v": 1}'))
    ]  # fmt: skip
    (line,) = said("history", "--key", "c", "--json", "--no-rows").splitlines()
    assert json.loads(line)["value"] == {"n": 1} and "rows" not in json.loads(line)
    assert said("history", "--key", "nothing") == "no version changed this key\n"
    assert "operator `counts`: aggregate by k" in said("explain")
    assert 'operator `counts`, key "c": 1 change' in said("explain", "--key", "c")
    assert json.loads(said("explain", "--json"))["graph"][0] == "pipeline `shop`, time zone UTC"
    said("changes", "counts", "5", status=2)
    said("diff", "0", "1", "-o", "x.csv", status=2)
    said("diff", "0", "1", "--operator", "counts", "-o", "found.parquet", status=1)
    said("diff", "0", "1", "--operator", "counts", "-o", "found.txt", status=1)


def test_rows_in_json_may_have_line_ends_of_unicode(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.py").write_text(PIPELINE)
    world(tmp_path).put("a", "a\u2028b\x85c,1\n")
    run(opened(tmp_path))
    at = [f"{tmp_path}/shop.py:p", "--root", f"{tmp_path}/root", "--json"]
    assert main(["diff", *at, "--operator", "counts", "--", "-1", "0"]) == 0
    assert json.loads(capfd.readouterr().out)["rows"] == [{"k": "a\u2028b\x85c", "after": {"n": 1}}]
