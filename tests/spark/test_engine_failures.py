"""A failure under an engine ends in one clear error. The failures are in engine_failures.py, run as a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.servers.spark_connect import SparkConnectServer
from tidemill.batch.work import Item
from tidemill.engines import engine_for

pytestmark = pytest.mark.servers("start Spark", seconds=70)

SCRIPT = Path(__file__).with_name("engine_failures.py")
RECEIPTS = ["0: 0 1", "1: 0 1"]


def ran(actions: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the script and return its findings. It must end by itself."""
    done = subprocess.run(
        [sys.executable, SCRIPT, actions, folder, *arguments],
        env=os.environ | {"PYTHONPATH": str(Path(tidemill.__file__).parents[1])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "BrokenPipeError" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module", params=["spark", "connect"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("failures")
    if request.param == "spark":
        return ran("died,interrupted", folder)
    with SparkConnectServer() as server:
        return ran("died,interrupted", folder, server.url)


def test_a_killed_worker_is_an_error_and_the_engine_stays_usable(found: dict[str, Any]) -> None:
    assert found["died"]["kind"] == "InternalError"
    assert "a worker process ended during a task; it was killed, ran out of memory" in found["died"]["line"]
    assert found["died"]["hint"].startswith("look for out of memory in the logs of the machine and of Spark. ")
    assert found["died"]["after"] == RECEIPTS


def test_an_interrupt_ends_the_tasks_and_the_engine_stays_usable(found: dict[str, Any]) -> None:
    assert found["interrupted"] == {"raised": "KeyboardInterrupt", "running": [], "after": RECEIPTS}


def test_tasks_that_spark_retries_count_once(tmp_path: Path) -> None:
    """A master that allows four failures, as clusters do."""
    assert ran("retried", tmp_path) == {"retried": {"receipts": RECEIPTS}}
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["apply", "scatter"]


@dataclass(frozen=True)
class Counts:
    """Two tasks that would count for a minute, one step at a time."""

    counted: list[int]
    scatter_tasks: int = 2
    ranges: int = 2
    levels: int = 1
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def scatter(self, task: int) -> Iterator[Item]:
        for number in range(1200):
            time.sleep(0.05)
            self.counted.append(number)
            yield Item(0, b"")

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        yield from ()


@pytest.mark.parametrize("tasks", [1, 2])
def test_an_interrupt_ends_local_tasks_after_the_item_they_make(tasks: int) -> None:
    work = Counts([])

    def interrupt() -> None:
        while not work.counted:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine_for(None, "local", tasks).execute(work)
    finally:
        signal.signal(signal.SIGINT, before)
    after = len(work.counted)
    time.sleep(0.2)
    assert len(work.counted) == after < 1200
