"""`forget` and `verify --forgotten` beside places that the code no longer has: removed, renamed, moved, joined ones."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.forgotten import ALICE, BOB, arrive, holding, is_clean, world
from tests.world import Build, World, run

BY_WHO = {"spend": "who"}


def to(path: Path | str | None, name: str = "spend", kind: Any = tm.Json) -> Build:
    """Totals by customer in a folder, or nowhere."""

    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("who").agg(total=tm.sum("n"), name="spend")
        if path is not None:
            made.write(kind(str(path)), name=name)

    return build


def at(folder: Path, build: Build) -> tm.Repository:
    return world(folder).but(build).open()


def rows(place: Path) -> Counter[str]:
    """The rows that a plain reader finds in a folder, without the order of their columns."""
    found = (line for path in place.rglob("*.json") for line in path.read_text().splitlines())
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in found)


def others(found: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in found.items() if ALICE not in row})


def three(folder: Path, build: Build) -> tm.Repository:
    """Three batches, two of which have the customer."""
    for batch in ([(ALICE, 1), (BOB, 2)], [(BOB, 3)], [(ALICE, 4), ("carol", 5)]):
        arrive(folder, *batch)
    r = at(folder, build)
    run(r)
    return r


def after(change: str, folder: Path) -> tuple[tm.Repository, Path]:
    """Return a repository whose sink was changed after three batches, and the place of the files of these."""
    old = folder / "old"
    three(folder, to(old))
    if change == "removed":
        return at(folder, to(None)), old
    if change == "renamed":
        return at(folder, to(old, name="totals")), old
    if change == "moved":
        return at(folder, to(folder / "new")), old
    if change == "moved with its files":
        shutil.move(old, folder / "new")
        return at(folder, to(folder / "new")), folder / "new"
    assert change == "joined, then moved"
    at(folder, to(old)).maintain(compact_sinks=True)
    assert len(list(old.glob("*.json"))) == 1
    return at(folder, to(folder / "new")), old


CHANGES = pytest.mark.parametrize(
    "change", ["removed", "renamed", "moved", "moved with its files", "joined, then moved"]
)


@CHANGES
def test_verify_finds_the_key_where_the_records_say_that_it_was_published(change: str, tmp_path: Path) -> None:
    r, place = after(change, tmp_path)
    arrive(tmp_path, (BOB, 1))
    run(r)
    r.forget("spend", [ALICE], "a test")
    problems = r.verify(forgotten=True).problems
    assert {one.what for one in problems} == {"it holds a forgotten key"}
    assert {Path(one.object.removeprefix("file://")).parent for one in problems} == {place}


@CHANGES
def test_forget_removes_the_key_there_and_all_other_rows_stay(change: str, tmp_path: Path) -> None:
    r, place = after(change, tmp_path)
    arrive(tmp_path, (BOB, 1))
    run(r)
    before = rows(tmp_path / "old") + rows(tmp_path / "new")
    by = dict.fromkeys(("spend", *r.opened.job.outputs), "who") if change == "renamed" else BY_WHO
    looked = r.forget("spend", [ALICE], "a test", by, dry_run=True)
    made = r.forget("spend", [ALICE], "a test", by)
    assert looked.rewritten == made.rewritten and looked.sinks == made.sinks == {"spend": 2}
    assert not [path for path in place.rglob("*.json") if ALICE in path.read_text()]
    assert rows(tmp_path / "old") + rows(tmp_path / "new") == others(before)
    assert not [one for one in made.left if "not there any more" in one or "not looked at" in one]
    assert is_clean(r)
    assert r.forget("spend", [ALICE], "a test", by).rewritten == []


def test_another_pipeline_s_files_and_unpublished_ones_in_a_former_folder_stay(tmp_path: Path) -> None:
    r, place = after("moved", tmp_path)
    (other := place / "shop2.spend-0000000000-00000-0c1f9b2e-0123456789ab.json").write_text(f'{{"who":"{ALICE}"}}\n')
    (note := place / "note.json").write_text(f'{{"who":"{ALICE}"}}\n')
    r.forget("spend", [ALICE], "a test", BY_WHO)
    assert other.exists() and note.exists()
    assert is_clean(r)


def test_an_altered_file_in_a_former_folder_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    r, place = after("removed", tmp_path)
    one = next(path for path in place.glob("*.json") if ALICE in path.read_text())
    one.write_text(one.read_text() + "\n")
    with pytest.raises(tm.CorruptState, match="its content is not the one for which it is named"):
        r.forget("spend", [ALICE], "a test", BY_WHO)
    assert r.head is not None and r.head.version == 2 and ALICE in one.read_text()


def test_a_process_that_died_in_a_former_folder_is_completed_by_maintain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r, place = after("moved", tmp_path)
    before = rows(place)
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.sinks.folder._remove", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            r.forget("spend", [ALICE], "a test", BY_WHO)
    assert not is_clean(r) and ALICE in str(rows(place))
    arrive(tmp_path, (BOB, 9))
    at(tmp_path, to(tmp_path / "new")).maintain()
    assert rows(place) == others(before) and holding(tmp_path, ALICE) == []
    assert is_clean(r)


def test_a_folder_that_is_gone_is_a_problem_until_the_caller_agrees_to_leave_it(tmp_path: Path) -> None:
    r, place = after("moved", tmp_path)
    r.forget("spend", [ALICE], "a test", BY_WHO)
    os.rename(place, tmp_path / "elsewhere")
    [problem] = r.verify(forgotten=True).problems
    assert problem.what == "not looked into: the folder does not exist, but sink `spend` published files there"
    assert f"--left {place.as_uri()}" in problem.hint
    r.forget("spend", [ALICE], "a test", BY_WHO, left=[place.as_uri()], missing_ok=True)
    found = r.verify(forgotten=True)
    assert (found.problems, found.unsearched) == ([], ["spend"])


def test_files_that_readers_took_are_counted(tmp_path: Path) -> None:
    r = three(tmp_path, to(tmp_path / "old"))
    r.forget("spend", [ALICE], "a test", BY_WHO)
    next((tmp_path / "old").glob("*.json")).unlink()
    found = r.verify(forgotten=True)
    assert (found.problems, found.gone_files) == ([], 1)


def test_a_column_of_another_name_is_found_by_its_values(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        made = world.read(p).groupBy("who").agg(total=tm.sum("n"), name="spend")
        made.sql("SELECT total, {'name': who} AS buyer FROM rows").write(tm.Parquet(str(tmp_path / "old")))

    r = three(tmp_path, build)
    r.forget("spend", [ALICE], "a test")
    problems = r.verify(forgotten=True).problems
    assert len(problems) == 2 and all("--column spend=COLUMN" in one.hint for one in problems)
    r.forget("spend", [ALICE], "a test", left=["spend"], missing_ok=True)
    assert is_clean(r)


def test_code_with_fewer_sinks_and_operators_than_the_code_that_forgot_verifies(tmp_path: Path) -> None:
    def two(p: tm.Pipeline, world: World) -> None:
        to(tmp_path / "old")(p, world)
        world.read(p, "other", "more").groupBy("who").agg(n=tm.count(), name="visits").write(
            tm.Json(str(tmp_path / "visits"))
        )

    r = three(tmp_path, two)
    world(tmp_path).put("x", [{"who": ALICE, "n": 1}], inbox="more")
    r.forget("visits", [ALICE], "a test", {"visits": "who", "spend": "who"}, missing_ok=True)
    run(r)
    fewer = world(tmp_path).but(to(None)).open(init=False)
    found = fewer.verify(forgotten=True)
    assert {one.affects for one in found.problems} >= {"state of `visits`", "readers of sink `visits`"}


def test_left_names_only_what_there_is(tmp_path: Path) -> None:
    r = three(tmp_path, to(tmp_path / "old"))
    with pytest.raises(tm.InvalidInput, match="unknown operator, sink or folder to leave `spent`"):
        r.forget("spend", [ALICE], "a test", left=["spent"])
    with pytest.raises(tm.InvalidInput, match="found left='spend', expected a list of names"):
        r.forget("spend", [ALICE], "a test", left="spend")
