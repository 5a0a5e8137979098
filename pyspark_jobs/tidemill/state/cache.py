"""Opened runs of this process, by checksum: a run that was just written or read is not read again. Behind it lies the
cache on disk, which processes share.

Bounded by bytes, least recently used out first. INVARIANT: an entry is what its checksum says, so it never goes stale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from .._native import MapSchema, Run
from ..settings import Settings
from .disk_cache import DiskCache


class RunCache:
    """Runs by checksum, at most `limit_bytes` of them, safe for threads; `disk` is asked for what is not here."""

    def __init__(self, limit_bytes: int, disk: DiskCache | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._disk = disk
        self._runs: OrderedDict[str, tuple[Run, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, checksum: str, schema: MapSchema, load: Callable[[], Run]) -> Run:
        """The run of these columns with this checksum; `load` reads it where it is neither here nor on disk."""
        with self._lock:
            known = self._runs.pop(checksum, None)
            if known is not None:
                run, size = known
                self._bytes -= size
                self._add(checksum, run)
                return run
        kept = self._disk.get(checksum, schema) if self._disk is not None else None
        if kept is None:
            return self.put(checksum, load())
        self._remember(checksum, kept)
        return kept

    def put(self, checksum: str, run: Run) -> Run:
        """Keeps a run here, unless it alone is larger than the limit, and on disk. Returns it as it is kept."""
        if self._disk is not None:
            run = self._disk.put(checksum, run)
        self._remember(checksum, run)
        return run

    def _remember(self, checksum: str, run: Run) -> None:
        if run.nbytes > self.limit_bytes:
            return
        with self._lock:
            if checksum in self._runs:
                return
            self._add(checksum, run)

    def _add(self, checksum: str, run: Run) -> None:
        """As the newest one. A run grows by the tables that searches make: it counts as what it was when last used."""
        size = run.nbytes
        self._runs[checksum] = run, size
        self._bytes += size
        while self._bytes > self.limit_bytes:
            _, (_, dropped) = self._runs.popitem(last=False)
            self._bytes -= dropped


_CACHE: dict[tuple[int, int, str], RunCache] = {}


def process_cache(settings: Settings) -> RunCache:
    """The cache of this process for these settings."""
    limit, disk = settings.disk_cache_bytes, None
    key = (settings.cache_bytes, limit, settings.disk_cache_folder)
    if limit and key not in _CACHE:
        disk = DiskCache(settings.disk_cache_folder, limit)
    return _CACHE.setdefault(key, RunCache(settings.cache_bytes, disk))
