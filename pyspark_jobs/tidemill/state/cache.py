"""The cache of opened runs in the memory of a process, by checksum. It falls back to the cache on disk.

Its size is bounded in bytes; the least recently used run is dropped first. INVARIANT: an entry is identified by the
checksum of its segment and by the columns in which it is open (`older.cache_key`), so it never becomes stale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from .. import _native
from ..settings import Settings
from .disk_cache import DiskCache


class RunCache:
    """Runs by checksum, up to `limit_bytes`. Safe for threads. Runs that are not in memory are looked up in `disk`."""

    def __init__(self, limit_bytes: int, disk: DiskCache | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._disk = disk
        self._runs: OrderedDict[str, tuple[_native.Run, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, checksum: str, schema: _native.MapSchema, load: Callable[[], _native.Run]) -> _native.Run:
        """Return the run with these columns and this checksum. `load` reads it if neither cache has it."""
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

    def put(self, checksum: str, run: _native.Run) -> _native.Run:
        """Add a run to both caches, unless it exceeds their limits. Return it, mapped from disk if it is kept there."""
        if self._disk is not None:
            run = self._disk.put(checksum, run)
        self._remember(checksum, run)
        return run

    def clear(self) -> None:
        """Remove all runs from both caches, also those of other pipelines."""
        with self._lock:
            self._runs.clear()
            self._bytes = 0
        if self._disk is not None:
            self._disk.clear()

    def _remember(self, checksum: str, run: _native.Run) -> None:
        if run.nbytes > self.limit_bytes:
            return
        with self._lock:
            if checksum in self._runs:
                return
            self._add(checksum, run)

    def _add(self, checksum: str, run: _native.Run) -> None:
        """Add a run as the most recently used one.

        A run grows as searches build tables for it. It counts with the size that it had when it was last used.
        """
        size = run.nbytes
        self._runs[checksum] = run, size
        self._bytes += size
        while self._bytes > self.limit_bytes:
            _, (_, dropped) = self._runs.popitem(last=False)
            self._bytes -= dropped


_CACHE: dict[tuple[int, int, str], RunCache] = {}


def process_cache(settings: Settings) -> RunCache:
    """Return the cache of this process for these settings. Equal settings give the same cache."""
    limit, disk = settings.disk_cache_bytes, None
    key = (settings.cache_bytes, limit, settings.disk_cache_folder)
    if limit and key not in _CACHE:
        disk = DiskCache(settings.disk_cache_folder, limit)
    return _CACHE.setdefault(key, RunCache(settings.cache_bytes, disk))
