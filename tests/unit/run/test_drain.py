"""The loop of a run: beside another run of the same repository, and with functions that arm timeouts at each call."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over, run, state
from tidemill.engines.local import LocalEngine
from tidemill.protocol.records import Commit, Plan
from tidemill.repo.opened import Opened
from tidemill.run import plan as planning
from tidemill.run.drain import Drain, Limits
from tidemill.run.engine import Choice


class Beside:
    """A local engine; while it makes its first batch, another run drains everything."""

    name = "local"
    parallelism = 1

    def __init__(self, other: tm.Repository) -> None:
        self.other, self.executed = other, 0

    def execute(self, work: Any) -> list[bytes]:
        self.executed += 1
        if self.executed == 1:
            assert run(self.other) == [0, 1, 2, 3, 4, 5]
        return LocalEngine(1).execute(work)


class Started(Choice):
    """Starts the engine of each batch by a function."""

    def __init__(self, context: Opened, start: Callable[[], Any]) -> None:
        super().__init__(context, None, "local", "auto")
        self.start = start

    def engine(self, head: Commit | None, plan: Plan) -> Any:
        return self.start()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_overtaken_run_continues_from_the_head_and_repeats_no_batch(world: World) -> None:
    world.arrive(*["a,1\n"] * 6)
    repository = world.open()
    engine = Beside(world.open())
    drained = Drain(repository.opened, Started(repository.opened, lambda: engine), Limits(), None).run()
    assert (drained.already, drained.versions, engine.executed) == ([0], [], 1)
    assert state(repository, "counts") == {"a": 6}
    assert [row["n"] for row in world.published()] == [1, 2, 3, 4, 5, 6]


def test_a_batch_that_another_run_commits_while_the_engine_starts_is_not_repeated(world: World) -> None:
    world.arrive("a,1\n")
    repository = world.open()

    def slow_start() -> Any:
        world.run()
        raise_if_used = Beside(repository)
        raise_if_used.executed = 1
        return raise_if_used

    drained = Drain(repository.opened, Started(repository.opened, slow_start), Limits(), None).run()
    assert (drained.already, drained.versions) == ([0], [])
    assert repository.head is not None
    assert repository.head.version == 0


def test_a_plan_abandoned_while_the_engine_starts_is_not_reported_as_committed(world: World) -> None:
    world.arrive("a,1\n")
    repository = world.open()
    given_up: list[int] = []
    starts = itertools.count()

    def slow_start() -> Any:
        if next(starts) == 1:  # the first is before the plan
            given_up.append(world.open().replan("a test").version)
        return LocalEngine(1)

    drained = Drain(repository.opened, Started(repository.opened, slow_start), Limits(), None).run()
    assert (given_up, drained.already, drained.versions) == ([0], [], [1])


SECOND = 1000


class Heart(tm.StatefulProcessor):
    """Each timer that fires registers the next, as PySpark's documentation has it."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + SECOND)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + SECOND)
        yield (*key, expiredTimerInfo.getExpiryTimeInMs())


def staying(key: str, rows: Any, state: Any) -> Iterator[Any]:
    state.update(1)
    state.setTimeoutDuration(SECOND)
    if state.hasTimedOut:
        yield key, 0


def by_timers(grouped: Any) -> tm.Stream:
    return grouped.transformWithState(Heart(), "k string, at bigint", "update", "ProcessingTime", name="op")


def by_timeouts(grouped: Any) -> tm.Stream:
    return grouped.flatMapGroupsWithState(
        staying, "k string, at bigint", "int", timeoutConf="ProcessingTimeTimeout", name="op"
    )


def test_a_clock_that_moved_backwards_is_a_warning_and_files_in_another_order_are_not(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def levels() -> list[str]:
        run(repository)
        found = [record.levelname for record in caplog.records if "never goes back" in record.message]
        caplog.clear()
        return found

    caplog.set_level("INFO", "tidemill")
    for seconds in (1_600_000_300, 1_600_000_100, 1_600_000_200):
        for file in world.arrive("a,1\n"):
            os.utime(file, (seconds, seconds))
    repository = world.open()
    assert levels() == ["INFO"]
    monkeypatch.setattr(planning, "now_ms", lambda: 10**12)
    world.arrive("a,1\n")
    assert levels() == ["WARNING"]


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances two seconds at each plan, so each sweep takes longer than the timeouts."""
    times = itertools.count(10**12, 2 * SECOND)
    monkeypatch.setattr(planning, "now_ms", lambda: next(times))


def with_one_file(declared: Any, world: World) -> tm.Repository:
    """A repository with one waiting file."""
    world.arrive("a,1\n")
    return world.but(over(lambda rows: declared(rows.groupBy("k")))).open()


@pytest.mark.parametrize("declared", [by_timers, by_timeouts])
def test_a_run_ends_even_if_every_timeout_arms_the_next(
    declared: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(declared, world)

    def kinds() -> list[str]:
        return [one.kind for one in repository.run(engine="local", max_batches=9)]

    assert kinds() == ["batch", "sweep"]
    assert kinds() == ["sweep"]
    assert [one.kind for one in repository.sweep(engine="local")] == ["sweep"]
    world.arrive("b,1\n")
    assert kinds() == ["batch", "sweep"]
    assert sorted(repository.outputs(version=5).column("k").to_pylist()) == ["a", "b"]


def test_a_sweep_planned_by_an_earlier_run_does_not_replace_the_sweep_of_this_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(by_timeouts, world)
    run(repository, max_batches=1)
    head = repository.head
    assert head is not None
    left = planning.sweep_plan(repository.opened, head, head.batch_time_ms + SECOND + 1)
    repository.opened.log.create_plan(left)
    assert [one.kind for one in repository.run(engine="local", max_batches=9)] == ["sweep", "sweep"]


def test_input_that_arrives_during_a_sweep_is_processed_and_swept_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(by_timers, world)

    def arrives(progress: Any) -> None:
        if progress.version == 1:
            world.arrive("b,1\n")

    here = Choice(repository.opened, None, "local", 1)
    drained = Drain(repository.opened, here, Limits(max_batches=9), arrives).run()
    assert [one.kind for one in drained.progress] == ["batch", "sweep"]
    drained = Drain(repository.opened, here, Limits(max_batches=9), arrives).run()
    assert [one.kind for one in drained.progress] == ["batch", "sweep"]


def test_a_drain_lists_its_source_once_whatever_the_number_of_batches(world: World, monkeypatch) -> None:
    world.arrive(*["a,1\n"] * 5)
    repository = world.open()
    listed, real = [], tm.Files.look
    monkeypatch.setattr(tm.Files, "look", lambda self, *given: (listed.append(1), real(self, *given))[1])
    assert len(run(repository)) == 5
    assert len(listed) == 1
    assert run(repository) == []
    assert len(listed) == 2


def test_a_file_that_arrives_during_a_drain_waits_for_the_next_run(world: World) -> None:
    world.arrive(*["a,1\n"] * 2)
    repository = world.open()
    assert len(run(repository, on_progress=lambda _: world.arrive("b,1\n"))) == 2
    assert len(run(repository)) == 2
    assert state(repository, "counts") == {"a": 2, "b": 2}
