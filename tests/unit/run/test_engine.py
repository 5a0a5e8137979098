"""Engine `auto`: small batches run in this process, large ones and large backlogs on Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tests.world import World
from tidemill.pipeline.job import Job, compile_job
from tidemill.protocol.records import OperatorMetrics
from tidemill.run import backlog, drain
from tidemill.run import engine as chosen
from tidemill.run import plan as planning
from tidemill.settings import Settings

ROW = "a" * 37 + ",1\n"
"""40 bytes: so long that the rows of a file count as its bytes."""


def declared(kind: str, rows: tm.Stream) -> None:
    keyed = rows.groupBy("k")
    if kind == "agg":
        keyed.agg(n=tm.sum("v"), name="op")
    elif kind == "function":
        keyed.mapWithState(tm.StateSpec.function(lambda v, s: s.update(v)), "int", "k string", value="v", name="op")
    else:
        keyed.applyInPandasWithState(
            lambda key, frames, state: iter(()), "k string", "n int", "append", "NoTimeout", name="op"
        )


def job(kind: str) -> Job:
    p = tm.Pipeline("sized")
    declared(kind, p.read(tm.Rows("k string, v int")))
    return compile_job(p)


class Sized(World):
    """A repository for which 2000 bytes are little input: eight times `local_bytes`, because it calls no functions."""

    def __init__(self, folder: Path, local_bytes: int = 250) -> None:
        super().__init__(
            folder, lambda p, world: declared("agg", world.read(p)), conf={"tidemill.local_bytes": local_bytes}
        )

    def write(self, *sizes: int, first: int = 0, row: str = ROW) -> None:
        for number, size in enumerate(sizes, first):
            self.put(f"{number:03}", row * (size // len(row)))


@pytest.fixture
def place(tmp_path: Path) -> Sized:
    return Sized(tmp_path)


class Started:
    """Takes the place of the engines, to see which of them would start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, has_spark: bool = True) -> None:
        self.names: list[str] = []
        real = chosen.engine_for
        monkeypatch.setattr(chosen, "has_spark", lambda: has_spark)
        monkeypatch.setattr(
            chosen, "engine_for", lambda spark, name, *rest: self.names.append(name) or real(None, "local")
        )


@pytest.mark.parametrize(
    ("kind", "limit", "largest"), [("agg", 1000, 8000), ("function", 1000, 1000), ("pandas", 16000, 1000)]
)
def test_what_a_row_costs_decides_how_much_input_is_small(kind: str, limit: int, largest: int) -> None:
    settings = Settings(local_bytes=limit)
    for size in (largest, largest + 1):
        plan = make.plan(splits=(make.split(size=size),))
        assert chosen.is_small(job(kind), settings, None, plan) == (size == largest)
    behind = make.plan(splits=(make.split(size=largest),), outstanding_bytes=1)
    assert not chosen.is_small(job(kind), settings, None, behind), "files that wait behind the batch count"


@pytest.mark.parametrize(("size", "engine"), [(2000, "local"), (2040, "spark")])
def test_a_run_starts_the_engine_that_was_chosen(
    size: int, engine: str, place: Sized, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(size)
    started = Started(monkeypatch)
    place.open().run(engine="auto", max_batches=1)
    assert started.names == [engine]


def test_a_backlog_counts_and_a_drain_stays_with_spark(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(1000, 1000, 1000)
    started = Started(monkeypatch)
    r = place.open()
    assert len(r.run(engine="auto")) == 3
    assert started.names == ["spark"], "the last batches are small, but Spark runs"
    place.write(1000, 1000, 1000, 1000)
    r.run(engine="auto")
    assert started.names == ["spark", "local"]


def test_a_later_run_escalates_when_more_has_arrived(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(1000)
    started = Started(monkeypatch)
    r = place.open()
    r.run(engine="auto")
    place.write(1000, 3000)
    r.run(engine="auto")
    assert started.names == ["local", "spark"]


class Arriving:
    """Does something when the first batch has begun, as a producer does while a drain runs. Counts listings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, arrive: Callable[[], object], every_s: float = 0) -> None:
        monkeypatch.setattr(backlog, "LIST_AGAIN_S", every_s)
        monkeypatch.setattr(backlog, "LISTING_SHARE", 0)
        self.listings = 0
        execute, listing, waiting = drain.execute, planning.listing, [arrive]

        def executed(*args: Any) -> Any:
            if waiting:
                waiting.pop()()
            return execute(*args)

        def listed(*args: Any) -> planning.ListedSources:
            self.listings += 1
            return listing(*args)

        monkeypatch.setattr(drain, "execute", executed)
        monkeypatch.setattr(planning, "listing", listed)


def drained(r: tm.Repository, engine: str = "auto") -> list[int]:
    """Run, and return how many files each batch left waiting."""
    return [one.numFilesOutstanding for one in r.run(engine=engine)]


def test_a_drain_moves_to_spark_when_its_backlog_grows(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, 400)
    started = Started(monkeypatch)
    r = place.open()
    Arriving(monkeypatch, lambda: place.write(1000, 1000, first=10))
    assert drained(r) == [1, 2, 1, 0], "the files that made it move are read in the same drain"
    assert started.names == ["local", "spark"]
    assert r.state("op")["n"].to_pylist() == [70], "a row of every 40 bytes"


def test_what_arrives_during_a_drain_waits_if_it_is_small(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, 400)
    started = Started(monkeypatch)
    r = place.open()
    Arriving(monkeypatch, lambda: place.write(1000, 600, first=10))
    assert drained(r) == [1, 0], "otherwise a drain with a steady producer would never end"
    assert drained(r) == [1, 0]
    assert started.names == ["local", "local"]


@pytest.mark.parametrize(("every_s", "listings"), [(0, 4), (3600, 1)])
def test_a_long_drain_lists_again_after_a_while(
    every_s: float, listings: int, place: Sized, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(400, 400, 400, 400)
    Started(monkeypatch)
    r = place.open()
    arriving = Arriving(monkeypatch, lambda: None, every_s)
    assert drained(r) == [3, 2, 1, 0]
    assert arriving.listings == listings


def test_a_listing_that_took_long_is_not_soon_made_again(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, 400, 400)
    Started(monkeypatch)
    r = place.open()
    arriving = Arriving(monkeypatch, lambda: None)
    monkeypatch.setattr(backlog, "LISTING_SHARE", 1_000_000)
    assert drained(r) == [2, 1, 0]
    assert arriving.listings == 1


@pytest.mark.parametrize(("engine", "size"), [("local", 400), ("spark", 400), ("auto", 3000)])
def test_a_drain_whose_engine_is_certain_lists_once_although_files_arrive(
    engine: str, size: int, place: Sized, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(size, 400)
    started = Started(monkeypatch)
    r = place.open()
    arriving = Arriving(monkeypatch, lambda: place.write(3000, 3000, first=10))
    assert drained(r, engine) == [1, 0]
    assert arriving.listings == 1
    assert started.names == ["local" if engine == "local" else "spark"]


def test_files_that_are_not_read_again_do_not_count(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, 400, 400)
    started = Started(monkeypatch)
    r = place.but(overwritten="ignore").open()
    r.run(engine="auto", max_batches=1)
    Arriving(monkeypatch, lambda: (place.write(4000), place.write(40, first=10)))
    assert drained(r) == [1, 0], "the first file was read, and the new one is small"
    assert started.names == ["local", "local"]


def test_an_error_of_the_backlog_is_for_the_next_run(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, 400, 400)
    Started(monkeypatch)
    r = place.open()
    drained_first = r.run(engine="auto", max_batches=1)
    assert [one.numFilesOutstanding for one in drained_first] == [2]
    arriving = Arriving(monkeypatch, lambda: place.write(4000))  # the file that was read
    assert drained(r) == [1, 0]
    assert arriving.listings == 2
    with pytest.raises(tm.InvalidInput, match=r"000\.csv.* was modified after it was read"):
        r.run(engine="auto")


def test_many_short_rows_are_not_little_input(place: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(400, row="a,1\n")
    started = Started(monkeypatch)
    r = place.open()
    r.run(engine="auto")
    place.write(204, first=1, row="a,1\n")  # as many rows as 2040 bytes of long ones
    r.run(engine="auto")
    assert started.names == ["local", "spark"], "without an earlier version, the bytes of the file count"


def test_a_given_session_means_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.arrive("a,1\n")
    started = Started(monkeypatch)
    world.open().run(spark=object(), engine="auto")
    assert started.names == ["spark"]


def test_without_pyspark_everything_runs_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Sized(tmp_path, local_bytes=1)
    place.write(4000)
    started = Started(monkeypatch, has_spark=False)
    place.open().run(engine="auto")
    assert started.names == ["local"]


def test_large_state_means_spark() -> None:
    large = OperatorMetrics(state_bytes=Settings().local_state_bytes + 1)
    for operator, is_small in (("op", False), ("gone", True)):
        head = make.commit(operators={operator: large})
        assert chosen.is_small(job("agg"), Settings(), head, make.plan(1)) == is_small, operator


def test_the_commit_and_the_progress_say_which_engine_ran_and_no_jvm_started(tmp_path: Path) -> None:
    World(tmp_path).arrive("a,1\n")
    code = (
        "import sys, tidemill as tm\n"
        "p = tm.Pipeline('sized')\n"
        f"rows = p.read(tm.Files({str(tmp_path / 'in')!r}, format='csv', schema='k string, n int'))\n"
        "rows.groupBy('k').agg(n=tm.sum('n'), name='op')\n"
        f"r = tm.open(p, root={str(tmp_path / 'root')!r})\n"
        "r.init()\n"
        "(progress,) = r.run(engine='auto')\n"
        "print(progress.engine, r.head.engine['name'], 'pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["local", "local", "False"]
