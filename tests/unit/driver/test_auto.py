"""Engine `auto`: small batches run in this process, large ones and large backlogs on Spark."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.driver import auto
from tidemill.protocol.records import OperatorMetrics
from tidemill.settings import Settings
from tidemill.verbs import run as running


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


def write(folder: Path, *sizes: int) -> None:
    folder.mkdir(exist_ok=True)
    for number, size in enumerate(sizes):
        rows = "a,1\n" * max(size // 4, 1)
        (folder / f"{number:03}.csv").write_text(rows)


class Started:
    """Takes the place of the engines, to see which of them would start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, has_spark: bool = True) -> None:
        self.names: list[str] = []
        real = running.engine_for
        monkeypatch.setattr(running, "has_spark", lambda: has_spark)
        monkeypatch.setattr(
            running, "engine_for", lambda spark, name, *rest: self.names.append(name) or real(None, "local")
        )


@pytest.mark.parametrize(
    ("kind", "limit", "size", "chosen"),
    [
        ("agg", 1000, 8000, "local"),
        ("agg", 1000, 8004, "spark"),
        ("function", 1000, 1000, "local"),
        ("function", 1000, 1004, "spark"),
        ("pandas", 16000, 1000, "local"),
        ("pandas", 16000, 1004, "spark"),
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
    write(tmp_path / "in", 100, 100, 100)
    started = Started(monkeypatch)
    conf = {"tidemill.local_bytes": 25}  # 200 bytes without functions
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf=conf)
    r.init()
    assert len(r.run(engine="auto")) == 3
    assert started.names == ["spark"], "the last batches are small, but Spark runs"
    write(tmp_path / "in", 100, 100, 100, 100)
    r.run(engine="auto")
    assert started.names == ["spark", "local"]


def test_a_later_run_escalates_when_more_has_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 100)
    started = Started(monkeypatch)
    r = tm.open(pipeline(tmp_path / "in"), root=str(tmp_path / "root"), conf={"tidemill.local_bytes": 25})
    r.init()
    r.run(engine="auto")
    write(tmp_path / "in", 100, 300)
    r.run(engine="auto")
    assert started.names == ["local", "spark"]


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
    plan: Any = r.context.log.plan(0)
    assert auto.is_small(r.context.job, Settings(), head, plan)
    large = head.operators | {"op": OperatorMetrics(state_bytes=5 * 1024**3), "gone": OperatorMetrics(state_bytes=1)}
    assert not auto.is_small(r.context.job, Settings(), dataclasses.replace(head, operators=large), plan)


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
