"""Run by test_engine_failures.py as a script: workers that die, interrupts, tasks that are run again.

Arguments: what to do, a folder, for Connect the server's address. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.batch.work import Engine, Item
from tidemill.engines import engine_for
from tidemill.errors import TidemillError

FOLDER = Path(sys.argv[2])


@dataclass(frozen=True)
class Shape:
    """Two tasks send to two ranges; every apply task leaves a file with its process in it."""

    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    scatter_tasks: int = 2
    ranges: int = 2
    levels: int = 1

    def scatter(self, task: int) -> Iterator[Item]:
        yield from (Item(target, b"%d" % task) for target in range(self.ranges))

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        received = b" ".join(sorted(items))
        self.happens(range_index)
        yield Item(0, b"%d: %s" % (range_index, received))

    def happens(self, range_index: int) -> None:
        return


class Dies(Shape):
    """Range 1 takes its process with it."""

    def happens(self, range_index: int) -> None:
        if range_index == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class FailsOnce(Shape):
    """Range 1 fails at its first try, after it has sent something; scatter task 1 too."""

    def scatter(self, task: int) -> Iterator[Item]:
        yield from super().scatter(task)
        if task == 1 and first_time("scatter"):
            raise OSError("the first try of a scatter task")

    def happens(self, range_index: int) -> None:
        if range_index == 1 and first_time("apply"):
            raise OSError("the first try of a range")


class Sleeps(Shape):
    """Leaves a file when it falls asleep, and another one if it wakes."""

    def happens(self, range_index: int) -> None:
        (FOLDER / f"asleep-{os.getpid()}").touch()
        time.sleep(60)
        (FOLDER / f"awake-{os.getpid()}").touch()


def first_time(name: str) -> bool:
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def receipts(engine: Engine) -> list[str]:
    return sorted(receipt.decode() for receipt in engine.execute(Shape()))


def died(engine: Engine) -> dict[str, Any]:
    try:
        engine.execute(Dies())
    except TidemillError as error:
        return {"kind": type(error).__name__, "line": error.first_line, "hint": error.hint, "after": receipts(engine)}
    raise AssertionError("the death of a worker went unseen")


def interrupted(engine: Engine) -> dict[str, Any]:
    """SIGINT to this process once a task sleeps. The sleepers must be gone before they wake."""

    def interrupt() -> None:
        while not list(FOLDER.glob("asleep-*")):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        engine.execute(Sleeps())
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    else:
        raised = "nothing"
    pids = [int(file.name.split("-")[1]) for file in FOLDER.glob("asleep-*")]
    deadline = time.monotonic() + 40
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.2)
    running = [pid for pid in pids if is_running(pid)]
    return {"raised": raised, "running": running, "after": receipts(engine)}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def retried(engine: Engine) -> dict[str, Any]:
    return {"receipts": sorted(receipt.decode() for receipt in engine.execute(FailsOnce()))}


def main() -> None:
    action = {"died": died, "interrupted": interrupted, "retried": retried}
    conf = {"spark.master": "local[2,4]" if sys.argv[1] == "retried" else "local[2]"}
    if len(sys.argv) == 3:
        print(
            json.dumps({name: action[name](engine_for(None, "spark", "auto", conf)) for name in sys.argv[1].split(",")})
        )
        return
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(sys.argv[3]).getOrCreate()
    print(json.dumps({name: action[name](engine_for(session)) for name in sys.argv[1].split(",")}))
    session.stop()


if __name__ == "__main__":
    main()
