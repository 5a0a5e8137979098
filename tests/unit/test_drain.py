"""The loop of a run beside another run of the same repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.driver.drain import Drain, Limits
from tidemill.engines.local import LocalEngine


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


def opened(folder: Path) -> tm.Repository:
    p = tm.Pipeline("beside")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count()).write(tm.Json(str(folder / "out")))
    return tm.open(p, root=str(folder / "root"))


def test_a_run_that_was_overtaken_goes_on_from_the_head_and_makes_no_batch_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()
    engine = Beside(opened(tmp_path))
    drained = Drain(repository.context, lambda: engine, Limits(), None).run()
    assert (drained.already, drained.versions, engine.executed) == ([0], [], 1)
    assert repository.state().column("n").to_pylist() == [6]
    assert len(list((tmp_path / "out").glob("*.json"))) == 6


def test_a_batch_that_another_run_committed_while_the_engine_started_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()

    def slow_start() -> Any:
        opened(tmp_path).run(engine="local")
        raise_if_used = Beside(repository)
        raise_if_used.executed = 1
        return raise_if_used

    drained = Drain(repository.context, slow_start, Limits(), None).run()
    assert (drained.already, drained.versions) == ([0], [])
    assert repository.head is not None
    assert repository.head.version == 0


def test_a_plan_that_was_given_up_while_the_engine_started_is_not_called_committed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("a\n")
    repository = opened(tmp_path)
    repository.init()
    given_up: list[int] = []

    def slow_start() -> Any:
        if not given_up:
            given_up.append(opened(tmp_path).replan("a test").version)
        return LocalEngine(1)

    drained = Drain(repository.context, slow_start, Limits(), None).run()
    assert (given_up, drained.already, drained.versions) == ([0], [], [1])
