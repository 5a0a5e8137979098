"""Forgetting keys beside tags, branches and runs, again, and after failures; bad input, dry runs and the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.journeys.forgotten import (
    ALICE,
    BOB,
    ROWS,
    SINKS,
    _same,
    arrive,
    holding,
    is_clean,
    objects,
    opened,
    shop,
    totals,
    world,
)
from tests.world import World, run
from tidemill.cli.main import main
from tidemill.protocol.entries import NewBranch
from tidemill.protocol.refs_log import position
from tidemill.state import disk_cache
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge


def test_tags_and_branches_of_earlier_versions_are_refused_or_dropped(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.tag("month-end", 0)
    for name, of in (("fix", "main"), ("deeper", "fix-2")):
        r.opened.refs_log.append(lambda refs, number, n=name, o=of: _fork(r, refs, number, n, o))
    with pytest.raises(tm.InvalidInput) as error:
        r.forget("spend", [ALICE], "a test")
    for one in ("tag `month-end`", "branch `fix`", "branch `deeper`", "--drop-refs"):
        assert one in str(error.value)
    assert r.head.version == 1 and r.tags() != []
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"}, drop_refs=True)
    assert len(made.dropped) == 3
    assert r.tags() == [] and list(r.opened.refresh().branches) == ["main"]
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def _fork(r: tm.Repository, refs: Any, number: int, name: str, of: str) -> NewBranch | None:
    if name in refs.branches:
        return None
    return NewBranch(
        **position(refs, 1), name=name, id=f"{name}-{number}", fork_branch=of, fork_version=1,
        fork_checksum=r.commit(1).checksum,
    )  # fmt: skip


def test_a_second_call_changes_nothing_and_after_a_batch_it_looks_again(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    again = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert (again.version, again.rewritten, again.rows) == (2, [], {})
    arrive(tmp_path, (ALICE, 99))
    assert run(r) == [3]
    problems = r.verify(forgotten=True).problems
    assert {one.what for one in problems} == {"it holds a forgotten key"}
    assert {one.affects for one in problems} >= {"state of `spend`", "readers of sink `spend`"}
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert (made.version, made.versions) == (4, (2, 3))
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_beside_a_run_it_is_fenced_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.actions import removing as verb

    r, make = shop(tmp_path), verb._make
    arrive(tmp_path, (BOB, 1))

    def overtaken(*arguments: Any) -> Any:
        made = make(*arguments)
        run(opened(tmp_path))
        return made

    monkeypatch.setattr(verb, "_make", overtaken)
    with pytest.raises(tm.Fenced):
        r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert not [name for name, _ in objects(tmp_path / "root", tmp_path / "out") if "-forget" in name]
    monkeypatch.undo()
    assert opened(tmp_path).forget("spend", [ALICE], "a test", columns={"spend": "who"}).version == 3
    assert holding(tmp_path, ALICE) == []


def test_what_a_dead_process_left_is_completed_by_maintain_also_after_a_batch(tmp_path: Path) -> None:
    r = shop(tmp_path)
    with worlds.dying("create", r"/refs/\d+\.json$", "before"):
        r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert holding(tmp_path, ALICE) and not is_clean(r)
    arrive(tmp_path, (BOB, 1))
    run(opened(tmp_path))
    opened(tmp_path).maintain()
    assert holding(tmp_path, ALICE) == [] and is_clean(opened(tmp_path))


def test_an_old_object_that_is_put_back_is_found(tmp_path: Path) -> None:
    r = shop(tmp_path)
    old = [path for path in (tmp_path / "root").rglob("*.parquet") if ALICE in dict(objects(path.parent))[str(path)]]
    saved = {path: path.read_bytes() for path in old}
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert is_clean(r)
    assert {path.relative_to(tmp_path / "root" / "shop").parts[0] for path in saved} == {"state", "output"}
    for path, data in saved.items():
        path.write_bytes(data)
        [problem] = r.verify(forgotten=True).problems
        assert str(path).endswith(problem.object)
        path.unlink()
    orphan = next(path for path in saved if "state" in path.parts)
    stray = orphan.with_name("0000000001-aaaaaaaaaaaa-00000-bbbbbbbb.parquet")
    stray.write_bytes(saved[orphan])
    assert [str(stray).endswith(one.object) for one in r.verify(forgotten=True).problems] == [True]


@pytest.mark.parametrize("sink", ["parquet", "json", "json by another column"])
def test_a_leftover_of_a_failed_attempt_with_the_key_is_found(sink: str, tmp_path: Path) -> None:
    made = SINKS.get(sink, lambda folder: tm.Json(str(folder / "out"), partitionBy=["total"]))
    r = shop(tmp_path, sink=made(tmp_path))
    [old, *_] = [
        path for path in (tmp_path / "root/shop/output").rglob("*.*") if ALICE in dict(objects(path.parent))[str(path)]
    ]
    data = old.read_bytes()
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    left = old.with_name(f"0000000001-{'a' * 12}-00000-bbbbbbbb-p0-00000{old.suffix}")
    left.write_bytes(data)
    assert [str(left).endswith(one.object) for one in r.verify(forgotten=True).problems] == [True]


def test_a_damaged_record_that_is_no_longer_kept_is_a_problem_and_not_an_error(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    (tmp_path / "root/shop/branches/main/commits/0000000000.json").write_text("{")
    assert r.verify().problems == []
    for options in ({"forgotten": True}, {"deep": True}):
        assert ["0000000000.json" in one.what + one.object for one in opened(tmp_path).verify(**options).problems] == [
            True
        ]


@pytest.mark.parametrize("is_merged", [False, True], ids=["segments", "merged segments"])
def test_caches_of_this_machine_do_not_have_the_key(
    is_merged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "LEAST_CACHED_BYTES", 0)
    cache = tmp_path / "cache"
    arrive(tmp_path, *ROWS)
    r = world(tmp_path).open(conf={"tidemill.disk_cache_folder": str(cache)})
    run(r)
    arrive(tmp_path, (ALICE, 10))
    run(r)
    if is_merged:
        assert merge(r.opened, rule=MergeRule(1 << 40, 0)).merged
    assert totals(r)[ALICE] == 14

    def cached() -> list[str]:
        return [path.name for path in cache.rglob("*") if ALICE.encode() in path.read_bytes()]

    assert cached()
    r.forget("spend", [ALICE], "a test")
    assert cached() == []
    assert ALICE not in totals(r)


def test_after_a_rewind_to_before_the_first_batch_there_is_no_state_but_files_of_sinks_go(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.rewind(-1, "a test")
    with pytest.raises(tm.InvalidInput, match="has no state for the key"):
        r.forget("spend", [ALICE], "a test")
    r.forget("spend", [ALICE], "a test", missing_ok=True)
    assert holding(tmp_path, ALICE) == [] and is_clean(r)
    assert run(r) == [4, 5]
    assert totals(r)[BOB] == 7 and not is_clean(r)  # the files of the source brought the key back


def test_a_renamed_operator_is_still_searched(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})

    def spent(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("who").agg(total=tm.sum("n"), name="spent")
        made.write(tm.Parquet(world.out), name="spend")

    renamed = world(tmp_path).but(spent).open(init=False)
    renamed.migrate(rename={"spend": "spent"}, reason="a test")
    assert is_clean(renamed)
    arrive(tmp_path, (ALICE, 1))
    run(renamed)
    affected = {one.affects for one in renamed.verify(forgotten=True).problems}
    assert affected == {"state of `spend`", "rows of sink `spend`", "readers of sink `spend`"}
    assert renamed.maintain().floor == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"operator": "spent"}, "did you mean `spend`|unknown operator"),
        ({"keys": []}, "found no key"),
        ({"keys": ["zoe"]}, "has no state for the key who='zoe' in version 1"),
        ({"keys": [7.5]}, "expected string for the key column"),
        ({"keys": [("a", "b")]}, "expected keys of 1 columns"),
        ({"reason": " "}, "the reason is empty"),
        ({"columns": {"spent": "who"}}, "unknown sink"),
        ({"columns": {"spend": "whom"}}, "unknown column of sink `spend`"),
        ({"columns": {"spend": ["who", "total"]}}, "found 2 columns, expected one for each of the key's columns"),
    ],
)
def test_bad_input_is_one_error_and_nothing_changes(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    r = shop(tmp_path)
    before = dict(objects(tmp_path / "root", tmp_path / "out"))
    given = {"operator": "spend", "keys": [ALICE], "reason": "a test", **arguments}
    with pytest.raises(tm.InvalidInput, match=said):
        r.forget(**given)
    assert _same(dict(objects(tmp_path / "root", tmp_path / "out")), before)


def test_a_dry_run_reports_the_same_and_changes_nothing(tmp_path: Path) -> None:
    r = shop(tmp_path)
    before = dict(objects(tmp_path / "root", tmp_path / "out"))
    found = r.forget("spend", [ALICE], "a test", columns={"spend": "who"}, dry_run=True)
    assert _same(dict(objects(tmp_path / "root", tmp_path / "out")), before)
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert found.version is None
    for name in ("keys", "rows", "rewritten", "versions", "left", "dropped", "quarantined_rows"):
        assert getattr(found, name) == getattr(made, name), name


def test_before_the_first_version_there_is_nothing_to_forget(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="has no version yet"):
        opened(tmp_path).forget("spend", [ALICE], "a test")


def write_code(folder: Path) -> None:
    (folder / "code.py").write_text(
        "from pathlib import Path\nfrom tests.journeys.forgotten import world\n"
        f"p = world(Path({str(folder)!r})).pipeline()\n"
    )


def test_the_command_says_what_will_happen_asks_and_reports(tmp_path: Path, capfd: Any) -> None:
    write_code(tmp_path)
    shop(tmp_path)
    given = ["forget", f"{tmp_path}/code.py:p", "--root", str(tmp_path / "root"), "--operator", "spend", "--key",
             ALICE, "--column", "spend=who", "--reason", "a test"]  # fmt: skip
    assert main([*given, "--dry-run"]) == 0
    assert "1 key will be removed (1 row of map `partials`)" in capfd.readouterr().out
    assert holding(tmp_path, ALICE)
    assert main([*given, "--yes", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["versions"] == [2] and said["given_up"] == [0, 1] and said["removed"] and holding(tmp_path, ALICE) == []
    assert main(["verify", f"{tmp_path}/code.py:p", "--root", str(tmp_path / "root"), "--forgotten"]) == 0


def test_keys_are_looked_for_also_if_there_are_other_problems(tmp_path: Path) -> None:
    r = shop(tmp_path)
    shutil.copytree(tmp_path / "root/shop/state", tmp_path / "backup")
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    shutil.copytree(tmp_path / "backup", tmp_path / "root/shop/state", dirs_exist_ok=True)
    lost = next((tmp_path / "root/shop/state/_ledger").rglob("*.parquet"))
    lost.unlink()
    found = world(tmp_path).open().verify(forgotten=True)
    assert {one.what for one in found.problems if "/spend/" in one.object} == {"it holds a forgotten key"}
    assert any("/_ledger/" in one.object for one in found.problems)


def test_verify_says_how_many_keys_it_looked_for_and_where_it_did_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    r = shop(tmp_path)
    assert r.verify().forgotten_keys is None
    assert r.verify(forgotten=True).forgotten_keys == 0
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    found = r.verify(forgotten=True)
    assert (found.forgotten_keys, found.unsearched) == (1, [])
    r.forget("spend", [BOB, "carol"], "a test")
    found = r.verify(forgotten=True)
    assert (found.forgotten_keys, found.unsearched) == (3, [])
    assert {one.affects for one in found.problems} == {"readers of sink `spend`"}, "no column was named, so it looked"
    r.forget("spend", [BOB, "carol"], "a test", left=["spend"], missing_ok=True)
    found = r.verify(forgotten=True)
    assert (found.forgotten_keys, found.unsearched, found.problems) == (5, ["spend"], [])
    write_code(tmp_path)
    main(["verify", f"{tmp_path}/code.py:p", "--root", str(tmp_path / "root"), "--forgotten"])
    assert "looked for 5 forgotten keys, but not for all of them in the rows of `spend`\n" in capfd.readouterr().out


def test_forgetting_again_says_that_there_is_nothing_to_do(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shop(tmp_path)
    write_code(tmp_path)
    forget = [
        "forget",
        f"{tmp_path}/code.py:p",
        "--root",
        str(tmp_path / "root"),
        "--operator",
        "spend",
        "--key",
        ALICE,
    ]
    assert main([*forget, "--reason", "a test", "--column", "spend=who"]) == 0
    capfd.readouterr()
    assert main([*forget, "--reason", "a test", "--column", "spend=who"]) == 3
    out, err = capfd.readouterr()
    assert out == "version 2 has forgotten 1 key already; deleted 0 objects\n"
    assert "no longer be readable" not in err
