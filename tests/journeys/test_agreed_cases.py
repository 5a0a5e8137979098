"""Every other verb that changes a repository: what was shown differs from what is now, so nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys import test_requeue as quarantine
from tests.journeys.test_agreed import stored
from tidemill.actions.registry import ACTIONS


@dataclass(frozen=True)
class Case:
    """A verb: how its repository begins, the call, what happens in the meantime, and how its first line begins."""

    begin: Callable[[Path], tm.Repository]
    act: Callable[..., Any]
    meanwhile: Callable[[Path, tm.Repository], object]
    line: str


def quarantined(folder: Path) -> tm.Repository:
    """Two rows of version 0 are in quarantine, and a file has them corrected."""
    shop = quarantine.begin(folder)
    (folder / "rows.json").write_text("".join(_row(number, n) for number, n in ((0, 20), (1, 30))))
    return shop.open()


def _row(number: int, n: int) -> str:
    row = {"_version": 0, "_row_id": number, "id": number + 2, "k": "b", "n": n, "ts": "2024-01-01T00:00:02"}
    return json.dumps(row) + "\n"


CASES = {
    "requeue": Case(
        quarantined,
        lambda r, folder, **how: r.requeue(0, rows=str(folder / "rows.json"), reason="why", **how),
        lambda folder, _: (folder / "rows.json").write_text(_row(0, 21) + _row(1, 30)),
        "2 rows of source `shop` that version 0 quarantined (unreadable) will be read again by the whole pipeline",
    ),
}


@pytest.mark.parametrize("verb", list(CASES))
def test_what_was_agreed_to_is_done_or_nothing(verb: str, tmp_path: Path) -> None:
    case = CASES[verb]
    r = case.begin(tmp_path)
    before = stored(tmp_path)
    plan = case.act(r, tmp_path, dry_run=True)
    assert plan.lines()[0].startswith(case.line)
    assert json.loads(json.dumps(plan.as_dict())) == {**plan.as_dict(), "changes": plan.lines()}
    assert stored(tmp_path) == before, "a dry run writes nothing"
    case.meanwhile(tmp_path, r)
    before = stored(tmp_path)
    for expect in (plan, plan.requires):
        for how in ({}, {"dry_run": True}):
            with pytest.raises(tm.Fenced, match=f"{verb}: what would happen now is not what was expected"):
                case.act(r, tmp_path, expect=expect, **how)
    assert stored(tmp_path) == before
    again = case.act(r, tmp_path, dry_run=True)
    assert again.requires != plan.requires
    case.act(r, tmp_path, expect=again.requires)
    assert stored(tmp_path) != before


def test_every_action_has_a_case() -> None:
    from tests.journeys.test_agreed import ACTS

    assert {*ACTS, *CASES} == set(ACTIONS)
