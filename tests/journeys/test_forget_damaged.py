"""Damage of the commits that say which keys were forgotten: an error for what needs them, and a problem in `verify`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, opened
from tests.world import run


@pytest.fixture
def shop(tmp_path: Path) -> tm.Repository:
    """Versions 0 to 2 are batches, 3 and 5 forget a key each. `other` has the batches that came in another history."""
    r = opened(tmp_path)
    arrive(tmp_path, *"abc")
    run(r)
    shutil.copytree(tmp_path / "root", tmp_path / "start")
    arrive(tmp_path, *"xyz")
    run(r)
    (tmp_path / "root").rename(tmp_path / "other")
    (tmp_path / "start").rename(tmp_path / "root")
    for path in [*(tmp_path / "out").glob("*-000000000[345]-*"), *(tmp_path / "in").glob("[xyz].csv")]:
        path.unlink()
    r = opened(tmp_path)
    for key, name in zip("ab", "de", strict=True):
        r.forget("counts", [key], "a test", columns={"counts": "k"})
        arrive(tmp_path, name)
        run(r)
    return opened(tmp_path)


def lost(record: Path) -> None:
    record.unlink()


def of_another_history(record: Path) -> None:
    shutil.copy(str(record).replace("/root/", "/other/"), record)


DAMAGES = pytest.mark.parametrize("damage", [lost, of_another_history])


def commit(folder: Path, version: int) -> Path:
    return folder / "root" / "shop" / "branches" / "main" / "commits" / f"{version:010d}.json"


@DAMAGES
def test_below_the_floor_verify_reports_what_ends_its_search(
    shop: tm.Repository, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    assert shop.verify(forgotten=True).problems == []
    damage(commit(tmp_path, 3))
    [problem] = opened(tmp_path).verify(forgotten=True).problems
    assert problem.affects == "the search for forgotten keys, which is not complete"
    assert "commits/0000000003.json" in problem.what
    with pytest.raises(tm.CorruptState, match=r"commits/0000000003\.json|it is based on version 3"):
        opened(tmp_path).forget("counts", ["a"], "a test")


def test_maintain_refuses_a_commit_of_another_history_in_the_place_of_the_last_forget(
    shop: tm.Repository, tmp_path: Path
) -> None:
    of_another_history(commit(tmp_path, 5))
    with pytest.raises(tm.CorruptState, match="0000000005.json`: expected a `forget`, .* found `batch`"):
        opened(tmp_path).maintain()
    assert opened(tmp_path).verify(forgotten=True).problems
