"""Every operator: another number of tasks in each batch, and a restart between any two, change nothing."""

from __future__ import annotations

import pytest

import tidemill as tm
from tests.model.every_operator import FRAMES, OPERATORS, frames_pipeline, make_files, pipeline, results
from tidemill._native import Operator
from tidemill.operators.processor_task import ProcessorTask
from tidemill.pipeline.job import compile_job

pytestmark = pytest.mark.slow("long random runs")

FILES, ROWS = 7, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("every") / "data", FILES, ROWS)


def after(folder, root, tasks, made=pipeline):
    """Return the result of runs that each process one batch, with this number of tasks."""
    sink = str(root / "published")
    tm.open(made(folder, sink), root=str(root)).init()
    for count in tasks:
        repository = tm.open(made(folder, sink), root=str(root), conf={"tidemill.block_rows": 16})
        assert len(repository.run(engine="local", tasks=count, max_batches=1)) == 1
    return results(tm.open(made(folder, sink), root=str(root)))


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    return after(folder, tmp_path_factory.mktemp("one"), [1] * FILES)


def test_the_pipeline_has_something_of_everything(undisturbed):
    assert sum(counts.late_rows for counts in undisturbed["counts"]) > FILES
    for name in OPERATORS - {"mapped", "processor", "first-within"}:  # those are read by others only
        assert any(undisturbed[f"outputs {name}"]), name
    grouped = "".join(line for batch in undisturbed["outputs grouped"] for line in batch)
    assert all(what in grouped for what in ("counted", "removed", "silent"))
    assert "timer" in "".join(line for batch in undisturbed["outputs behind-processor"] for line in batch)


@pytest.mark.parametrize("tasks", [[3] * FILES, [1, 3, 2, 5, 1, 4, 2], [2, 1, 1, 4, 3, 3, 7]], ids=str)
def test_another_number_of_tasks_in_the_middle_changes_nothing(folder, undisturbed, tmp_path, tasks):
    found = after(folder, tmp_path, tasks)
    assert found.keys() == undisturbed.keys()
    for part, expected in undisturbed.items():
        assert found[part] == expected, part


@pytest.fixture(scope="module")
def frames_undisturbed(folder, tmp_path_factory):
    return after(folder, tmp_path_factory.mktemp("frames"), [1] * FILES, frames_pipeline)


def test_the_frames_have_something_of_everything(frames_undisturbed):
    assert sum(counts.late_rows for counts in frames_undisturbed["counts"]) > FILES
    for name, word in (("extremes", "'silent': True"), ("sums", "'closed': True"), ("behind-kept", "'lately': -1")):
        assert word in "".join(line for batch in frames_undisturbed[f"outputs {name}"] for line in batch), name
    for name in FRAMES - {"kept"}:
        assert all(frames_undisturbed[f"outputs {name}"][:-1]), name


@pytest.mark.parametrize("tasks", [[3] * FILES, [1, 3, 2, 5, 1, 4, 2]], ids=str)
def test_frames_are_the_same_with_another_number_of_tasks(folder, frames_undisturbed, tmp_path, tasks):
    found = after(folder, tmp_path, tasks, frames_pipeline)
    assert found.keys() == frames_undisturbed.keys()
    for part, expected in frames_undisturbed.items():
        assert found[part] == expected, part


def engine_of(operator):
    """Return the Rust operator of a bound operator, or None if it has no Rust operator."""
    handle = operator.open()
    if isinstance(handle, ProcessorTask):
        return handle.begin()
    return handle if isinstance(handle, Operator) else None


@pytest.mark.parametrize(("made", "kinds"), [(pipeline, 6), (frames_pipeline, 3)])
def test_the_engine_has_the_maps_that_python_declares(folder, made, kinds):
    operators = [placed.operator for placed in compile_job(made(folder)).operators.values()]
    found = [(one, engine) for one in operators if (engine := engine_of(one)) is not None]
    assert len({operator.kind for operator, _ in found}) >= kinds
    for operator, engine in found:
        declared = [one.engine() for one in operator.maps]
        assert [(one.name, one.columns) for one in engine.map_schemas()] == [
            (one.name, one.columns) for one in declared
        ]
