"""The same input gives the same result to the last bit with 1, 2 and 7 tasks, also if their number changes."""

from __future__ import annotations

import pytest

from tests.model import same_result
from tidemill.batch.spill import _SpillFile


@pytest.mark.parametrize("tasks", [2, 7])
def test_state_and_outputs_do_not_depend_on_the_number_of_tasks(tmp_path, tasks):
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    one = same_result.result(folder, f"{tmp_path}/one", "local", 1)
    many = same_result.result(folder, f"{tmp_path}/many", "local", tasks)
    same_result.same(one, many)
    assert sum(one["counts"].column("late").to_pylist()) > 0


def test_too_little_memory_for_all_ranges_changes_no_result(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    one = same_result.result(folder, f"{tmp_path}/one", "local", 1)
    spilled = []
    write = _SpillFile.write
    monkeypatch.setattr(_SpillFile, "write", lambda self, chunk, place: spilled.append(1) or write(self, chunk, place))
    little = same_result.result(folder, f"{tmp_path}/many", "local", "auto", conf=same_result.LITTLE_MEMORY)
    same_result.same(one, little)
    assert spilled
