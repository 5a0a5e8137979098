"""The private memory of this process, the greatest value while a task ran, and how much of it is kept when freed.

Private memory is what the system cannot take back without ending the process: not the mapped files of the cache on disk
or of `spill`. On Linux it is read from `/proc`. Elsewhere the greatest resident size of the process takes its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import threading
import weakref
from types import TracebackType

_STATUS = "/proc/self/status"
_EVERY_S = 0.02
_PRIVATE = (b"RssAnon:", b"RssShmem:")
_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which a user sets the same."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 32 * 1024**2
"""Pieces of memory from this size on are returned to the system all the same: the most that glibc accepts."""


def private_bytes() -> int:
    """Return the private memory of this process, in bytes."""
    try:
        with open(_STATUS, "rb") as status:
            found = [int(line.split()[1]) for line in status if line.startswith(_PRIVATE)]
    except OSError:
        found = []
    if found:
        return sum(found) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def keep_freed_memory(limit_bytes: int) -> None:
    """Let glibc keep up to `limit_bytes` of memory that this process has freed, for what the next task receives.

    By default it returns that memory to the system, and the next task waits for each page of it. Settings of the user
    in the environment, and other C libraries, stay as they are. `private_bytes` includes this memory.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _USERS):
        return
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, min(limit_bytes, 2**31 - 1))


class PeakMemory:
    """Watches the private memory of this process inside a `with` block; `bytes` is the greatest value that it saw.

    It looks at the start, at the end, when asked, and every 20 ms in between. With several tasks in one process each
    sees the memory of all. INVARIANT: the thread that looks does not keep this object, and ends with it, because an
    interrupt can come between its start and the block.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        what = (self._ended, weakref.ref(self))
        self._thread = threading.Thread(target=_watch, args=what, name="tidemill-memory", daemon=True)

    def look(self) -> int:
        """Look now, and return the greatest value so far."""
        now = private_bytes()
        with self._lock:  # the thread looks, too
            self.bytes = max(self.bytes, now)
            return self.bytes

    def __enter__(self) -> PeakMemory:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self.look()


def _watch(ended: threading.Event, watching: weakref.ref[PeakMemory]) -> None:
    while not ended.wait(_EVERY_S):
        memory = watching()
        if memory is None:
            return
        memory.look()
        del memory  # or this thread would keep it while it waits
