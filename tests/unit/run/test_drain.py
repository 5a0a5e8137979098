"""The loop of a run: beside another run of the same repository, and with functions that arm timeouts at each call."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
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
            assert [one.version for one in self.other.run(engine="local")] == [0, 1, 2, 3, 4, 5]
        return LocalEngine(1).execute(work)


class Started(Choice):
    """Starts the engine of each batch by a function."""

    def __init__(self, context: Opened, start: Callable[[], Any]) -> None:
        super().__init__(context, None, "local", "auto")
        self.start = start

    def engine(self, head: Commit | None, plan: Plan) -> Any:
        return self.start()


def opened(folder: Path) -> tm.Repository:
    p = tm.Pipeline("beside")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count()).write(tm.Json(str(folder / "out")))
    return tm.open(p, root=str(folder / "root"))


def test_an_overtaken_run_continues_from_the_head_and_repeats_no_batch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()
    engine = Beside(opened(tmp_path))
    drained = Drain(repository.opened, Started(repository.opened, lambda: engine), Limits(), None).run()
    assert (drained.already, drained.versions, engine.executed) == ([0], [], 1)
    assert repository.state().column("n").to_pylist() == [6]
    assert len(list((tmp_path / "out").glob("*.json"))) == 6


def test_a_batch_that_another_run_commits_while_the_engine_starts_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()

    def slow_start() -> Any:
        opened(tmp_path).run(engine="local")
        raise_if_used = Beside(repository)
        raise_if_used.executed = 1
        return raise_if_used

    drained = Drain(repository.opened, Started(repository.opened, slow_start), Limits(), None).run()
    assert (drained.already, drained.versions) == ([0], [])
    assert repository.head is not None
    assert repository.head.version == 0


def test_a_plan_abandoned_while_the_engine_starts_is_not_reported_as_committed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()
    given_up: list[int] = []
    starts = itertools.count()

    def slow_start() -> Any:
        if next(starts) == 1:  # the first is before the plan
            given_up.append(opened(tmp_path).replan("a test").version)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def levels() -> list[str]:
        repository.run(engine="local")
        found = [record.levelname for record in caplog.records if "never goes back" in record.message]
        caplog.clear()
        return found

    caplog.set_level("INFO", "tidemill")
    (tmp_path / "in").mkdir()
    for number, seconds in enumerate((1_600_000_300, 1_600_000_100, 1_600_000_200)):
        file = tmp_path / "in" / f"{number}.csv"
        file.write_text("a\n")
        os.utime(file, (seconds, seconds))
    repository = opened(tmp_path)
    repository.init()
    assert levels() == ["INFO"]
    monkeypatch.setattr(planning, "now_ms", lambda: 10**12)
    (tmp_path / "in" / "9.csv").write_text("a\n")
    assert levels() == ["WARNING"]


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances two seconds at each plan, so each sweep takes longer than the timeouts."""
    times = itertools.count(10**12, 2 * SECOND)
    monkeypatch.setattr(planning, "now_ms", lambda: next(times))


def with_one_file(declared: Any, folder: Path) -> tm.Repository:
    """A repository over `folder/in`, with one waiting file."""
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("a\n")
    p = tm.Pipeline("again")
    declared(p.read(tm.Files(str(folder / "in"), format="csv", schema="k string")).groupBy("k"))
    repository = tm.open(p, root=f"memory://{folder}")
    repository.init()
    return repository


@pytest.mark.parametrize("declared", [by_timers, by_timeouts])
def test_a_run_ends_even_if_every_timeout_arms_the_next(
    declared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(declared, tmp_path)

    def run() -> list[str]:
        return [one.kind for one in repository.run(engine="local", max_batches=9)]

    assert run() == ["batch", "sweep"]
    assert run() == ["sweep"]
    assert [one.kind for one in repository.sweep(engine="local")] == ["sweep"]
    (tmp_path / "in" / "1.csv").write_text("b\n")
    assert run() == ["batch", "sweep"]
    assert sorted(repository.outputs(version=5).column("k").to_pylist()) == ["a", "b"]


def test_a_sweep_planned_by_an_earlier_run_does_not_replace_the_sweep_of_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(by_timeouts, tmp_path)
    repository.run(engine="local", max_batches=1)
    head = repository.head
    assert head is not None
    left = planning.sweep_plan(repository.opened, head, head.batch_time_ms + SECOND + 1)
    repository.opened.log.create_plan(left)
    assert [one.kind for one in repository.run(engine="local", max_batches=9)] == ["sweep", "sweep"]


def test_input_that_arrives_during_a_sweep_is_processed_and_swept_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    repository = with_one_file(by_timers, tmp_path)

    def arrives(progress: Any) -> None:
        if progress.version == 1:
            (tmp_path / "in" / "1.csv").write_text("b\n")

    here = Choice(repository.opened, None, "local", 1)
    drained = Drain(repository.opened, here, Limits(max_batches=9), arrives).run()
    assert [one.kind for one in drained.progress] == ["batch", "sweep"]
    drained = Drain(repository.opened, here, Limits(max_batches=9), arrives).run()
    assert [one.kind for one in drained.progress] == ["batch", "sweep"]


def test_a_drain_lists_its_source_once_whatever_the_number_of_batches(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()
    listed, real = [], tm.Files.look
    monkeypatch.setattr(tm.Files, "look", lambda self, *given: (listed.append(1), real(self, *given))[1])
    assert len(repository.run(engine="local")) == 5
    assert len(listed) == 1
    assert repository.run(engine="local") == []
    assert len(listed) == 2


def test_a_file_that_arrives_during_a_drain_waits_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()

    def arrive(progress: Any) -> None:
        (tmp_path / "in" / f"later-{progress.version}.csv").write_text("b\n")

    assert len(repository.run(engine="local", on_progress=arrive)) == 2
    assert len(repository.run(engine="local")) == 2
    assert {row["k"]: row["n"] for row in repository.state().to_pylist()} == {"a": 2, "b": 2}
