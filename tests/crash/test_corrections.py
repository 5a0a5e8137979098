"""The crash matrix and two-at-once tests for what is no batch: entries of refs, corrections, adoption, publishing.

Each action is repeated, failing at one of its writes in one of the ways a write can fail: in an exhaustive run at each
in each way, otherwise at a sample. Then it is called again, as a user does after an error. The result is that of an
undisturbed call, and the action takes effect once.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.actions import (
    ACTIONS,
    again,
    copied,
    differences,
    in_faults,
    prepared,
    settle,
)
from tests.crash.test_matrix import EFFECTS, next_process
from tests.crash.worlds import Place
from tests.exhaustive import failing
from tidemill.store.fault import Crash, Fault

pytestmark = pytest.mark.slow("interrupt a run at every step", seconds=60)
FAILURES = 3
"""How often an action is tried, in ways that depend on its name. An exhaustive run tries all writes in all ways."""


@pytest.fixture
def world(tmp_path: Path) -> Place:
    return worlds.memory_world(tmp_path)


@pytest.mark.parametrize("name", list(ACTIONS))
def test_an_action_that_fails_at_a_write_takes_effect_once(name: str, world: Place) -> None:
    action = ACTIONS[name]
    before, key = prepared(world, action)
    inner = copied(before)
    calm, store = in_faults(world, inner, [], key)
    action.act(calm)
    writes = store.writes
    expected = settle(calm, action)
    assert writes
    first = zlib.crc32(name.encode()) % len(EFFECTS)  # the same, whichever actions there are
    for at, effect in failing(writes, EFFECTS[first:] + EFFECTS[:first], FAILURES):
        inner = copied(before)
        disturbed, store = in_faults(world, inner, [Fault(at, effect)], key)
        try:
            action.act(disturbed)
            failed = None
        except (Crash, tm.StoreUnavailable) as error:
            failed = error
            store = next_process(store, inner)
            again(disturbed, action)
        store = next_process(store, inner)
        difference = differences(action, settle(disturbed, action), expected)
        assert not difference, f"{difference} after `{effect}` at write {at}: {failed}"
