"""`report` as users call it: what it says of a repository, what it refuses, and that data stays data in the page."""

from __future__ import annotations

import json
import os
import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import PIPELINE, arrive, opened, world
from tests.world import World, over, run
from tidemill.cli.main import main
from tidemill.report import collect
from tidemill.report.page import page

EVIL = "</script><script>alert(1)</script><!--"


def command(folder: Path, *arguments: str) -> int:
    (folder / "shop.py").write_text(PIPELINE)
    return main(["report", f"{folder}/shop.py:p", "--root", f"{folder}/root", *arguments])


def json_of(text: str) -> Any:
    """The data in a page."""
    found = re.search(r'<script type="application/json" id="tidemill-data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


def test_an_empty_repository_has_a_report(tmp_path: Path) -> None:
    found = opened(tmp_path).report()
    assert (found.head, found.commits, found.graph.cells, found.problems) == (None, [], [], [])
    assert [(one.name, one.rows, one.bytes) for one in found.operators] == [("counts", 0, 0)]
    assert json_of(page(found))["head"] is None


def test_a_report_says_what_the_log_says(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    world(tmp_path).put("c", "a,1\nc,1\n")
    r = opened(tmp_path)
    run(r)
    r.tag("done", 1)
    r.rewind(1, reason="wrong file", without=["c.csv"])
    found = r.report(keys=[("counts", "a"), (None, "c")])
    assert found.head == found.commits[-1] and found.head is not None and found.head.restores == "main@1"
    assert [(one.label, one.kind, one.rows, one.undone, one.tags) for one in found.commits] == [
        ("main@0", "batch", 1, False, ()), ("main@1", "batch", 1, False, ("done",)), ("main@2", "batch", 2, True, ()),
        ("main@3", "rewind", 0, False, ()),
    ]  # fmt: skip
    assert found.commits[3].reason == "wrong file" and found.commits[0].parent == "main@-1"
    segments = [one for runs in r.commit(2).state["counts"].values() for one in runs]
    assert found.commits[2].state == {"counts": (3, sum({one.name: one.size for one in segments}.values()))}
    assert found.tags == {"done": "main@1"} and found.branches[0].head == 3
    one, other = found.look_ups
    assert (one.state[0]["n"], other.state, one.changes) == (1, [], 1)
    assert one.history[0]["version"] == 0 and one.history[0]["files"] == ["a.csv"]
    assert json_of(page(found)) == json.loads(json.dumps(found.as_dict()))


def test_only_the_newest_commits_are_read(tmp_path: Path) -> None:
    arrive(tmp_path, *"abcdef")
    r = opened(tmp_path)
    run(r)
    assert [one.version for one in r.report(commits=2).commits] == [4, 5]
    r.maintain(keep_versions=3)
    found = r.report()
    assert [one.version for one in found.commits] == [3, 4, 5] and found.kept_from == 3


def test_the_newest_branch_is_compared_with_its_origin(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    r.branch("fix", at=0)
    (tmp_path / "in/b.csv").rename(tmp_path / "b.csv")
    world(tmp_path).put("d", "a,1\n")
    run(world(tmp_path).open("fix"))
    found = r.report()
    assert found.graph.lanes == ["main", "fix"] and [one.label for one in found.others] == ["fix@1"]
    assert found.diff is not None and (found.diff.before, found.diff.after) == ("main@1", "fix@1")
    state, sink = found.diff.parts
    assert (state.what, state.added, state.removed, state.changed) == ("operator", 0, 1, 1)
    assert {"key": {"k": "a"}, "before": {"n": 1}, "after": {"n": 2}} in state.examples
    assert (sink.what, sink.added, sink.removed, sink.changed) == ("sink", 1, 1, None)
    on_branch = world(tmp_path).open("fix").report()
    assert [one.label for one in on_branch.commits] == ["main@0", "fix@1"]
    assert on_branch.branch == "fix" and [one.label for one in on_branch.others] == ["main@1"]
    assert r.report(diff=False).diff is None
    asked = r.report(diff=(0, 1)).diff
    assert asked is not None and asked.before == "main@0"
    r.drop_branch("fix")
    after = r.report()
    assert after.diff is None and len(after.dropped) == 1 and after.others == []


def test_a_replay_is_compared_with_the_versions_that_it_repeats(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    r.replay(1, 1, into="fix", engine="local")
    found = r.report()
    assert found.diff is not None and (found.diff.before, found.diff.after) == ("main@1", "fix@1")
    assert not any(one.added or one.removed or one.changed for one in found.diff.parts)
    assert found.others[0].replays == "main@1"


def test_a_promotion_undoes_versions_and_names_where_it_comes_from(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    r.replay(1, into="fix", engine="local")
    r.promote("fix", reason="better")
    head = r.report().head
    assert head is not None and (head.kind, head.promoted, head.reason) == ("promote", "fix@1", "better")


def timed(folder: Path, *key: Any, late: str = "drop") -> World:
    """Rows with event times are counted."""
    counted = over(
        lambda rows: rows.withWatermark("at", "1 hour", late=late).groupBy(*key).agg(n=tm.count(), name="counts")
    )
    return World(folder, counted, schema="k string, at timestamp", mode="PERMISSIVE")


def test_late_and_quarantined_rows_are_counted_and_shown(tmp_path: Path) -> None:
    made = timed(tmp_path, "k", tm.window("at", "1 hour"), late="quarantine")
    made.put("1", "a,2026-01-03 00:00:00\nb,nonsense\n")
    made.put("2", "a,2026-01-01 00:00:00\na,2026-01-04 00:00:00\n")
    r = made.open()
    assert r.report().watermarks == []
    run(r)
    found = r.report()
    assert [(one.late_rows, one.quarantined_rows) for one in found.commits[:2]] == [(0, 1), (1, 0)]
    assert [(one["version"], one["file"], one["row"]) for one in found.late] == [("main@1", "2.csv", 1)]
    assert [(one["kind"], one["version"]) for one in found.quarantined] == [("late", 1)]
    (mark,) = found.watermarks
    assert mark.behind_batch_time_ms is not None and mark.behind_now_ms is not None
    assert found.head is not None and mark.behind_batch_time_ms == found.head.batch_time_ms - (mark.time_ms or 0)


def test_a_watermark_without_events_has_no_lag(tmp_path: Path) -> None:
    made = timed(tmp_path, "k")
    made.put("1", "nonsense,nonsense\n")
    r = made.open()
    run(r)
    assert [(one.time_ms, one.behind_now_ms) for one in r.report().watermarks] == [(None, None)]


def test_a_damaged_commit_is_a_problem_and_hides_nothing_else(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    (tmp_path / "root/shop/branches/main/commits/0000000001.json").write_text("{}")
    found = opened(tmp_path).report()
    assert [one.version for one in found.commits] == [0, 2]
    assert len(found.problems) == 1 and "commits/0000000001.json" in found.problems[0]


def test_damaged_commits_of_a_side_branch_are_a_problem_and_hide_nothing_else(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    fork = r.branch("fork", at=1)
    side = r.replay(0, into="side", engine="local").branch
    newest = tmp_path / "root/shop/branches" / f"{side}-2" / "commits/0000000002.json"
    newest.write_text("{}")
    found = opened(tmp_path).report()
    assert [one.label for one in found.commits] == ["main@0", "main@1", "main@2"]
    assert [one.label for one in found.others] == ["side@0", "side@1"]
    assert [(one.name, one.head) for one in found.branches] == [("main", 2), (fork.name, 1), ("side", 2)]
    assert found.diff is None and len(found.problems) == 1 and "commits/0000000002.json" in found.problems[0]
    shutil.rmtree(newest.parent)
    found = opened(tmp_path).report()
    assert [one.label for one in found.commits] == ["main@0", "main@1", "main@2"] and found.others == []
    assert [(one.name, one.head) for one in found.branches] == [("main", 2), ("fork", 1), ("side", -1)]
    assert any("the commit is missing" in one for one in found.problems), found.problems


def test_a_damaged_newest_commit_of_main_is_a_problem_of_the_report_of_a_branch(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    r.branch("fix", at=0)
    fix = world(tmp_path).open("fix")
    run(fix)
    (tmp_path / "root/shop/branches/main/commits/0000000001.json").write_text("{}")
    found = fix.report()
    assert [one.label for one in found.commits] == ["main@0", "fix@1"]
    assert found.diff is None and ["commits/0000000001.json" in one for one in found.problems] == [True]


def test_in_the_middle_of_a_promotion_the_page_compares_what_check_compares(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b", "c")
    r = opened(tmp_path)
    run(r)
    r.replay(0, into="one", engine="local")
    r.promote("one")
    r.replay(0, into="two", engine="local", max_batches=2)
    found = r.report().diff
    against = r.check(against="two").against
    assert found is not None and against is not None
    assert (found.before, found.after) == (against.before, against.after)


def test_what_cannot_be_compared_is_a_problem_but_what_was_asked_for_raises(tmp_path: Path) -> None:
    arrive(tmp_path, *"abcd")
    r = opened(tmp_path)
    run(r)
    r.replay(1, 1, into="fix", engine="local")
    r.maintain(keep_versions=1)
    found = r.report()
    assert found.diff is None and len(found.problems) == 1 and "it is no longer kept" in found.problems[0]
    with pytest.raises(tm.InvalidInput, match="versions go from 0 to 3"):
        r.report(diff=(0, 9))
    with pytest.raises(tm.InvalidInput, match="unknown operator `coutns`"):
        r.report(keys=[("coutns", "a")])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"commits": 0}, "commits=0, expected a whole number of at least 1"),
        ({"commits": True}, "commits=True"),
        ({"diff": True}, "diff=True, expected two versions, False or None"),
        ({"diff": (1,)}, "expected two versions"),
        ({"keys": ["a"]}, "expected pairs of an operator and a key"),
        ({"keys": "ab"}, "expected pairs of an operator and a key"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(tm.InvalidInput, match=said.replace("(", r"\(")):
        opened(tmp_path).report(**arguments)


def test_data_cannot_become_markup(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    world(tmp_path).put("a", f"{EVIL},1\n")
    r = opened(tmp_path)
    run(r)
    r.rewind(-1, reason=f"{EVIL}&amp;\u2028")
    run(r)
    text = page(r.report(keys=[("counts", EVIL)]))
    clean = page(opened(tmp_path, "other").report())
    for markup in ("<script", "</script", "<!--"):
        assert text.count(markup) == clean.count(markup)
    assert "\u2028" not in text.partition('id="tidemill-data"')[2] and "alert(1)" in text
    data = json_of(text)
    assert data["look_ups"][0]["key"] == EVIL and data["commits"][1]["reason"].startswith(EVIL)


def test_values_are_exact_in_javascript_and_have_a_bounded_size() -> None:
    p = tm.Pipeline("odd")
    rows = p.read(tm.Rows("k string, big long, d decimal(20,3), x double"))
    rows.groupBy("k").agg(big=tm.max("big"), d=tm.sum("d"), x=tm.max("x"), name="sums")
    tester = tm.testing.Tester(p)
    lines, long = "a\u2028b\x85c\r\n", "x" * 10_000
    tester.batch(
        [(lines, 2**62, Decimal("12345678901234567.123"), float("nan")), (None, -5, None, 0.1), (long, 1, None, None)]
    )
    found = tester.repository.report(keys=[("sums", lines), ("sums", None), ("sums", long)])
    first, second, third = (one.state[0] for one in found.look_ups)
    assert (first["k"], first["big"], first["d"], first["x"]) == (lines, str(2**62), "12345678901234567.123", "NaN")
    assert (second["big"], second["x"], "k" in second) == (-5, 0.1, False)
    assert len(third["k"]) == 301 and found.look_ups[2].key == third["k"]
    assert json_of(page(found))["look_ups"][0]["key"] == lines


def test_the_page_forbids_requests_and_allows_only_its_own_scripts(tmp_path: Path) -> None:
    text = page(opened(tmp_path).report())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", text.partition("<script")[0])
    assert "The above copyright notice and this permission notice" in text


def test_the_command_writes_a_new_file_whole_and_replaces_one_only_if_asked(tmp_path: Path, capfd: Any) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    file = tmp_path / "report.html"
    assert command(tmp_path, "--html", str(file)) == 0
    assert capfd.readouterr().out == f"wrote {file}: {file.stat().st_size:,} bytes\n"
    file.write_text("mine")
    assert command(tmp_path, "--html", str(file)) == 1
    assert "the file exists\nhint: choose another name, or add --force" in capfd.readouterr().err
    assert file.read_text() == "mine"
    assert command(tmp_path, "--html", str(file), "--force", "--key", "a", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["look_ups"][0]["state"][0]["n"] == 1 and json_of(file.read_text())["look_ups"] == found["look_ups"]
    assert command(tmp_path, "--html", f"{tmp_path}/none/report.html") == 1
    assert "No such file or directory" in capfd.readouterr().err
    assert [name for name in os.listdir(tmp_path) if "part" in name] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "add --html FILE to write the page, --serve to look at it in a browser, or --json to print its data"),
        (["--serve", "--json"], "--serve writes nothing: leave out --html and --json"),
        (["--serve", "--html", "x.html"], "--serve writes nothing: leave out --html and --json"),
        (["--json", "--diff", "0", "1", "--no-diff"], "--diff and --no-diff exclude each other"),
        (["--json", "--operator", "counts"], "--operator names the operator of --key; --key is missing"),
        (["--json", "--key", "a", "--operator", "x", "--operator", "y"], "found 2 --operator and 1 --key"),
        (["--json", "--commits", "0"], "0 is not in the range"),
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(
    tmp_path: Path, arguments: list[str], said: str, capsys: Any
) -> None:
    assert command(tmp_path, *arguments) == 2
    assert said in capsys.readouterr().err


def test_the_graph_has_the_newest_branches_and_counts_the_others(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    for number in range(collect.MOST_BRANCHES + 3):
        r.replay(1, into=f"try-{number}", engine="local")
    found = r.report(diff=False)
    shown = [one.name for one in found.branches if one.shown]
    assert len(shown) == collect.MOST_BRANCHES - 1 and "main" in shown and "try-0" not in shown
    assert found.graph.lanes == shown
    assert "try-0" in world(tmp_path).open("try-0").report(diff=False).graph.lanes


def test_a_report_needs_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrive(tmp_path, "a", "b", "a2")
    r = opened(tmp_path)
    run(r)
    r.branch("fix", 1)
    without = tm.read(r.opened.root, "shop")
    asked: dict[str, Any] = {"keys": [("counts", "a")], "diff": (0, 2)}
    ours, theirs = (one.report(**asked).as_dict() for one in (r, without))
    assert {name for name in ours if ours[name] != theirs[name]} <= {"made", "made_ms", "look_ups"}
    assert [one["state"] for one in ours["look_ups"]] == [one["state"] for one in theirs["look_ups"]]
    assert main(["report", f"{tmp_path}/root/shop", "--html", f"{tmp_path}/page.html"]) == 0
    assert "wrote" in capsys.readouterr().out and (tmp_path / "page.html").stat().st_size > 50_000
