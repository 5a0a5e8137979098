"""`verify` names the object for a damage that `test_damage` knows; without damage it finds nothing.

It is silent only where the damage is harmless or leaves no trace: see `leaves_no_trace`.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.crash import damage, worlds
from tests.crash.damage import Damage
from tests.crash.test_damage import snapshots
from tests.crash.worlds import Place, Snapshot
from tests.exhaustive import EXHAUSTIVE
from tidemill.names import number_of_file
from tidemill.verifying.findings import Problem

pytestmark = pytest.mark.slow("damage objects")

FLIPS = 2
EVERY = 1 if EXHAUSTIVE else 9
"""At every how many damages `verify` is asked."""


def newest(ours: Snapshot, kind: str) -> str:
    return max(name for name in ours if damage.kind_of(name) == kind)


def leaves_no_trace(one: Damage, ours: Snapshot, phase: str, head: int) -> bool:
    """Whether a damage is harmless, or looks like a state that a run may leave."""
    [name, *_] = one.names
    if one.kind.startswith("hint of"):
        return one.way in ("delete", "append", "older")  # a hint may be old, and a blank at its end is JSON
    if one.kind.startswith("sink file"):
        return one.way == "delete"  # a consumer took it
    if one.kind == "commit" and one.way == "delete":
        return phase == "unpublished" and name == newest(ours, "commit")  # its plan looks like an open one
    if one.kind == "plan" and one.way == "delete":
        return phase == "planned" and name == newest(ours, "plan")
    if one.kind.startswith("published") and one.way == "delete":
        return name.endswith(f"{head:010d}.json")  # the next run publishes the newest version again
    number = number_of_file(name)
    return number is not None and number > head  # a run that died has left it


def names_it(problem: Problem, one: Damage) -> bool:
    place = problem.object.split("//")[-1]
    known = [name.split("/", 1)[1] for name in one.names]
    within = [name.split("/", 1)[-1] for name in known]  # below the repository's folder
    return any(place.endswith(name) for name in known) or any(
        name in (problem.object, *problem.what.split("`")) for name in within
    )


def check(world: Place, phase: str, tmp_path: Path) -> None:
    ours, others = snapshots(world, phase, tmp_path)
    world.load(ours)
    head = world.open().head.version
    for deep in (False, True):
        assert world.open().verify(deep).problems == []
    for one in itertools.islice(damage.damages(ours, others, FLIPS, seed=7), 0, None, EVERY):
        damage.apply(world, ours, one)
        found = world.open().verify(deep=True).problems
        if leaves_no_trace(one, ours, phase, head):
            continue
        assert any(names_it(problem, one) for problem in found), (one.way, one.names, found)
        assert all(problem.what and problem.affects and problem.hint for problem in found)


@pytest.mark.parametrize("phase", list(worlds.PHASES))
@pytest.mark.parametrize("kind", list(worlds.WORLDS))
def test_a_damage_is_named(kind: str, phase: str, tmp_path: Path) -> None:
    check(worlds.WORLDS[kind](tmp_path), phase, tmp_path)
