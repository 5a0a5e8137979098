"""A full disk: which errors of the system mean one, and the words for it, the same for objects and temporary files.

Nothing is written here. INVARIANT: the system's own text stays in the message, so that `is_full` recognises the error
after it came from another process as text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile

from ..errors import StoreUnavailable, TidemillError

_ADVICE = {
    errno.ENOSPC: "free space on the disk, then run again",
    errno.EDQUOT: "free space or raise the quota, then run again",
    errno.EFBIG: "raise the limit for the size of a file (`ulimit -f`), then run again",
}
_UNKNOWN = "outcome unknown"
"""Part of the message of `Numbered.claim` about a record that an earlier attempt may still write."""
_TEXTS = tuple(f": {os.strerror(number)}" for number in _ADVICE)


def advice(number: int | None) -> str | None:
    """Return what to do about an error of the system that means a full disk; None for another error."""
    return _ADVICE.get(number or 0)


def is_full(error: TidemillError) -> bool:
    """Whether an error says that a disk or a quota is full, so that the write was not done for certain."""
    known = isinstance(error, StoreUnavailable) and _UNKNOWN not in error.first_line
    return known and any(text in error.first_line for text in _TEXTS)


def space(number: int | None, path: str, needed: int | None = None) -> str:
    """Return how much space a write needed and how much there is, to follow the reason of an error; "" if unknown."""
    if number != errno.ENOSPC:
        return ""
    with contextlib.suppress(OSError):
        disk = os.statvfs(_existing(path))
        is_out_of_inodes = disk.f_files and not disk.f_favail
        free = "no inodes" if is_out_of_inodes else f"{disk.f_bavail * disk.f_frsize:,} bytes"
        return f"; {free} free" if needed is None else f"; needed {needed:,} bytes, {free} free"
    return ""


def no_temporary_file(error: OSError, needed: int | None = None, folder: str | None = None) -> StoreUnavailable:
    """Return the error for a temporary file that cannot be written. `folder` is Spark's; None: that of the system."""
    variable = "TMPDIR" if folder is None else "`spark.local.dir`"
    folder = folder or tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
    reason = error.strerror or str(error)
    return StoreUnavailable(
        f"write a temporary file in `{folder}`: {reason}{space(error.errno, folder, needed)}",
        hint=f"free space there, or set {variable} to a folder on another disk, then run again",
    )


def _existing(path: str) -> str:
    while not os.path.exists(path) and path not in ("", os.sep):
        path = os.path.dirname(path)
    return path or os.curdir
