"""Temporary files that a killed process left in a folder: their names, and when they are deleted.

INVARIANT: only files that Tidemill named are deleted, and none that a process may still be writing: the process is
dead and the file is an hour old, or nothing was written to it for a day.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import uuid

from .. import clock

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_NAME = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]+)-[0-9a-f]{32}")
_looked_at: set[tuple[int, str]] = set()


def new_name() -> str:
    """Return a new name for a temporary file of this process."""
    return f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex}"


def delete(folder: str) -> None:
    """Delete the leftovers in a folder, once in each process. Files that cannot be deleted stay."""
    key = (os.getpid(), folder)
    if key in _looked_at:
        return
    _looked_at.add(key)
    with contextlib.suppress(OSError):
        for item in os.scandir(folder):
            age_ms = clock.now_ms() - item.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
            if is_left(item.name, age_ms):
                os.unlink(item.path)


def is_left(name: str, age_ms: int) -> bool:
    """Return whether a file of this name and age was left by a process that no longer writes it."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    dead = found["machine"] == _machine() and not _is_alive(int(found["process"]))
    return age_ms > _DAY_MS or (dead and age_ms > _HOUR_MS)


def _machine() -> str:
    """Return a short digest of the machine's name, because process ids are unique on one machine only."""
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
