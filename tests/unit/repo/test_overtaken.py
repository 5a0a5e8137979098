"""An object that is missing on a branch that was dropped meanwhile is no damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World
from tidemill.repo.open import on_branch
from tidemill.repo.overtaken import fenced_if_overtaken


@pytest.fixture
def r(tmp_path: Path) -> tm.Repository:
    world = World(tmp_path)
    world.arrive("x,1\n")
    world.run()
    made = world.open()
    made.branch("fix")
    return made


def test_a_branch_that_was_dropped_meanwhile_is_fenced(r: tm.Repository) -> None:
    context = on_branch(r.opened, "fix")
    head = context.head()
    r.drop_branch("fix")
    with (
        pytest.raises(
            tm.Fenced, match="execute plan 1: branch `fix` was dropped in the meantime, .*is missing"
        ) as caught,
        fenced_if_overtaken(context, head, "execute plan 1"),
    ):
        raise tm.CorruptState("read `x`: it is missing")
    assert caught.value.hint == "nothing of this run is committed; start another branch"


def test_a_missing_object_of_a_living_branch_is_damage(r: tm.Repository) -> None:
    context = on_branch(r.opened, "fix")
    with pytest.raises(tm.CorruptState, match="it is missing"), fenced_if_overtaken(context, context.head(), "run"):
        raise tm.CorruptState("read `x`: it is missing")
