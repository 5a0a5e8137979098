"""Branches: versions of another line up to the fork, own ones after it, and nothing in the sinks unless asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidemill as tm
from tests.journeys.shop import PIPELINE, arrive, files, opened, published, totals, world
from tests.world import World, run
from tidemill.cli.main import main
from tidemill.store.local import LocalStore


def on(folder: Path, name: str) -> tm.Repository:
    return world(folder).open(name)


def three(folder: Path) -> tm.Repository:
    arrive(folder, "a", "b", "c")
    r = opened(folder)
    assert run(r) == [0, 1, 2]
    return r


def test_a_branch_has_the_versions_up_to_its_fork_and_goes_on_by_itself(tmp_path: Path) -> None:
    r = three(tmp_path)
    made = r.branch("fix", at=1)
    assert (made.name, made.fork_branch, made.fork_version, made.head) == ("fix", "main", 1, 1)
    b = on(tmp_path, "fix")
    assert b.head == r.commit(1)
    assert totals(b) == {"a": 1, "b": 1}
    arrive(tmp_path, "d")
    assert run(b) == [2, 3], "c.csv and d.csv wait on the branch"
    assert run(r) == [3]
    assert totals(b) == totals(r) == dict.fromkeys("abcd", 1)
    assert [(one.version, one.branch) for one in b.log()] == [(3, made.id), (2, made.id), (1, "main"), (0, "main")]
    assert b.commit(2).parent == r.commit(1).as_parent
    assert [one.branch for one in r.log()] == ["main"] * 4
    assert b.outputs().num_rows == r.outputs().num_rows == 4
    assert b.verify(deep=True).problems == r.verify(deep=True).problems == []


def test_no_object_is_copied_for_a_branch(tmp_path: Path) -> None:
    r = three(tmp_path)
    before = {path for path in (tmp_path / "root").rglob("*") if path.is_file()}
    r.branch("fix")
    after = {path for path in (tmp_path / "root").rglob("*") if path.is_file()}
    assert [path.parent.name for path in after - before] in (["refs"], ["refs", "refs"])  # the entry, and the snapshot


def test_a_branch_starts_at_a_tag_at_the_head_or_before_the_first_batch(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.tag("early", 0)
    assert r.branch("one", at="early").fork_version == 0
    assert r.branch("two").fork_version == 2
    assert r.branch("three", at=-1).head == -1
    b = on(tmp_path, "three")
    assert b.head is None and run(b) == [0, 1, 2]
    assert totals(b) == totals(r)
    assert [(one.name, one.fork_version, one.head) for one in r.branches()] == [
        ("main", -1, 2), ("one", 0, 0), ("two", 2, 2), ("three", -1, 2),
    ]  # fmt: skip
    assert b.verify(deep=True).problems == []


def test_a_branch_publishes_nothing_and_calls_no_function(tmp_path: Path) -> None:
    r = three(tmp_path)
    before = published(tmp_path)
    r.branch("fix", at=0)
    b = on(tmp_path, "fix")
    run(b)
    b.rewind(0, "a test")
    run(b)
    assert published(tmp_path) == before and b.publish(since=0) == []
    assert b.verify(deep=True).problems == r.verify(deep=True).problems == []


def test_functions_are_not_called_for_a_branch(tmp_path: Path) -> None:
    calls: list[int] = []

    def build(p: tm.Pipeline, world: World) -> None:
        counted = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        counted.foreachBatch(lambda table, batch: calls.append(batch))

    calling = World(tmp_path, build)
    calling.arrive("a,1\n", "b,1\n")
    r = calling.open()
    run(r, max_batches=1)
    r.branch("fix", publish_to=calling.sink("place"))
    run(calling.open("fix"))
    assert calls == [0]


def test_a_branch_with_a_place_publishes_its_own_versions_there(tmp_path: Path) -> None:
    r = three(tmp_path)
    before = files(tmp_path)
    r.branch("fix", at=1, publish_to=str(tmp_path / "place"))
    b = on(tmp_path, "fix")
    run(b)
    (only,) = (tmp_path / "place/counts").iterdir()
    assert "-0000000002-" in only.name
    assert files(tmp_path) == before
    b.rewind(0, "a test")
    assert list((tmp_path / "place/counts").iterdir()) == []
    assert run(b) == [4, 5]
    assert len(list((tmp_path / "place/counts").iterdir())) == 2
    assert b.verify(deep=True).problems == r.verify(deep=True).problems == []
    with pytest.raises(tm.InvalidInput, match="sink `counts` at .* has 2 files of this pipeline"):
        r.branch("other", publish_to=str(tmp_path / "place"))
    r.branch("empty", publish_to=str(tmp_path / "second"))
    for where in ("second/", "second/deeper", "second/counts", "second/../second", ""):
        with pytest.raises(
            tm.InvalidInput, match="branch `other` would publish to .*, and branch `(fix|empty)` publishes"
        ):
            r.branch("other", publish_to=f"{tmp_path}/{where}")
    r.branch("beside", publish_to=f"{tmp_path}/second-too")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "publish_to is '', expected a folder"),
        ("/", "publish_to is '/', expected a folder"),
        ("{}/out", "so readers would find the rows of both"),
        ("{}/out/deeper", "so readers would find the rows of both"),
        ("{}/root/shop", "inside of the repository"),
    ],
)
def test_a_place_where_other_files_are_is_refused(tmp_path: Path, where: str, said: str) -> None:
    r = three(tmp_path)
    with pytest.raises(tm.InvalidInput, match=said):
        r.branch("fix", 0, publish_to=where.format(tmp_path))
    assert [one.name for one in r.branches()] == ["main"]


def test_forget_cleans_the_places_of_branches_and_drops_these(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.branch("fix", at=1, publish_to=str(tmp_path / "place"))
    on(tmp_path, "fix").branch("nested")
    run(on(tmp_path, "fix"))
    with pytest.raises(tm.InvalidInput, match=r"branch `fix` \(version 1\), branch `nested` \(version 1\) keep"):
        r.forget("counts", ["a"], "a test")
    made = r.forget("counts", ["c"], "a test", {"counts": "k"}, drop_refs=True)
    assert any(f"{tmp_path / 'place'}/counts/" in one for one in made.rewritten)
    assert list((tmp_path / "place" / "counts").iterdir()) == [], "the branch published version 2, of which `c` is all"
    assert [one.name for one in r.branches()] == ["main"]
    assert r.verify(deep=True, forgotten=True).problems == []


def test_files_of_a_branch_with_a_place_are_split_by_a_rewind(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.branch("fix", at=-1, publish_to=str(tmp_path / "place"))
    b = on(tmp_path, "fix")
    run(b)
    b.rewind(-1, "a test")
    b.rewind(2, "a test")
    b.rewind(1, "a test")
    rows = duckdb.sql(f"SELECT k, _batch_id FROM read_json('{tmp_path}/place/counts/*.json') ORDER BY ALL").fetchall()
    assert rows == [("a", 0), ("b", 1)]
    assert b.verify(deep=True).problems == []


def test_a_branch_can_be_rewound_to_before_its_fork(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.branch("fix", at=1)
    b = on(tmp_path, "fix")
    run(b)
    assert b.rewind(0, "a test").version == 3
    assert totals(b) == {"a": 1} and totals(r) == dict.fromkeys("abc", 1)
    assert run(b) == [4, 5] and totals(b) == totals(r)
    assert b.outputs()["_batch_id"].to_pylist() == [0, 4, 5]


def test_a_branch_of_a_branch_and_tags_name_versions_of_any(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.branch("one", at=0)
    one = on(tmp_path, "one")
    run(one, max_batches=1)
    one.branch("two")
    two = on(tmp_path, "two")
    run(two)
    assert [commit.branch for commit in two.log()] == [two.opened.branch, one.opened.branch, "main"]
    two.tag("base", 0)
    assert [(tag.name, tag.branch) for tag in r.tags()] == [("base", "main")]
    assert totals(two, "base") == totals(r, "base") == {"a": 1}
    two.tag("new", 2)
    with pytest.raises(tm.InvalidInput, match="tag `new` names version 2 of branch `two`"):
        r.state(version="new")
    with pytest.raises(tm.InvalidInput, match=r"drop branch `two`: tag `new` \(version 2\) needs its versions"):
        r.drop_branch("two")
    with pytest.raises(tm.InvalidInput, match=r"drop branch `one`: branch `two` \(version 1\) needs its versions"):
        r.drop_branch("one")


def test_retention_keeps_what_a_branch_needs_until_it_is_dropped(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.branch("fix", at=0)
    b = on(tmp_path, "fix")
    run(b, max_batches=1)
    r.maintain(keep_versions=1)
    assert totals(on(tmp_path, "fix"), 0) == {"a": 1}
    assert run(on(tmp_path, "fix")) == [2]
    with pytest.raises(tm.InvalidInput, match="version 1 of branch `main`: it is no longer kept"):
        r.branch("late", at=1)
    assert on(tmp_path, "fix").outputs().num_rows == 3
    assert r.verify(deep=True).problems == []
    r.drop_branch("fix")
    assert r.maintain(keep_versions=1).deleted > 0
    assert not [
        path for path in (tmp_path / "root/shop/state").rglob("*") if "/fix-" in path.as_posix() and path.is_file()
    ]
    assert r.verify(deep=True).problems == [] and totals(r) == dict.fromkeys("abc", 1)
    with pytest.raises(tm.InvalidInput, match="unknown branch `fix`"):
        on(tmp_path, "fix")
    with pytest.raises(tm.InvalidInput, match="it would start from dropped branch `fix`"):
        b.branch("late")
    assert r.branch("fix").id != b.opened.branch, "the name may be used again"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("main",), "branch `main` exists already"),
        (("fix",), "branch `fix` exists already; it starts at version 2"),
        (("Fix",), "invalid branch name 'Fix'"),
        (("12",), "a number is not a valid name"),
        (("early",), "branch `early`: a tag has this name"),
        (("new", 3), "versions go from 0 to 2"),
        (("new", "earli"), "unknown tag `earli`; did you mean `early`"),
    ],
)
def test_a_wrong_branch_changes_nothing(tmp_path: Path, arguments: tuple[Any, ...], said: str) -> None:
    r = three(tmp_path)
    r.tag("early", 0)
    r.branch("fix")
    before = r.opened.refresh()
    with pytest.raises(tm.InvalidInput, match=said):
        r.branch(*arguments)
    for name, why in (("main", "`main`: it cannot be dropped"), ("nix", "^unknown branch `nix`")):
        with pytest.raises(tm.InvalidInput, match=why):
            r.drop_branch(name)
    assert r.opened.refresh() == before


def test_the_commands_start_list_use_and_end_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    three(tmp_path)
    (tmp_path / "shop.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_ROOT", "root")
    assert main(["branch", "shop.py:p", "fix", "--at", "1", "--dry-run"]) == 0
    assert "branch `fix` will start at version 1 of `main`" in capfd.readouterr().out
    for refused in (["main"], ["Bad"], ["fix", "--at", "99"], ["fix", "--publish-to", "out"], ["nope", "--drop"],
                    ["main", "--drop"]):  # fmt: skip
        assert main(["branch", "shop.py:p", *refused, "--dry-run"]) == 1, "a dry run refuses what would be refused"
    assert main(["branches", "shop.py:p"]) == 0
    assert capfd.readouterr().out.splitlines() == ["branch `main`: version 2"]
    assert main(["branch", "shop.py:p", "fix", "--at", "1"]) == 0
    assert "started branch `fix`: version 1, from version 1 of `main`" in capfd.readouterr().out
    assert main(["run", "shop.py:p", "--engine", "local", "--branch", "fix"]) == 0
    capfd.readouterr()
    assert main(["branches", "shop.py:p"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "branch `main`: version 2", "branch `fix`: version 2, from version 1 of `main`",
    ]  # fmt: skip
    for unfit in (["--at", "0"], ["--publish-to", "place"]):
        assert main(["branch", "shop.py:p", "fix", "--drop", *unfit]) == 2
        assert f"--drop does not accept {unfit[0]}" in capfd.readouterr().err
    assert main(["branch", "shop.py:p", "fix", "--drop"]) == 0
    assert main(["status", "shop.py:p", "--branch", "fix"]) == 1
    assert "unknown branch `fix`" in capfd.readouterr().err


def test_a_fork_costs_three_requests_and_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = three(tmp_path)
    assert r.head is not None
    asked: list[str] = []
    for verb in ("get", "get_range", "put", "put_hint", "create", "copy_from", "list", "stat", "delete"):
        passing = getattr(LocalStore, verb)

        def counted(self: Any, *given: Any, _passing: Any = passing, _verb: str = verb, **named: Any) -> Any:
            asked.append(_verb)
            return _passing(self, *given, **named)

        monkeypatch.setattr(LocalStore, verb, counted)
    r.branch("fix")
    assert asked == ["stat", "create", "put_hint"]


def test_a_fork_beside_another_writer_knows_its_entries(tmp_path: Path) -> None:
    r, other = opened(tmp_path), opened(tmp_path)
    assert other.head is None and [one.name for one in other.branches()] == ["main"]
    r.branch("fix")
    r.drop_branch("fix")
    r.branch("taken")
    with pytest.raises(tm.InvalidInput, match="branch `taken` exists already"):
        other.branch("taken")
    other.branch("fix")
    r.drop_branch("fix")
    assert other.branch("fix").name == "fix", "what was refused by old entries is tried with all of them"
    assert [one.name for one in r.branches()] == ["main", "taken", "fix"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_damaged_branch_is_dropped_and_maintenance_goes_on(tmp_path: Path, is_lost: bool) -> None:
    r = three(tmp_path)
    r.branch("fix", at=0)
    run(on(tmp_path, "fix"))
    commits = sorted((tmp_path / "root/shop/branches/fix-1/commits").iterdir())
    for path in commits:
        if is_lost:
            path.unlink()
        else:
            path.write_text("{}")
    r = on(tmp_path, "main")
    r.branch("other", at=1)
    with pytest.raises(tm.CorruptState):
        r.maintain()
    dropped = r.drop_branch("fix")
    assert (dropped.name, dropped.head) == ("fix", 0 if is_lost else 2)
    assert [one.name for one in r.branches()] == ["main", "other"]
    r.maintain()
    assert r.maintain(dry_run=True).garbage == []
    left = list((tmp_path / "root/shop/state/counts").rglob("fix-1/*"))
    assert bool(left) is is_lost, "without commits it is not known which objects are its own"
    assert totals(r) == {"a": 1, "b": 1, "c": 1}
