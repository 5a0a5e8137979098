"""Corrections beside a process that commits and has not published yet, in the moment before they look at the sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, opened, published, world
from tests.world import run
from tidemill.actions import removing
from tidemill.publishing import publish as publishing

UNCACHED = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}


@pytest.fixture
def shop(tmp_path: Path) -> tm.Repository:
    """A batch each for a, b, c and d."""
    r = opened(tmp_path)
    arrive(tmp_path, *"abcd")
    run(r)
    return r


def dies_in_publishing(patch: pytest.MonkeyPatch, action: Callable[[], Any]) -> None:
    """Once the verb has published what earlier runs left, `action` commits and dies before it publishes."""
    real, done = publishing.repair, []

    def repair(*arguments: Any) -> list[int]:
        found = real(*arguments)
        if not done:
            done.append(1)
            with patch.context() as inner:
                inner.setattr(publishing, "publish_work", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    action()
        return found

    patch.setattr(publishing, "repair", repair)


def test_a_rewind_keeps_the_rows_of_a_compaction_that_is_not_published(
    shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_in_publishing(monkeypatch, lambda: opened(tmp_path).maintain(compact_sinks=True))
    made = shop.rewind(2, "a test")
    assert (made.version, shop.commit(4).kind) == (5, "compact")
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]
    assert shop.verify(deep=True).problems == []


def test_forget_rewrites_the_files_of_a_batch_that_is_not_published(
    shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(tmp_path).put("e", "c,1\ne,1\n")
    dies_in_publishing(monkeypatch, lambda: run(opened(tmp_path)))
    assert shop.forget("counts", ["c"], "a test", columns={"counts": "k"}).version == 5
    assert [row["k"] for row in published(tmp_path)] == ["a", "b", "d", "e"]
    assert shop.verify(deep=True, forgotten=True).problems == []


def test_a_preview_of_forget_that_another_one_overtakes_reports_no_damage(
    shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = world(tmp_path).open(conf=UNCACHED)
    look, seen = removing.refuse_missing, []

    def overtaken(*arguments: Any) -> None:
        if not seen:
            seen.append(1)
            opened(tmp_path).forget("counts", ["a"], "another one")
        look(*arguments)

    monkeypatch.setattr(removing, "refuse_missing", overtaken)
    with pytest.raises(tm.Fenced, match="^forget: another run committed versions up to 4 in the meantime"):
        shop.forget("counts", ["a"], "a test", dry_run=True)
