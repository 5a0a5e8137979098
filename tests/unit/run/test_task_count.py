"""How many tasks a batch is cut into: one for a small batch, and how small that is."""

from __future__ import annotations

import pandas as pd
import pytest

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tidemill.engines.local import LocalEngine
from tidemill.pipeline.job import compile_job
from tidemill.protocol.records import Counts, OperatorMetrics, Split
from tidemill.repo.open import open_repository
from tidemill.run import tasks as cutting

MIB = 1024**2


def plan(*sizes: int):
    return make.plan(splits=tuple(Split("source", f"{n}", "e", size, 0) for n, size in enumerate(sizes)))


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
def test_a_small_batch_is_one_task_unless_tasks_is_a_number(sizes, tasks, count) -> None:
    assert cutting.task_count(plan(*sizes), LocalEngine(6), tasks, cutting.Cut(8 * MIB)) == count


def test_auto_uses_the_key_ranges_that_operators_ask_for() -> None:
    p = tm.Pipeline("ranges")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    spec = tm.StateSpec.function(lambda value, state: None)
    for name, chosen in (("none", spec), ("three", spec.numPartitions(3)), ("five", spec.numPartitions(5))):
        grouped.mapWithState(chosen, "int", "int", name=name)
    ranges = compile_job(p).ranges
    assert ranges == 5
    assert cutting.task_count(plan(1), LocalEngine(6), "auto", cutting.Cut(8 * MIB, ranges)) == 5
    assert cutting.task_count(plan(1), LocalEngine(6), 2, cutting.Cut(8 * MIB, ranges)) == 2


@pytest.mark.parametrize(
    ("rows", "stored", "read", "ranges"),
    [
        (0, 0, 0, 1),
        (1_000, 10_000, 1_000, 1),
        (20 * MIB, 20 * MIB, 0, 1),  # 2 * (48 + 3) * 20 MiB are less than 2 GiB
        (21 * MIB, 21 * MIB, 0, 2),
        (50 * MIB, 50 * MIB, 0, 4),
        (50 * MIB, 50 * MIB, 300 * MIB, 8),
        (0, 0, 146 * MIB, 1),  # 192 bytes for each row of 16 bytes, and its text twice, are 14 times its text
        (0, 0, 147 * MIB, 2),
        (1_000 * MIB, 9_000 * MIB, 0, 128),
        (1 << 40, 1 << 40, 0, 4096),
    ],
)
def test_a_batch_is_cut_so_that_a_task_has_the_memory_for_its_range(tmp_path, rows, stored, read, ranges) -> None:
    p = tm.Pipeline("large")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count(), name="s")
    context = open_repository(p, str(tmp_path), "main", None, None)
    metrics = {"s": OperatorMetrics(state_bytes=stored), "gone": OperatorMetrics(state_bytes=1 << 50)}
    head = make.commit(rows={"s": {"main": rows}, "gone": {"main": 1 << 50}}, operators=metrics)
    found = cutting.cut_of(context.job, context.settings, head, plan(read))
    assert found == cutting.Cut(32 * MIB, None, ranges)
    assert cutting.task_count(plan(read), LocalEngine(6), "auto", found) == max(ranges, 6 if read > 32 * MIB else 1)
    assert cutting.task_count(plan(read), LocalEngine(6), 3, found) == 3


def test_parquet_counts_as_four_times_its_size_in_memory(tmp_path) -> None:
    p = tm.Pipeline("large")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count(), name="s")
    context = open_repository(p, str(tmp_path), "main", {"tidemill.task_memory_bytes": "8 MiB"}, None)
    for path, ranges in (("a.csv", 8), ("a.parquet", 32)):
        read = make.plan(splits=(Split("source", path, "e", 4 * MIB, 0),))
        assert cutting.cut_of(context.job, context.settings, None, read).least == ranges


def test_the_version_before_says_how_many_rows_the_input_has(tmp_path) -> None:
    p = tm.Pipeline("large")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count(), name="s")
    context = open_repository(p, str(tmp_path), "main", {"tidemill.task_memory_bytes": "8 MiB"}, None)
    for rows, ranges in ((10, 1), (33 * 1024, 2), (1024 * 1024, 32)):  # in 1 MiB
        head = make.commit(rows={}, operators={}, counts=Counts(rows, rows, 0, 0, 1, MIB))
        assert cutting.cut_of(context.job, context.settings, head, plan(MIB)).least == ranges


def test_ranges_that_only_bound_memory_need_no_more_readers() -> None:
    engine = LocalEngine(2)
    assert cutting.scatter_count(engine, 16, cutting.Cut(1, None, 16)) == 2
    assert cutting.scatter_count(engine, 2, cutting.Cut(1, None, 2)) == 2
    assert cutting.scatter_count(engine, 8, cutting.Cut(1, 8, 1)) == 8


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
def test_the_input_of_one_task_depends_on_the_cost_of_its_rows(tmp_path, operator: str, kib: int) -> None:
    p = tm.Pipeline("size")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    if operator == "agg":
        grouped.agg(n=tm.count())
    elif operator == "mapWithState":
        grouped.mapWithState(tm.StateSpec.function(lambda value, state: None), "int", "int")
    elif operator == "applyInPandasWithState":
        grouped.applyInPandasWithState(rows_seen, "n long", "n long", "append", "NoTimeout")
    else:
        grouped.transformWithStateInPandas(Counter(), "n long", "append", "none")
    context = open_repository(p, str(tmp_path), "main", None, None)
    assert cutting.task_bytes(context.job, context.settings) == kib * 1024
