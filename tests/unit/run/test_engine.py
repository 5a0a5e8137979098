"""Engine `auto`: small batches run in this process, large ones and large backlogs on Spark."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.protocol.records import OperatorMetrics
from tidemill.run import backlog, drain
from tidemill.run import engine as chosen
from tidemill.run import plan as planning
from tidemill.settings import Settings


def pipeline(folder: Path, kind: str = "agg", form: str = "csv") -> tm.Pipeline:
    p = tm.Pipeline("sized")
    rows = p.read(tm.Files(str(folder), format=form, schema="k string, n int", maxFilesPerTrigger=1))
    keyed = rows.groupBy("k")
    if kind == "agg":
        keyed.agg(n=tm.sum("n"), name="op")
    elif kind == "function":
        keyed.mapWithState(tm.StateSpec.function(lambda v, s: s.update(v)), "int", "k string", value="n", name="op")
    else:
        keyed.applyInPandasWithState(
            lambda key, frames, state: iter(()), "k string", "n int", "append", "NoTimeout", name="op"
        )
    return p


ROW = "a" * 37 + ",1\n"
"""40 bytes: so long that the rows of a file count as its bytes."""


def write(folder: Path, *sizes: int, first: int = 0, row: str = ROW) -> None:
    folder.mkdir(exist_ok=True)
    for number, size in enumerate(sizes, first):
        (folder / f"{number:03}.csv").write_text(row * (size // len(row)))


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
    ("kind", "limit", "size", "chosen"),
    [
        ("agg", 1000, 8000, "local"),
        ("agg", 1000, 8040, "spark"),
        ("function", 1000, 1000, "local"),
        ("function", 1000, 1040, "spark"),
        ("pandas", 16000, 1000, "local"),
        ("pandas", 16000, 1040, "spark"),
    ],
)
def test_what_a_row_costs_decides_how_much_input_is_small(
    kind: str, limit: int, size: int, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", size)
    started = Started(monkeypatch)
    r = tm.open(pipeline(tmp_path / "in", kind), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": limit})
    r.init()
    r.run(engine="auto", max_batches=1)
    assert started.names == [chosen]


def test_a_backlog_counts_and_a_drain_stays_with_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 1000, 1000, 1000)
    started = Started(monkeypatch)
    conf = {"tidemill.local_bytes": 250}  # 2000 bytes without functions
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf=conf)
    r.init()
    assert len(r.run(engine="auto")) == 3
    assert started.names == ["spark"], "the last batches are small, but Spark runs"
    write(tmp_path / "in", 1000, 1000, 1000, 1000)
    r.run(engine="auto")
    assert started.names == ["spark", "local"]


def test_a_later_run_escalates_when_more_has_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 1000)
    started = Started(monkeypatch)
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 250})
    r.init()
    r.run(engine="auto")
    write(tmp_path / "in", 1000, 3000)
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


def opened(tmp_path: Path, **conf: object) -> tm.Repository:
    """Open a repository for which 2000 bytes are little input."""
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 250, **conf})
    r.init()
    return r


def drained(r: tm.Repository, engine: str = "auto") -> list[int]:
    """Run, and return how many files each batch left waiting."""
    return [one.numFilesOutstanding for one in r.run(engine=engine)]


def test_a_drain_moves_to_spark_when_its_backlog_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, 400)
    started = Started(monkeypatch)
    r = opened(tmp_path)
    Arriving(monkeypatch, lambda: write(tmp_path / "in", 1000, 1000, first=10))
    assert drained(r) == [1, 2, 1, 0], "the files that made it move are read in the same drain"
    assert started.names == ["local", "spark"]
    assert r.state("op")["n"].to_pylist() == [70], "a row of every 40 bytes"


def test_what_arrives_during_a_drain_waits_if_it_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, 400)
    started = Started(monkeypatch)
    r = opened(tmp_path)
    Arriving(monkeypatch, lambda: write(tmp_path / "in", 1000, 600, first=10))
    assert drained(r) == [1, 0], "otherwise a drain with a steady producer would never end"
    assert drained(r) == [1, 0]
    assert started.names == ["local", "local"]


@pytest.mark.parametrize(("every_s", "listings"), [(0, 4), (3600, 1)])
def test_a_long_drain_lists_again_after_a_while(
    every_s: float, listings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", 400, 400, 400, 400)
    Started(monkeypatch)
    r = opened(tmp_path)
    arriving = Arriving(monkeypatch, lambda: None, every_s)
    assert drained(r) == [3, 2, 1, 0]
    assert arriving.listings == listings


def test_a_listing_that_took_long_is_not_soon_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, 400, 400)
    Started(monkeypatch)
    r = opened(tmp_path)
    arriving = Arriving(monkeypatch, lambda: None)
    monkeypatch.setattr(backlog, "LISTING_SHARE", 1_000_000)
    assert drained(r) == [2, 1, 0]
    assert arriving.listings == 1


@pytest.mark.parametrize(("engine", "size"), [("local", 400), ("spark", 400), ("auto", 3000)])
def test_a_drain_whose_engine_is_certain_lists_once_although_files_arrive(
    engine: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", size, 400)
    started = Started(monkeypatch)
    r = opened(tmp_path)
    arriving = Arriving(monkeypatch, lambda: write(tmp_path / "in", 3000, 3000, first=10))
    assert drained(r, engine) == [1, 0]
    assert arriving.listings == 1
    assert started.names == ["local" if engine == "local" else "spark"]


def test_files_that_are_not_read_again_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, 400, 400)
    started = Started(monkeypatch)
    p = tm.Pipeline("sized")
    rows = p.read(
        tm.Files(
            str(tmp_path / "in"), format="csv", schema="k string, n int", maxFilesPerTrigger=1, overwritten="ignore"
        )
    )
    rows.groupBy("k").agg(n=tm.sum("n"), name="op")
    r = tm.open(p, root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 250})
    r.init()
    r.run(engine="auto", max_batches=1)
    Arriving(monkeypatch, lambda: (write(tmp_path / "in", 4000), write(tmp_path / "in", 40, first=10)))
    assert drained(r) == [1, 0], "the first file was read, and the new one is small"
    assert started.names == ["local", "local"]


def test_an_error_of_the_backlog_is_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, 400, 400)
    Started(monkeypatch)
    r = opened(tmp_path)
    drained_first = r.run(engine="auto", max_batches=1)
    assert [one.numFilesOutstanding for one in drained_first] == [2]
    arriving = Arriving(monkeypatch, lambda: write(tmp_path / "in", 4000))  # the file that was read
    assert drained(r) == [1, 0]
    assert arriving.listings == 2
    with pytest.raises(tm.InvalidInput, match=r"000\.csv.* was modified after it was read"):
        r.run(engine="auto")


def test_many_short_rows_are_not_little_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 400, row="a,1\n")
    started = Started(monkeypatch)
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 250})
    r.init()
    r.run(engine="auto")
    write(tmp_path / "in", 204, first=1, row="a,1\n")  # as many rows as 2040 bytes of long ones
    r.run(engine="auto")
    assert started.names == ["local", "spark"], "without an earlier version, the bytes of the file count"


def test_a_given_session_means_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 4)
    started = Started(monkeypatch)
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"))
    r.init()
    r.run(spark=object(), engine="auto")
    assert started.names == ["spark"]


def test_without_pyspark_everything_runs_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 4000)
    started = Started(monkeypatch, has_spark=False)
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 1})
    r.init()
    r.run(engine="auto")
    assert started.names == ["local"]


def test_large_state_means_spark() -> None:
    p = tm.Pipeline("sized")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count(), name="op")
    tester = tm.testing.Tester(p)
    tester.batch([("a",)])
    r = tester.repository
    head: Any = r.head
    plan: Any = r.opened.log.plan(0)
    assert chosen.is_small(r.opened.job, Settings(), head, plan)
    large = head.operators | {"op": OperatorMetrics(state_bytes=5 * 1024**3), "gone": OperatorMetrics(state_bytes=1)}
    assert not chosen.is_small(r.opened.job, Settings(), dataclasses.replace(head, operators=large), plan)


def test_the_commit_and_the_progress_say_which_engine_ran_and_no_jvm_started(tmp_path: Path) -> None:
    write(tmp_path / "in", 4)
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
