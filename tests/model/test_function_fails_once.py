"""A user's function that fails once in a later batch: nothing of that batch is kept, and the next run goes on.

PySpark's `python_worker_random_failure`, for every operator that calls functions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.every_operator import make_files
from tests.model.failing_once import OPERATORS, Calls, fails_once_and_continues

pytestmark = pytest.mark.slow("long random runs")

FILES, ROWS = 4, 40


@pytest.mark.parametrize(
    ("name", "calls"),
    [*((name, "rows") for name in OPERATORS), *((name, "timeout") for name in OPERATORS if name != "apply_batch")],
)
def test_the_next_run_gives_the_result_of_an_undisturbed_run(name: str, calls: Calls, tmp_path: Path) -> None:
    make_files(tmp_path / "in", FILES, ROWS)
    fails_once_and_continues(name, calls, tmp_path, {"engine": "local", "tasks": 3})
