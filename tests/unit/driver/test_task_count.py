"""How many tasks a batch is cut into: one for a small batch, and how small that is."""

from __future__ import annotations

import pandas as pd
import pytest

import tidemill as tm
from tests.unit.protocol import valid_records as make
from tidemill.driver import tasks as cutting
from tidemill.engines.local import LocalEngine
from tidemill.pipeline.job import compile_job
from tidemill.protocol.records import Split
from tidemill.verbs.open import open_context

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
    assert cutting.task_count(plan(*sizes), LocalEngine(6), tasks, 8 * MIB) == count


def test_auto_uses_the_key_ranges_that_operators_ask_for() -> None:
    p = tm.Pipeline("ranges")
    grouped = p.read(tm.Rows("k string")).groupBy("k")
    spec = tm.StateSpec.function(lambda value, state: None)
    for name, chosen in (("none", spec), ("three", spec.numPartitions(3)), ("five", spec.numPartitions(5))):
        grouped.mapWithState(chosen, "int", "int", name=name)
    ranges = compile_job(p).ranges
    assert ranges == 5
    assert cutting.task_count(plan(1), LocalEngine(6), "auto", 8 * MIB, ranges) == 5
    assert cutting.task_count(plan(1), LocalEngine(6), 2, 8 * MIB, ranges) == 2


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
    context = open_context(p, str(tmp_path), "main", None, None)
    assert cutting.task_bytes(context.job, context.settings) == kib * 1024
