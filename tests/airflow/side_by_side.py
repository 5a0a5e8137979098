"""Functions that wait most of the time, run side by side, and reported one by one."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class SideBySide(Generic[Subject]):
    """Runs functions in a few threads, in their order. `result` raises what the function raised.

    The threads are daemons, so that an interrupted test run does not wait for them.
    """

    def __init__(self, functions: Sequence[Callable[[Subject], None]], subject: Subject, threads: int) -> None:
        self._subject = subject
        self._waiting: queue.SimpleQueue[Callable[[Subject], None]] = queue.SimpleQueue()
        self._futures: dict[str, Future[None]] = {}
        for function in functions:
            self._futures[function.__name__] = Future()
            self._waiting.put(function)
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def result(self, function: Callable[[Subject], None]) -> None:
        """Wait for the end of a function."""
        self._futures[function.__name__].result()

    def stop(self) -> None:
        """Start no further function."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()

    def _work(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                function = self._waiting.get_nowait()
                try:
                    function(self._subject)
                except BaseException as error:  # noqa: BLE001 — `result` raises it
                    self._futures[function.__name__].set_exception(error)
                else:
                    self._futures[function.__name__].set_result(None)
