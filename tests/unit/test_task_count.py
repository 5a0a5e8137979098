"""How many tasks a batch is cut into: one where it is small and its functions are quick, and how small that is."""

from __future__ import annotations

import json
import time

import pandas as pd
import pytest

import tidemill as tm
from tests.unit import protocol_records as make
from tidemill.driver.tasks import pace, task_count
from tidemill.engines.local import LocalEngine
from tidemill.pipeline.job import Job, compile_job
from tidemill.protocol.records import OperatorMetrics, Split
from tidemill.settings import Settings

MIB = 1024**2


def plan(*sizes: int):
    return make.plan(splits=tuple(Split("source", f"{n}", "e", size, 0) for n, size in enumerate(sizes)))


class Six:
    name = "six"
    parallelism = interpreters = 6


def job(operator: str = "agg", **more) -> Job:
    """Of a pipeline with one operator."""
    p = tm.Pipeline("count")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    if operator == "agg":
        grouped.agg(n=tm.count(), name="op")
    elif operator == "mapWithState":
        spec = tm.StateSpec.function(lambda value, state: None)
        grouped.mapWithState(spec.numPartitions(more["ranges"]) if more else spec, "int", "int", name="op")
    elif operator == "applyInPandasWithState":
        grouped.applyInPandasWithState(rows_seen, "n long", "n long", "append", "NoTimeout", name="op")
    else:
        grouped.transformWithStateInPandas(Counter(), "n long", "append", "none", name="op")
    return compile_job(p)


def counted(of: Job, sizes, tasks="auto", head=None) -> int:
    """Of an engine that runs six tasks at once, each in an interpreter of its own."""
    return task_count(of, Settings(), plan(*sizes), Six(), tasks, head)


@pytest.mark.parametrize(
    ("sizes", "tasks", "count"),
    [
        ((8 * MIB,), "auto", 1),
        ((4 * MIB, 4 * MIB), "auto", 1),
        ((4 * MIB, 4 * MIB + 1), "auto", 6),
        ((), "auto", 1),
        ((1,), 3, 3),
    ],
)
def test_a_small_batch_is_one_task_unless_a_number_is_given(sizes, tasks, count) -> None:
    assert counted(job("mapWithState"), sizes, tasks) == count


@pytest.mark.parametrize("tasks", [0, -1, True, 1.5, "many", None])
def test_what_is_no_number_of_tasks_is_refused(tasks) -> None:
    with pytest.raises(tm.errors.InvalidInput, match=r"tasks=.*, expected 'auto' or a number from 1 on"):
        counted(job(), (1,), tasks)


def test_the_key_ranges_that_operators_ask_for_count_where_no_number_is_given() -> None:
    p = tm.Pipeline("ranges")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    spec = tm.StateSpec.function(lambda value, state: None)
    for name, chosen in (("none", spec), ("three", spec.numPartitions(3)), ("five", spec.numPartitions(5))):
        grouped.mapWithState(chosen, "int", "int", name=name)
    asking = compile_job(p)
    assert asking.ranges == 5
    assert counted(asking, (1,)) == 5
    assert counted(asking, (1,), 2) == 2


def rows_seen(key, frames, state):
    yield pd.DataFrame({"n": [sum(len(frame) for frame in frames)]})


class Counter(tm.StatefulProcessor):
    def init(self, handle) -> None:
        pass

    def handleInputRows(self, key, rows, timerValues):
        yield pd.DataFrame({"n": [sum(len(frame) for frame in rows)]})


@pytest.mark.parametrize(
    ("operator", "kib"),
    [
        ("agg", 32 * 1024),
        ("mapWithState", 8 * 1024),
        ("applyInPandasWithState", 16),
        ("transformWithStateInPandas", 16),
    ],
)
def test_a_task_takes_as_much_as_its_rows_cost(operator: str, kib: int) -> None:
    assert counted(job(operator), (kib * 1024,)) == 1
    assert counted(job(operator), (kib * 1024 + 1,)) == 6


# How long functions took.


def after(ms_per_mib: str, **more):
    return make.commit(engine={"name": "spark", "tasks": "1", "ms_per_mib": ms_per_mib}, **more)


@pytest.mark.parametrize(
    ("ms_per_mib", "size", "count"),
    [
        ("999", MIB, 1),
        ("1000", MIB, 2),
        ("1000", 2 * MIB, 4),
        ("1000", 8 * MIB, 6),
        ("50000", 8 * 1024, 1),
        ("200000", 8 * 1024, 3),
        ("0", MIB, 1),
        ("", MIB, 1),
        ("-7000", MIB, 1),
        ("lots", MIB, 1),
        ("\u0663\u0663\u0663\u0663\u0663", MIB, 1),
    ],
)
def test_a_small_batch_is_as_many_tasks_as_its_functions_keep_busy(ms_per_mib: str, size: int, count: int) -> None:
    assert counted(job("mapWithState"), (size,), head=after(ms_per_mib)) == count


def test_what_functions_took_counts_only_where_there_are_some_and_nothing_else_is_said() -> None:
    slow = after("100000")
    assert counted(job("agg"), (MIB,), head=slow) == 1
    assert counted(job("mapWithState"), (MIB,), 1, head=slow) == 1
    assert counted(job("mapWithState", ranges=2), (MIB,), head=slow) == 2
    assert counted(job("mapWithState"), (MIB,), head=make.commit()) == 1
    assert counted(job("mapWithState"), (), head=slow) == 1
    assert task_count(job("mapWithState"), Settings(), plan(MIB), LocalEngine(6), "auto", slow) == 1  # its threads


def test_an_engine_is_asked_how_much_it_can_only_where_that_matters() -> None:
    class Dear:
        @property
        def interpreters(self) -> int:
            raise AssertionError("costs a job of Spark Connect")

    assert task_count(job("mapWithState"), Settings(), plan(MIB), Dear(), "auto", after("999")) == 1


def test_a_commit_says_what_functions_took_for_a_mib() -> None:
    took = {"op": OperatorMetrics(apply_ms=90), "other": OperatorMetrics(apply_ms=1_000_000)}
    assert pace(job("mapWithState"), plan(MIB, 2 * MIB), took, None) == {"ms_per_mib": "30"}
    assert pace(job("mapWithState"), plan(MIB), took, after("7")) == {"ms_per_mib": "90"}
    assert pace(job("mapWithState"), plan(), took, after("7")) == {"ms_per_mib": "7"}  # a sweep
    assert pace(job("mapWithState"), plan(), took, make.commit()) == {}
    assert pace(job("mapWithState"), plan(), took, None) == {}
    assert pace(job("agg"), plan(MIB), took, after("7")) == {}


def slow(batchTime, key, value, state):
    """Two milliseconds a row."""
    if not state.isTimingOut:
        time.sleep(0.002)
        state.update(1)
    return (key,)


def test_a_slow_function_is_given_more_tasks_in_the_next_batch_also_after_a_sweep(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(LocalEngine, "interpreters", 2)
    (tmp_path / "in").mkdir()
    p = tm.Pipeline("slow")
    rows = p.read(tm.Files(str(tmp_path / "in"), format="json", schema="k string"))
    spec = tm.StateSpec.function(slow).timeout("5 minutes")
    rows.groupBy("k").mapWithState(spec, "int", outputSchema="k string", name="op")
    repository = tm.open(p, root=str(tmp_path / "root"))
    repository.init()

    def run(minute: int, count: int) -> dict[str, str]:
        if count:
            lines = (json.dumps({"k": f"{minute:02}-{n:03}"}) + "\n" for n in range(count))
            (tmp_path / "in" / f"{minute:02}.json").write_text("".join(lines))
        repository.run(engine="local", batch_time=f"2024-01-01T00:{minute:02}:00Z")
        return repository.head.engine

    first = run(0, 600)
    size = (tmp_path / "in" / "00.json").stat().st_size
    assert first["tasks"] == "1"
    assert int(first["ms_per_mib"]) * size / MIB >= 1199
    second = run(1, 600)
    assert (second["name"], second["tasks"]) == ("local", "2")
    swept = run(10, 0)
    assert repository.head.kind == "sweep"
    assert (swept["tasks"], swept["ms_per_mib"]) == ("1", second["ms_per_mib"])
    assert run(11, 600)["tasks"] == "2"
    assert repository.outputs(version=3).sort_by("k").column("k").to_pylist() == [f"11-{n:03}" for n in range(600)]
