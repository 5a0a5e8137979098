"""Opened runs of this process, by checksum: a run that was just written or read is not read again.

Bounded by bytes, least recently used out first. INVARIANT: an entry is what its checksum says, so it never goes stale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from .._native import Run


class RunCache:
    """Runs by checksum, at most `limit_bytes` of them, safe for threads."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, checksum: str, load: Callable[[], Run]) -> Run:
        """The run with this checksum; `load` reads it where it is not here."""
        with self._lock:
            run = self._runs.get(checksum)
            if run is not None:
                self._runs.move_to_end(checksum)
                return run
        run = load()
        self.put(checksum, run)
        return run

    def put(self, checksum: str, run: Run) -> None:
        """Keeps a run, unless it alone is larger than the limit."""
        if run.nbytes > self.limit_bytes:
            return
        with self._lock:
            if checksum in self._runs:
                return
            self._runs[checksum] = run
            self._bytes += run.nbytes
            while self._bytes > self.limit_bytes:
                _, dropped = self._runs.popitem(last=False)
                self._bytes -= dropped.nbytes


_CACHE: dict[int, RunCache] = {}


def process_cache(limit_bytes: int) -> RunCache:
    """The cache of this process for a limit."""
    return _CACHE.setdefault(limit_bytes, RunCache(limit_bytes))
