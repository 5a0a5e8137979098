"""`merge` beside batches, other merges and crashes: whatever happens in between, versions read as without it.

A batch runs at every store call of a merge, and a merge at every store call of a run. After a crash at any write of a
merge, nothing that a record names is missing, and the next merge finishes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.actions import Action as Begun
from tests.crash.actions import copied, in_faults, prepared, two_operators
from tests.crash.test_matrix import EFFECTS, next_process
from tests.crash.worlds import Place
from tests.exhaustive import EXHAUSTIVE, failing
from tidemill.engines.local import LocalEngine
from tidemill.repo.operators import committed_state
from tidemill.store.fault import Crash, Fault
from tidemill.store.memory import MemoryStore
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import MergeReport, merge

pytestmark = pytest.mark.slow("interrupt a run at every step")

ALL = MergeRule(ratio=1 << 40, least_rows=0)
EVERY = 2 if EXHAUSTIVE else 7
"""At every how many calls of one process the other one runs."""
VERBS = ("get", "put", "create", "stat", "put_hint", "delete_many", "list")


def merged(world: Place) -> MergeReport:
    return merge(world.open().opened, rule=ALL)


def merged_in_tasks(world: Place) -> MergeReport:
    return merge(world.open().opened, rule=ALL, engine=lambda: LocalEngine(2))


HERE_OR_IN_TASKS = pytest.mark.parametrize("merged", [merged, merged_in_tasks], ids=["here", "in tasks"])


@pytest.fixture
def world(tmp_path: Path) -> Place:
    return worlds.memory_world(tmp_path)


@contextmanager
def interrupted(at: int, action: Callable[[], Any]) -> Iterator[list[str]]:
    """Do `action` at store call number `at` of the block, before the call. Yields the calls."""
    calls: list[str] = []
    real = {verb: getattr(MemoryStore, verb) for verb in VERBS}
    lock, inside = threading.Lock(), threading.local()
    running = threading.Event()

    def patched(verb: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if not running.is_set() and not getattr(inside, "action", False):
                with lock:
                    calls.append(f"{verb} {arguments[0] if arguments else ''}")
                    is_due = len(calls) == at
                if is_due:
                    running.set()  # calls of other threads of the block are not counted meanwhile
                    try:
                        action()
                    finally:
                        running.clear()
            return real[verb](self, *arguments, **named)

        return call

    for verb in VERBS:
        setattr(MemoryStore, verb, patched(verb))
    try:
        yield calls
    finally:
        for verb, method in real.items():
            setattr(MemoryStore, verb, method)


def begun(world: Place) -> dict[str, Any]:
    two_operators(world)
    return world.save()


def check(world: Place, expected: dict[str, Any], what: str) -> None:
    found = worlds.seen(world)
    assert {part for part, value in expected.items() if found[part] != value} == set(), what
    assert world.open().verify(deep=True).problems == [], what
    refs = world.open().opened.refresh()
    named = {one.name.rpartition("/")[2] for base in refs.bases for one in base.outputs}
    there = {entry.name.rpartition("/")[2] for entry in world.store.list() if entry.name.endswith("-base.parquet")}
    live = {
        one.name.rpartition("/")[2]
        for commit in world.open().commits()
        for maps in commit.state.values()
        for of_map in maps.values()
        for one in of_map
    }
    assert there <= named | live, what  # a merge that came too late has deleted what it stored


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_batch_may_run_at_any_moment_of_a_merge(world: Place, tasks: int) -> None:
    before = begun(world)
    world.open().run(engine="local", tasks=tasks, max_batches=2)
    expected = worlds.seen(world)
    world.load(before)
    with interrupted(0, lambda: None) as calls:
        assert len(merged(world).merged) == 2
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        with interrupted(at, lambda: world.open().run(engine="local", tasks=tasks, max_batches=2)):
            merged(world)
        check(world, expected, f"at call {at}: {calls[at - 1]}")


def test_a_batch_that_merges_its_inputs_overtakes_a_merge(world: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.state import layers

    before = begun(world)
    monkeypatch.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
    world.run(2)
    expected = worlds.seen(world)
    world.load(before)
    with interrupted(0, lambda: None) as calls:
        merged(world)
    overtaken = 0
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        with interrupted(at, lambda: world.run(2)):
            overtaken += len(merged(world).overtaken)
        check(world, expected, f"at call {at}: {calls[at - 1]}")
    assert overtaken


def test_a_merge_may_run_at_any_moment_of_a_run(world: Place) -> None:
    before = begun(world)
    world.run(2)
    expected = worlds.seen(world)
    world.load(before)
    with interrupted(0, lambda: None) as calls:
        world.run(2)
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        with interrupted(at, lambda: merged(world)):
            world.run(2)
        check(world, expected, f"at call {at}: {calls[at - 1]}")


@HERE_OR_IN_TASKS
def test_two_merges_interleaved_at_any_call_merge_each_range_once(
    world: Place, merged: Callable[[Place], MergeReport]
) -> None:
    before = begun(world)
    expected = worlds.seen(world)
    with interrupted(0, lambda: None) as calls:
        merged(world)
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        with interrupted(at, lambda: merged(world)):
            merged(world)
        assert len(world.open().opened.refresh().bases) == 2
        check(world, expected, f"at call {at}: {calls[at - 1]}")


def newest(world: Place) -> dict[str, list[str]]:
    found = {operator: world.open().state(operator).to_pylist() for operator in worlds.SINKS}
    return {operator: sorted(map(repr, rows)) for operator, rows in found.items()}


@HERE_OR_IN_TASKS
@pytest.mark.parametrize("merges", [False, True], ids=["batches keep runs", "batches merge runs"])
def test_history_may_be_collected_at_any_moment_of_a_merge(
    world: Place, merges: bool, merged: Callable[[Place], MergeReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch runs, the floor is raised to it, and what only older versions name is deleted."""
    from tidemill.state import layers

    def batch_and_collect() -> None:
        world.run(1)
        world.open().maintain(keep_versions=1)

    before = begun(world)
    if merges:
        monkeypatch.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
    world.run(1)
    expected = newest(world)
    world.load(before)
    with interrupted(0, lambda: None) as calls:
        merged(world)
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        what = f"at call {at}: {calls[at - 1]}"
        with interrupted(at, batch_and_collect):
            merged(world)
        assert newest(world) == expected, what
        assert world.open().verify(deep=True).problems == [], what
        world.run(1)
        world.open().maintain(keep_versions=1)
        assert world.open().verify(deep=True).problems == [], what


def test_a_merge_may_run_at_any_moment_of_a_collection(world: Place) -> None:
    two_operators(world)
    merged(world)
    world.run(1)
    before, expected = world.save(), newest(world)
    with interrupted(0, lambda: None) as calls:
        assert world.open().maintain(keep_versions=1).deleted
    for at in range(1, len(calls) + 1, EVERY):
        world.load(before)
        what = f"at call {at}: {calls[at - 1]}"
        with interrupted(at, lambda: merged(world)):
            world.open().maintain(keep_versions=1)
        assert newest(world) == expected, what
        assert world.open().verify(deep=True).problems == [], what
        world.run(1)
        world.open().maintain(keep_versions=1)
        assert world.open().verify(deep=True).problems == [], what


@pytest.mark.parametrize("merged", [merged, merged_in_tasks])
def test_after_a_crash_at_a_write_nothing_is_missing_and_the_next_merge_finishes(
    world: Place, merged: Callable[[Place], MergeReport]
) -> None:
    before, key = prepared(world, Begun(two_operators, merged, is_once=False))
    calm, store = in_faults(world, copied(before), [], key)
    expected = worlds.seen(calm)
    assert len(merged(calm).merged) == 2
    writes = store.writes
    for at, effect in failing(writes, EFFECTS, 12):
        what = f"after `{effect}` at write {at}: {writes[at - 1]}"
        inner = copied(before)
        disturbed, store = in_faults(world, inner, [Fault(at, effect)], key)
        try:
            merged(disturbed)
        except (Crash, tm.StoreUnavailable):
            store = next_process(store, inner)
        assert worlds.seen(disturbed) == expected, what
        problems = disturbed.open().verify(deep=True).problems
        assert all(problem.affects.startswith("nothing:") for problem in problems), what  # a torn hint
        merged(disturbed)
        live = disturbed.open().opened
        laid = committed_state(live, live.head())
        assert all(len(of_map) == 1 for maps in laid.values() for of_map in maps.values()), what
        assert worlds.seen(disturbed) == expected, what


def test_after_a_crash_at_any_write_of_a_collection_refs_name_no_deleted_object(
    world: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch merges what was merged before. So the floor makes an entry of `refs/` and its objects useless."""
    from tidemill.state import layers

    def begin(world: Place) -> None:
        two_operators(world)
        merged(world)
        with monkeypatch.context() as patch:
            patch.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
            world.run(1)

    before, key = prepared(world, Begun(begin, merged, is_once=False))
    calm, store = in_faults(world, copied(before), [], key)
    assert any("-base" in one.name for one in calm.open().maintain(keep_versions=1).garbage)
    writes = store.writes
    for at in range(1, len(writes) + 1):
        inner = copied(before)
        disturbed, store = in_faults(world, inner, [Fault(at, "before")], key)
        with pytest.raises(Crash):
            disturbed.open().maintain(keep_versions=1)
        store = next_process(store, inner)
        what = f"before write {at}: {writes[at - 1]}"
        assert disturbed.open().verify(deep=True).problems == [], what
        disturbed.open().maintain(keep_versions=1)
        assert disturbed.open().maintain(dry_run=True).garbage == [], what
        assert disturbed.open().verify(deep=True).problems == [], what
