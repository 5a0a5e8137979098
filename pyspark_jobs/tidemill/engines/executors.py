"""Detects that a cluster grants no executor. Spark itself would wait for ever.

A master accepts an application also if it has no workers, or if other applications hold all cores. INVARIANT: looking
changes nothing; a job is only cancelled because `look` raises.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import StoreUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext

LOG = logging.getLogger("tidemill")

_QUIET_S = 5.0
_REPEAT_S = 60.0


class ExecutorWatch:
    """Watches one job: `look` logs a warning while there is no executor, and raises once that has been too long.

    - `count` returns the number of executors now.
    - `limit_ms` is how long there may be none, from now or since the last one was lost. 0 means for ever.
    - `clock` returns seconds.
    """

    def __init__(
        self, count: Callable[[], int], master: str, limit_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._master = master
        self._limit_s = limit_ms / 1000
        self._clock = clock
        self._since = clock()
        self._next_warning_s = _QUIET_S

    def look(self) -> None:
        """Raise `StoreUnavailable` if there has been no executor for longer than the limit."""
        if self._count():
            self._since = self._clock()
            self._next_warning_s = _QUIET_S
            return
        waited = self._clock() - self._since
        if self._limit_s and waited >= self._limit_s:
            cluster = f"the cluster at `{self._master}`"
            raise StoreUnavailable(
                f"run a batch on engine `spark`: {cluster} has granted no executor for {waited:.0f} s",
                hint="look at the cluster's page: start workers, or free cores and memory that other applications "
                "hold; `tidemill.executor_wait` sets how long to wait",
            )
        if waited >= self._next_warning_s:
            limit = f" of {self._limit_s:.0f} s" if self._limit_s else ""
            LOG.warning(
                "waiting for executors: the cluster at `%s` has granted none for %.0f s%s; its workers are away, or "
                "their cores and memory are in use",
                self._master, waited, limit,
            )  # fmt: skip
            self._next_warning_s = waited + _REPEAT_S


def count_executors(context: SparkContext) -> int:
    """Return how many executors the application has. The driver, which Spark counts too, is left out."""
    scala = context._jsc.sc()
    return int(scala.getExecutorMemoryStatus().size()) - 1
