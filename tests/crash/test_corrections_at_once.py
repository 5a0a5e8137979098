"""Corrections of several callers at once: each takes effect once, and of two different ones one is refused."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.actions import (
    ACTIONS,
    FIRST,
    SKIPPED,
    WATERMARK,
    copied,
    differences,
    in_doubles,
    in_faults,
    open_plan,
    prepared,
    settle,
    two_operators,
)
from tests.crash.test_merging import interrupted
from tests.crash.worlds import Place, users
from tests.exhaustive import EXHAUSTIVE
from tidemill.publishing import correct

pytestmark = pytest.mark.slow("two callers at once")
ROUNDS = 4 if EXHAUSTIVE else 1


@pytest.fixture
def world(tmp_path: Path) -> Place:
    return worlds.memory_world(tmp_path)


@pytest.mark.parametrize("name", list(ACTIONS))
def test_an_action_of_two_callers_at_once_takes_effect_once(name: str, world: Place) -> None:
    action = ACTIONS[name]
    before, key = prepared(world, action)
    calm, store = in_faults(world, copied(before), [], key)
    action.act(calm)
    expected = settle(calm, action)
    for _ in range(ROUNDS):
        busy, store = in_faults(world, copied(before), [], key)
        with ThreadPoolExecutor(3) as pool:
            errors = [call.exception() for call in [pool.submit(action.act, busy) for _ in range(3)]]
        assert None in errors
        assert all(error is None or isinstance(error, (tm.Fenced, tm.InvalidInput)) for error in errors), errors
        difference = differences(action, settle(busy, action), expected)
        assert not difference, f"{difference}; the callers got {errors}"
    assert store.writes


CORRECTIONS: dict[str, Callable[[Place], Any]] = {
    "skip one file": lambda world: world.open().skip(SKIPPED, "a test"),
    "skip another file": lambda world: world.open().skip("0004.json", "a test"),
    "reset the watermark": lambda world: world.open().reset(watermark=WATERMARK, reason="a test"),
    "reset it otherwise": lambda world: world.open().reset(watermark="2023-01-01", reason="a test"),
    "replan": lambda world: world.open().replan("a test"),
}
PAIRS = [
    (begin, *pair)
    for begin in (two_operators, open_plan)
    for pair in itertools.permutations(CORRECTIONS, 2)
    if begin is open_plan or "replan" not in pair
]


@pytest.mark.parametrize(("begin", "first", "second"), PAIRS)
def test_of_two_different_corrections_at_once_one_is_made_and_the_other_refused(
    begin: Callable[[Place], None], first: str, second: str, world: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world)
    probe = correct.probe

    def meanwhile(store: Any) -> None:
        monkeypatch.setattr(correct, "probe", probe)
        CORRECTIONS[first](world)
        probe(store)

    monkeypatch.setattr(correct, "probe", meanwhile)  # `second` has read the head
    with pytest.raises(tm.Fenced):
        CORRECTIONS[second](world)
    head = world.open().head
    assert head.version == FIRST and head.kind == {"skip": "skip", "reset": "reset"}.get(first.split()[0], "void")
    assert [file.path for file in head.skipped] == {"skip one file": [SKIPPED], "skip another file": ["0004.json"]}.get(
        first, []
    )
    if second != "replan":
        CORRECTIONS[second](world)
        assert world.open().head.version == FIRST + 1


def test_a_batch_at_any_call_of_a_migration_is_kept(world: Place) -> None:
    """If the batch comes first, the migration is refused. After a migration, a batch of the earlier code is refused."""

    def batch() -> None:
        with contextlib.suppress(tm.InvalidInput):
            world.but(users("double")).run(1)

    in_doubles(world)
    before, migrate = world.save(), ACTIONS["migrate"].act
    with interrupted(0, lambda: None) as calls:
        migrate(world)
    expected = in_the_end(world)
    refused = 0
    for at, call in enumerate(calls, 1):
        world.load(before)
        try:
            with interrupted(at, batch):
                migrate(world)
        except tm.Fenced:
            refused += 1
            migrate(world)
        assert in_the_end(world) == expected, f"at call {at}: {call}"
    assert 0 < refused < len(calls)


def in_the_end(world: Place) -> tuple[list[str], list[list[str]]]:
    """Run to the end, and return the kinds of commits and the state, whichever order the commits were made in."""
    world.run()
    repository = world.open()
    assert repository.verify(deep=True).problems == []
    kinds = sorted(commit.kind for commit in repository.commits())
    return kinds, [sorted(map(repr, repository.state(operator).to_pylist())) for operator in worlds.SINKS]
