"""An `init` beside another caller that creates the repository and runs the first batch meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over
from tidemill.protocol.entries import TagEntry
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.repo import init
from tidemill.store import ListedObject
from tidemill.store.memory import MemoryStore


def total(batch_time: Any, k: Any, row: Any, state: Any) -> None:
    state.update((state.getOption or 0) + 1)


def seeded(world: World, *names: str) -> tm.Repository:
    """A repository of operators that have an initial state."""

    def operator(name: str) -> Callable[[tm.Stream], Any]:
        spec = tm.StateSpec.function(total).initialState([("x", 5)])
        return lambda s: s.groupBy("k").mapWithState(spec, stateSchema="long", outputSchema="long", name=name)

    return world.but(over(*map(operator, names))).open(init=False)


def segments(r: tm.Repository) -> list[str]:
    return [entry.name for entry in r.opened.store.list("state/")]


def beside(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, just after the next initial state was stored and before its entry is written."""
    real = init.store_initial_state

    def stored(*given: Any) -> Any:
        found = real(*given)
        monkeypatch.setattr(init, "store_initial_state", real)
        act()
        return found

    monkeypatch.setattr(init, "store_initial_state", stored)


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path, root=f"memory://{tmp_path}")
    found.arrive("x,1\n")
    return found


def test_another_caller_that_creates_and_runs_meanwhile_is_no_loss(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, acted = MemoryStore.list, []

    def listing(store: MemoryStore, prefix: str = "", start_after: str | None = None) -> Iterator[ListedObject]:
        if prefix == "branches/" and not acted:
            acted.append(prefix)
            acted.append(world.open().init().uuid)
            world.run()
        return real(store, prefix, start_after)

    monkeypatch.setattr(MemoryStore, "list", listing)
    found = world.open(init=False).init()
    assert acted == ["branches/", found.uuid]
    assert world.open(init=False).state().column("n").to_pylist() == [1]


def test_a_lost_init_record_is_still_refused(world: World) -> None:
    world.run()
    store: Any = world.open(init=False).opened.store
    store.delete("refs/0000000000.json")
    store.delete("refs/head.json")
    with pytest.raises(tm.CorruptState, match="shows that a repository was here"):
        world.open(init=False).init()


def test_an_init_that_loses_leaves_no_segments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    winner, loser = seeded(world, "one"), seeded(world, "one")
    beside(monkeypatch, lambda: winner.init())
    assert loser.init().uuid == winner.init().uuid
    assert len(segments(winner)) == 1
    assert winner.state("one").to_pylist()[0]["state"] == 5


@pytest.mark.parametrize("same", [True, False], ids=["the same operators", "another entry"])
def test_an_init_that_adds_operators_after_another_entry_leaves_no_segments(
    same: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded(world, "one").init()
    before = segments(seeded(world, "one"))
    late = seeded(world, "one", "two")
    if same:
        beside(monkeypatch, lambda: seeded(world, "one", "two").init())
    else:
        tag = lambda refs, _: TagEntry(**position(refs, 0), name="here", branch="main", version=-1)  # noqa: E731
        beside(monkeypatch, lambda: RefsLog(late.opened.store).append(tag))
    late.init()
    assert len(segments(late)) == len(before) + 1
    assert late.state("two").to_pylist()[0]["state"] == 5
