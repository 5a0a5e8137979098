"""Pipelines reach the workers however they were defined: see engine_ways.py, which runs as a script."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.servers.spark_connect import SparkConnectServer

pytestmark = pytest.mark.servers("start Spark")

SCRIPT = Path(__file__).with_name("engine_ways.py")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Engine → way → answer, from one process that knows nothing of pytest."""
    folder = tmp_path_factory.mktemp("ways")
    with SparkConnectServer() as server:
        ran = subprocess.run(
            [sys.executable, SCRIPT, folder, server.url],
            env=os.environ | {"PYTHONPATH": str(Path(tidemill.__file__).parents[1])},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, Any]] = json.loads(ran.stdout)
    return found


@pytest.fixture(params=["spark", "connect"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_functions_of_a_script_reach_the_workers(answers: dict[str, dict[str, Any]], engine: str) -> None:
    assert answers[engine]["script"] == ["TIDE0!", "TIDE1!"]
    assert answers[engine]["closure"] == ["tide0?", "tide1?"]


def test_a_notebook_cell_that_runs_again_reaches_the_workers_again(
    answers: dict[str, dict[str, Any]], engine: str
) -> None:
    assert answers[engine]["notebook"] == [["tide0 v1", "tide1 v1"], ["tide0 v2", "tide1 v2"]]


def test_functions_of_a_namespace_that_is_not_a_module_reach_the_workers(
    answers: dict[str, dict[str, Any]], engine: str
) -> None:
    assert answers[engine]["namespaces"] == [["0edit", "1edit"]] * 2


def test_a_module_loaded_from_a_path_reaches_the_workers_with_its_neighbours(
    answers: dict[str, dict[str, Any]], engine: str
) -> None:
    assert answers[engine]["path_loaded"] == ["Tide0", "Tide1"]


def test_a_module_that_workers_lack_is_named(answers: dict[str, dict[str, Any]], engine: str) -> None:
    line, hint = answers[engine]["missing"]
    assert line.startswith(f"run a batch on engine `{engine}`: a worker on `")
    assert "cannot import `only_the_driver_has_it`" in line
    assert "spark.archives" in hint


def test_an_archive_for_another_architecture_is_named(answers: dict[str, dict[str, Any]], engine: str) -> None:
    text, hint = answers[engine]["unfit_archive"]
    ours = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}-{platform.machine()}"
    assert text.startswith(f"run a batch on engine `{engine}`: a worker on `")
    first, *rest = text.split("\n")
    unfit = "was given an archive of `tidemill pack` for Python 3.11 on linux-aarch65, and is"
    assert first.endswith(f"` {unfit} {ours}")
    assert rest == [f"hint: {hint}"]
    assert hint.startswith("run `tidemill pack` on a machine with the Python and the architecture of the workers")
