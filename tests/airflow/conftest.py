"""What tests of Airflow share: its database, DAG files as text, and the fake command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import living

FAKE = Path(__file__).resolve().parent / "fake"


@pytest.fixture(scope="session")
def airflow_home() -> Iterator[Path]:
    """The home of this process (`tests/airflow/home.py`), with a migrated database; its DAG folder is `dags` below."""
    patch = pytest.MonkeyPatch()
    patch.setenv("NO_COLOR", "1")
    from airflow.utils.db import initdb

    initdb()
    yield Path(os.environ["AIRFLOW_HOME"])
    patch.undo()


@pytest.fixture(scope="session")
def fake_folder() -> Path:
    """Return the folder to put on the PYTHONPATH of a child, so that it runs the fake command line."""
    return FAKE


@pytest.fixture
def parse(airflow_home: Path) -> Callable[..., Any]:
    """Write text as a DAG file and load it the way Airflow does; returns the DagBag."""
    from airflow.dag_processing.dagbag import DagBag

    def parse_text(text: str, file_name: str = "retail_dag.py") -> Any:
        for old in (airflow_home / "dags").glob("*.py"):
            old.unlink()
        # bytecode is valid for a file of the same size and second, which the next text may be
        shutil.rmtree(airflow_home / "dags/__pycache__", ignore_errors=True)
        (airflow_home / "dags" / file_name).write_text(text)
        return DagBag(dag_folder=str(airflow_home / "dags"), load_op_links=False)

    return parse_text


def wait_until(
    done: Callable[[], object], what: str, seconds: float = 300, process: subprocess.Popen[str] | None = None
) -> None:
    """Poll until `done()` holds; it never will once `process` has ended. The bound only ends a test that hangs: it is
    no claim about time."""
    give_up = time.monotonic() + seconds
    while not done():
        if process is not None and process.poll() is not None and not done():
            pytest.fail(f"{what}: the process ended with {process.returncode} before: {process.communicate()[0]}")
        if time.monotonic() > give_up:
            pytest.fail(f"{what}: still not so after {seconds:.0f} s")
        time.sleep(0.05)


@pytest.fixture
def alive() -> Callable[[list[int]], list[int]]:
    return living


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object], str], None]:
    return wait_until


@pytest.fixture
def pids(tmp_path: Path) -> Callable[..., list[int]]:
    """The process ids that the fake command wrote down; waits until it has, or the process that is to call it ended."""
    path = tmp_path / "pids"

    def read(process: subprocess.Popen[str] | None = None) -> list[int]:
        wait_until(path.exists, "the command writes its process ids", process=process)
        return [int(pid) for pid in path.read_text().split()]

    return read


@pytest.fixture
def fake_env(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment that makes a child run the fake command line with the given behaviour."""

    def env(behaviour: str) -> dict[str, str]:
        return {"PYTHONPATH": str(FAKE), "FAKE": behaviour, "FAKE_PIDS": str(tmp_path / "pids")}

    return env
