"""The same input gives the same result to the last bit with 1, 2 and 7 tasks, also if their number changes."""

from __future__ import annotations

import pytest

from tests.model import same_result


@pytest.mark.parametrize("tasks", [2, 7])
def test_state_and_outputs_do_not_depend_on_the_number_of_tasks(tmp_path, tasks):
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    one = same_result.result(folder, f"{tmp_path}/one", "local", 1)
    many = same_result.result(folder, f"{tmp_path}/many", "local", tasks)
    same_result.same(one, many)
    assert sum(one["counts"].column("late").to_pylist()) > 0
