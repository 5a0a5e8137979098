"""Script that test_engine_failures.py runs: workers that die, interrupts, tasks that are run again.

Arguments: what to do, a folder, for Connect the server's address. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
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
    """Two scatter tasks send to two ranges. Each apply task returns what it received."""

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
    """The task of range 1 kills its own process."""

    def happens(self, range_index: int) -> None:
        if range_index == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class FailsOnce(Shape):
    """Scatter task 1 and the task of range 1 fail at their first try. The scatter task has sent rows before."""

    def scatter(self, task: int) -> Iterator[Item]:
        yield from super().scatter(task)
        if task == 1 and first_time("scatter"):
            raise OSError("the first try of a scatter task")

    def happens(self, range_index: int) -> None:
        if range_index == 1 and first_time("apply"):
            raise OSError("the first try of a range")


class Sleeps(Shape):
    """A task writes its process id to a pipe, then waits until its process is killed, or for a minute."""

    def happens(self, range_index: int) -> None:
        with (FOLDER / "asleep").open("w") as pipe:
            pipe.write(f"{os.getpid()}\n")
        time.sleep(60)


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
    """Send SIGINT to this process when a task sleeps, and report which sleeping processes still run after 40 s."""
    os.mkfifo(FOLDER / "asleep")
    pipe = os.open(FOLDER / "asleep", os.O_RDWR)  # with both ends open, no task waits for a reader
    first: list[bytes] = []

    def interrupt() -> None:
        first.append(os.read(pipe, 1 << 12))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        engine.execute(Sleeps())
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    else:
        raised = "nothing"
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        first.append(os.read(pipe, 1 << 12))
    os.close(pipe)
    deadline = time.monotonic() + 40
    running = [pid for pid in map(int, b"".join(first).split()) if not has_ended(pid, deadline)]
    return {"raised": raised, "running": running, "after": receipts(engine)}


def has_ended(pid: int, deadline: float) -> bool:
    """Wait until a process ends. Return False if it still runs at the deadline."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], max(0.0, deadline - time.monotonic()))[0])
    finally:
        os.close(process)


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
