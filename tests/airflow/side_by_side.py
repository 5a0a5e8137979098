"""Functions that wait most of the time, run side by side, and reported one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class SideBySide(Generic[Subject]):
    """Runs functions in a few threads, in their order. `result` raises what the function raised."""

    def __init__(self, functions: Sequence[Callable[[Subject], None]], subject: Subject, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._futures: dict[str, Future[None]] = {
            function.__name__: self._pool.submit(function, subject) for function in functions
        }

    def result(self, function: Callable[[Subject], None]) -> None:
        """Wait for the end of a function."""
        self._futures[function.__name__].result()

    def wait(self) -> None:
        """Wait for the end of all functions, whether they raise or not."""
        for future in self._futures.values():
            future.exception()

    def stop(self) -> None:
        """Start no further function, and wait for those that run."""
        self._pool.shutdown(cancel_futures=True)
