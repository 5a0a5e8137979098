"""Upkeep as users see it: what is kept, what goes and why, what is never touched, and what a dry run says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.rewound import command
from tests.journeys.shop import PIPELINE, arrive, files, opened, published, totals
from tests.world import Build, World, run
from tidemill.store import open_store


def objects(folder: Path) -> set[str]:
    root = folder / "root" / "shop"
    found = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return {name for name in found if name.startswith(("state/", "output/", "quarantine/"))}


def counting(*names: str) -> Build:
    """Count the rows of a key in an operator of each name."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        for name in names:
            rows.groupBy("k").agg(n=tm.count(), name=name)

    return build


def five(folder: Path) -> tm.Repository:
    arrive(folder, "a", "b", "c", "d", "e")
    r = opened(folder)
    assert run(r) == [0, 1, 2, 3, 4]
    return r


def test_without_a_rule_nothing_that_is_named_goes(tmp_path: Path) -> None:
    r = five(tmp_path)
    before = objects(tmp_path)
    report = r.maintain()
    assert (report.garbage, report.deleted, report.floor) == ([], 0, 0)
    assert objects(tmp_path) == before


def test_old_versions_go_and_reading_them_says_what_is_kept(tmp_path: Path) -> None:
    r = five(tmp_path)
    report = r.maintain(keep_versions=2)
    assert (report.floor_before, report.floor) == (0, 3)
    assert report.deleted == len(report.garbage) > 0
    assert {one.number for one in report.garbage} <= {0, 1, 2}
    assert totals(r, 3) == dict.fromkeys("abcd", 1)
    for reading in (lambda: r.state(version=2), lambda: r.outputs(version=2), lambda: r.quarantine(2)):
        with pytest.raises(tm.InvalidInput, match="it is no longer kept; versions from 3 on are kept, since 20"):
            reading()
    assert r.outputs()["_batch_id"].to_pylist() == [3, 4]
    assert [commit.version for commit in r.commits()] == [3, 4]
    assert [commit.version for commit in r.log()] == [4, 3]
    with pytest.raises(
        tm.InvalidInput, match="^read the commits since version 1 of branch `main`: it is no longer kept"
    ):
        r.commits(1)
    assert r.commit(1).version == 1  # records outlive what they name
    assert r.verify(deep=True).problems == []
    assert r.maintain(keep_versions=2).garbage == []


def test_a_reader_that_was_opened_before_a_floor_was_raised_reads_what_is_kept(tmp_path: Path) -> None:
    five(tmp_path)
    reader = opened(tmp_path)
    assert reader.head.version == 4
    opened(tmp_path).maintain(keep_versions=2)
    assert reader.outputs()["_batch_id"].to_pylist() == [3, 4]
    reader = opened(tmp_path)
    opened(tmp_path).maintain(keep_versions=1)
    with pytest.raises(tm.InvalidInput, match="it is no longer kept; versions from 4 on are kept"):
        reader.outputs(3)
    (root,) = (tmp_path / "root/shop/output/counts/main").glob("0000000004-*")
    root.unlink()
    with pytest.raises(tm.CorruptState, match="a commit names this object, but it is missing"):
        reader.outputs()


def test_a_pipeline_goes_on_after_maintenance(tmp_path: Path) -> None:
    r = five(tmp_path)
    r.maintain(keep_versions=1)
    arrive(tmp_path, "f")
    assert run(opened(tmp_path)) == [5]
    assert totals(r) == dict.fromkeys("abcdef", 1)


def test_published_files_are_never_touched(tmp_path: Path) -> None:
    r = five(tmp_path)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    r.maintain(keep_versions=1)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


def test_a_tagged_version_stays_and_goes_with_its_tag(tmp_path: Path) -> None:
    r = five(tmp_path)
    r.tag("month-end", 1)
    report = r.maintain(keep_versions=1)
    assert report.kept_by == {"month-end": 1}
    assert totals(r, "month-end") == {"a": 1, "b": 1}
    assert r.outputs(version="month-end")["k"].to_pylist() == ["b"]
    assert r.verify(deep=True).problems == []
    with pytest.raises(tm.InvalidInput, match=r"versions from 4 on are kept, since .*, and the tags `month-end` \(1\)"):
        r.state(version=2)
    r.untag("month-end")
    assert r.maintain().deleted > 0
    with pytest.raises(tm.InvalidInput, match="no longer kept"):
        r.state(version=1)
    with pytest.raises(tm.InvalidInput, match="^tag version 1 of branch `main`: it is no longer kept"):
        r.tag("month-end", 1)


def test_a_rule_by_age_keeps_the_state_of_every_time_within_it(tmp_path: Path) -> None:
    r = five(tmp_path)
    assert r.maintain(keep="90 days").floor == 0
    assert r.maintain(keep="0 seconds").floor == 4


def test_an_operator_may_be_kept_for_longer_or_shorter(tmp_path: Path) -> None:
    r = World(tmp_path, counting("counts", "long", "short")).open()
    arrive(tmp_path, "a", "b", "c", "d", "e")
    run(r)
    report = r.maintain(keep_versions={"*": 3, "long": 5, "short": 1})
    assert (report.floor, report.operator_floors) == (2, {"long": 0, "short": 4})

    def readable(name: str) -> list[int]:
        found = []
        for version in range(5):
            try:
                r.state(name, version=version)
                found.append(version)
            except tm.InvalidInput:
                pass
        return found

    assert {name: readable(name) for name in ("counts", "long", "short")} == {
        "counts": [2, 3, 4], "long": [0, 1, 2, 3, 4], "short": [4],
    }  # fmt: skip
    with pytest.raises(tm.InvalidInput, match="versions of operator `short` from 4 on are kept"):
        r.state("short", version=3)
    with pytest.raises(
        tm.InvalidInput, match="^rewind to version 3 of branch `main`: it is no longer kept; versions from 4"
    ):
        r.rewind(3, "a test")
    assert r.verify(deep=True).problems == []
    assert r.maintain().garbage == []


def test_the_floor_of_an_operator_follows_its_name(tmp_path: Path) -> None:
    before = World(tmp_path, counting("spend"))
    arrive(tmp_path, "a", "b", "c")
    before.run()
    r = before.but(counting("money")).open(init=False)
    r.migrate({}, rename={"spend": "money"}, reason="a better name")
    report = r.maintain(keep_versions={"money": 2})
    assert report.operator_floors == {"money": 2}
    with pytest.raises(tm.InvalidInput, match="versions of operator `spend` from 2 on are kept"):
        r.state("spend", version=1, partial=True)
    assert r.state("money").num_rows == 3
    assert r.verify(deep=True).problems == []


def test_leftovers_of_failed_attempts_go_and_those_above_the_head_stay(tmp_path: Path) -> None:
    r = five(tmp_path)
    root = tmp_path / "root" / "shop"
    [whole] = (root / "state/counts/partials/main").glob("0000000004-*")
    attempt = whole.name.split("-")[1]
    orphan, ahead = (
        whole.with_name(whole.name.replace(attempt, "f" * 12).replace("0000000004", f"{number:010d}"))
        for number in (4, 5)
    )
    for path in (orphan, ahead):
        path.write_bytes(whole.read_bytes())
    report = r.maintain()
    assert [(one.name, one.why) for one in report.garbage] == [
        (str(orphan.relative_to(root)), "left by an attempt at version 4 that was not committed")
    ]
    assert (orphan.exists(), ahead.exists()) == (False, True)


def test_a_time_budget_of_nothing_deletes_nothing_and_the_next_call_goes_on(tmp_path: Path) -> None:
    r = five(tmp_path)
    first = r.maintain(keep_versions=1, time_budget=0)
    assert (first.deleted, len(first.garbage) > 0) == (0, True)
    assert r.maintain().deleted == len(first.garbage)


def test_a_dry_run_changes_nothing_and_names_every_object_and_why(tmp_path: Path) -> None:
    r = five(tmp_path)
    before = objects(tmp_path) | {str(path) for path in (tmp_path / "root").rglob("*")}
    report = r.maintain(keep_versions=2, dry_run=True)
    assert report.dry_run and report.deleted == 0 and report.floor == 3
    assert objects(tmp_path) | {str(path) for path in (tmp_path / "root").rglob("*")} == before
    assert {one.name for one in report.garbage} == {one.name for one in r.maintain(keep_versions=2).garbage}


def test_a_collector_that_stalled_deletes_nothing_that_is_named_meanwhile(tmp_path: Path) -> None:
    """What it found is deleted after other callers ran, rewound, tagged and maintained."""
    from tidemill.upkeep.collect import look_for_garbage

    r = five(tmp_path)
    r.maintain(keep_versions=4, time_budget=0)
    found, dead = look_for_garbage(r.opened, r.opened.refresh())
    assert not dead
    r.tag("held", 2)
    r.rewind(1, "meanwhile")
    run(opened(tmp_path))
    opened(tmp_path).opened.store.delete_many([one.name for one in found])
    assert opened(tmp_path).verify(deep=True).problems == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"keep_versions": 0}, "^maintain: keep_versions=0, expected a whole number of at least 1$"),
        ({"keep_versions": True}, "^maintain: keep_versions=True, expected a whole number"),
        ({"keep": "a week or so"}, "a week or so"),
        ({"keep": {"count": "1 day"}}, "unknown operator to keep `count`; did you mean `counts`?"),
        ({"keep_versions": 1, "time_budget": -1}, "^maintain: time_budget=-1, expected a number of at least 0$"),
    ],
)
def test_a_wrong_rule_changes_nothing(tmp_path: Path, rule: Any, said: str) -> None:
    r = five(tmp_path)
    before = objects(tmp_path)
    with pytest.raises(tm.InvalidInput, match=said):
        r.maintain(**rule)
    assert objects(tmp_path) == before
    assert r.maintain().floor == 0


def test_the_command_asks_and_says_what_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b", "c")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    maintain = ("maintain", "shop.py:p", "--keep-versions", "1")
    status, out, _ = command(capfd, *maintain, "--dry-run")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "versions 0–1 will no longer be readable"
    assert lines[1].endswith(" bytes) will be deleted") and lines[-1] == "dry run: nothing was changed"
    assert "of version 0, and no version that is kept names it" in out
    status, out, err = command(capfd, *maintain)
    assert (status, "versions 0–1 will no longer be readable" in err) == (0, True)
    assert out.startswith("versions from 2 on are kept; deleted ")
    assert command(capfd, "log", "shop.py:p")[1].splitlines()[-1] == "versions from 2 on are kept"
    assert "versions from 2 on" in command(capfd, "status", "shop.py:p")[1]
    status, out, _ = command(capfd, *maintain, "--json")
    found = json.loads(out.splitlines()[-1])
    assert (status, found["floor"], found["garbage"]) == (3, 2, [])
    status, _, err = command(capfd, "maintain", "shop.py:p", "--keep-versions", "none")
    assert (status, "--keep-versions expects a whole number of at least 1, found `none`" in err) == (2, True)


def test_removing_a_tag_says_that_its_version_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b", "c")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    for name, version in (("old", "0"), ("same", "0"), ("new", "2")):
        command(capfd, "tag", "shop.py:p", name, version)
    command(capfd, "maintain", "shop.py:p", "--keep-versions", "1")
    warning = "version 0 will no longer be readable, and cannot be tagged again"
    assert warning not in command(capfd, "untag", "shop.py:p", "old")[2]
    assert warning in command(capfd, "untag", "shop.py:p", "same")[2]
    assert "no longer be readable" not in command(capfd, "untag", "shop.py:p", "new")[2]


def test_a_raised_floor_of_an_operator_is_something_done_also_if_nothing_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    command(capfd, "tag", "shop.py:p", "kept", "0")
    maintain = ("maintain", "shop.py:p", "--keep-versions", "counts=1")
    status, _, err = command(capfd, *maintain)
    assert (status, "state of operator `counts`: versions from 1 on are kept" in err) == (0, True)
    status, out, _ = command(capfd, *maintain, "--json")
    found = json.loads(out.splitlines()[-1])
    assert (status, found["operator_floors_before"], found["operator_floors"]) == (3, {"counts": 1}, {"counts": 1})


def test_a_memory_root_can_be_maintained(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path, root=f"memory://maintained-{tmp_path.name}")
    run(r)
    assert r.maintain(keep_versions=1).deleted > 0
    assert [row["version"] for row in published(tmp_path)] == [0, 1]
    assert open_store(f"memory://maintained-{tmp_path.name}").stat("shop/refs/0000000001.json") is not None
