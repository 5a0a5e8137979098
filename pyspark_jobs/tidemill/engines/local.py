"""The engine without a JVM: every task runs in this process, one after the other or in a few threads.

Nothing is pickled, so tasks share the pipeline's objects. INVARIANT: a range receives items in the order of the scatter
tasks, for any number of threads.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ..batch.work import Data, Work
from .failure import task_failed
from .worker import apply, is_alone, run_whole, scatter

Pair = tuple[int, Data]


class LocalEngine:
    """Runs a work in this process, at most `tasks` tasks at once."""

    name = "local"
    is_remote = False

    def __init__(self, tasks: int) -> None:
        self.parallelism = tasks

    def execute(self, work: Work) -> list[bytes]:
        """Run the work and return all receipts. After an interrupt each task stops at its current item."""
        if not work.ranges:
            return []
        try:
            return list(map(bytes, run_whole(work))) if is_alone(work) else self._by_level(work)
        except Exception as error:
            line = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
            raise task_failed(line, traceback.format_exc(), self.name) from error

    def _by_level(self, work: Work) -> list[bytes]:
        received: list[list[Data]] = [[] for _ in range(work.ranges)]
        for target, data in self._run([_scatter(work, task) for task in range(work.scatter_tasks)]):
            received[target].append(data)
        for level in range(work.levels):
            pairs = self._run([_apply(work, level, index, received) for index in range(work.ranges)])
            if level == work.levels - 1:
                return [bytes(data) for _, data in pairs]
            received = [[] for _ in range(work.ranges)]
            for target, data in pairs:
                received[target].append(data)
        raise AssertionError("a work has at least one level")

    def _run(self, tasks: list[Callable[[], Iterator[Pair]]]) -> Iterable[Pair]:
        """Run the tasks; return their items, task by task."""
        if min(self.parallelism, len(tasks)) <= 1:
            return [pair for task in tasks for pair in task()]
        return self._run_threads(tasks)

    def _run_threads(self, tasks: list[Callable[[], Iterator[Pair]]]) -> Iterable[Pair]:
        stop = threading.Event()

        def run(task: Callable[[], Iterator[Pair]]) -> list[Pair]:
            made: list[Pair] = []
            for pair in () if stop.is_set() else task():
                made.append(pair)
                if stop.is_set():
                    break
            return made

        with ThreadPoolExecutor(min(self.parallelism, len(tasks)), "tidemill-task") as pool:
            futures = [pool.submit(run, task) for task in tasks]
            try:
                return [pair for future in futures for pair in future.result()]
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _scatter(work: Work, task: int) -> Callable[[], Iterator[Pair]]:
    return lambda: scatter(work, task)


def _taken(items: list[Data]) -> Iterator[Data]:
    """Yield the items in order. The list does not keep them."""
    items.reverse()
    while items:
        yield items.pop()


def _apply(work: Work, level: int, index: int, received: list[list[Data]]) -> Callable[[], Iterator[Pair]]:
    """Return a task that takes the items of its range out of `received`, so that they are freed when it ends."""

    def task() -> Iterator[Pair]:
        items, received[index] = received[index], []
        return apply(work, level, index, _taken(items))

    return task
