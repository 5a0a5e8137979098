"""A user's pipeline on real Spark and on Connect: its errors come back whole, wherever it was defined."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.world import World, state

pytestmark = pytest.mark.servers("start Spark")

CODE = """
import tidemill as tm

OFFSET = 40


def track(batch_time, key, row, state):
    total = (state.getOption or 0) + OFFSET // row.v
    state.update(total)
    return (key, total)


def pipeline(folder):
    p = tm.Pipeline("user-code")
    rows = p.read(tm.Files(folder, format="csv", schema="k string, v int", maxFilesPerTrigger=1))
    rows.groupBy("k").mapWithState(tm.StateSpec.function(track), "int", "k string, total int", name="track")
    return p
"""


@pytest.fixture(params=["spark_session", "connect_session"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("a,2\nb,4\n")
    return tmp_path


def notebook(folder: Path) -> tm.Pipeline:
    """As in a notebook's cell: functions of `__main__`, which no worker can import."""
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CODE, "<cell>", "exec"), cell)  # noqa: S102
    made: tm.Pipeline = cell["pipeline"](str(folder / "in"))
    return made


def module(folder: Path) -> Any:
    """By reference, in a folder that only the driver's `sys.path` has."""
    (folder / "lib").mkdir()
    (folder / "lib" / "user_code_job.py").write_text(CODE + f"\np = pipeline({str(folder / 'in')!r})\n")
    sys.path.insert(0, str(folder / "lib"))
    try:
        sys.modules.pop("user_code_job", None)
        return tm.load("user_code_job:p")
    finally:
        sys.path.remove(str(folder / "lib"))


@pytest.mark.parametrize("made", [notebook, module])
def test_a_pipeline_of_a_notebook_or_a_module_reaches_the_workers(session: Any, folder: Path, made: Any) -> None:
    repository = tm.open(made(folder), root=str(folder / "root"))
    repository.init()
    repository.run(spark=session, tasks=2)
    assert state(repository, "track") == {"a": 20, "b": 10}


def test_an_error_of_a_function_has_traceback_operator_key_and_file(session: Any, folder: Path) -> None:
    (folder / "in" / "0.csv").write_text("a,2\nnought,0\n")
    repository = tm.open(notebook(folder), root=str(folder / "root"))
    repository.init()
    with pytest.raises(tm.InvalidInput) as caught:
        repository.run(spark=session, tasks=2)
    first = caught.value.first_line
    for part in ("`track`", "ZeroDivisionError", "'nought'", "`0.csv`"):
        assert part in first, first
    assert "OFFSET // row.v" in str(caught.value) or 'File "<cell>"' in str(caught.value)
    assert repository.head is None


def test_an_error_behind_another_operator_names_the_row_in_its_file(session: Any, folder: Path) -> None:
    def second(batch_time: int, key: int, row: Any, state: Any) -> Any:
        return (1 // (row.total - 10),)

    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CODE, "<cell>", "exec"), cell)  # noqa: S102

    def chain(p: tm.Pipeline, world: World) -> None:
        spec = tm.StateSpec.function(cell["track"])
        first = world.read(p).groupBy("k").mapWithState(spec, "int", "name string, total int", name="track")
        first.groupBy("total").mapWithState(tm.StateSpec.function(second), "int", "x int", name="second")

    r = World(folder, chain).open()
    with pytest.raises(tm.InvalidInput) as caught:
        r.run(spark=session, tasks=2)
    assert caught.value.first_line.endswith(
        "(total=10, name='b') that operator `track` emitted for key `'b'`; "
        "rows of that key in this batch: `0.csv` row 2"
    )


def test_a_union_with_an_initial_state_and_a_function_a_batch(session: Any, tmp_path: Path) -> None:
    lock, calls = threading.Lock(), []

    def called(table: pa.Table, batch_id: int) -> None:
        with lock:  # cannot be pickled: the function stays with the driver
            calls.append(
                (batch_id, sorted(zip(*(table.column(name).to_pylist() for name in ("k", "total")), strict=True)))
            )

    def add(rows: pa.Table, state: pa.Table, context: Any) -> tuple[pa.Table, pa.Table]:
        both = pa.concat_tables([state, rows.rename_columns(["k", "total"])])
        totals = both.group_by("k").aggregate([("total", "sum")]).rename_columns(["k", "total"])
        return totals, totals

    def united(p: tm.Pipeline, world: World) -> None:
        left, right = (world.read(p, name, name) for name in ("left", "right"))
        rows = left.unionByName(right).groupBy("k")
        rows.apply_batch(add, "total long", "k string, total long").foreachBatch(called)

    world = World(tmp_path, united, schema="k string, v long")
    for name in ("left", "right"):
        world.arrive(f"a,1\n{name},2\n", inbox=name)
    r = world.open(init=False)
    r.init(initial_state={"apply-batch": [("a", (100,)), ("quiet", (7,))]})
    r.run(session, tasks=2)
    assert calls == [(0, [("a", 102), ("left", 2), ("right", 2)])]
    assert r.state(keys=["quiet"]).column("total").to_pylist() == [7]
