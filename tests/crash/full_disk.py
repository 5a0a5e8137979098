"""A disk that becomes full at a numbered call of the system, and stays full until it is freed.

It stands in for the system calls with which a local store writes. INVARIANT: nothing here needs the right to mount a
file system; `tests/crash/test_full_disk.py` has a real full disk besides, where that is allowed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from tidemill.store import local_files

WRITING = ("link", "replace", "mkdir", "makedirs", "fsync")


class FullDisk:
    """Counts the calls that need space. From call number `full_from` on they fail; a write then writes half."""

    def __init__(self, full_from: int | None = None) -> None:
        self.full_from = full_from
        self.calls: list[str] = []
        self.failed = 0

    def take(self, call: str) -> None:
        """Count a call. Raises `OSError` if the disk is full."""
        self.calls.append(call)
        if self.full_from is not None and len(self.calls) >= self.full_from:
            self.failed += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        """Stand in for the module `os`."""
        real = getattr(os, name)
        if name not in WRITING:
            return real

        def call(*given: Any, **options: Any) -> Any:
            self.take(name)
            return None if name == "fsync" else real(*given, **options)  # the tests lose no power

        return call

    def open(self, path: Any, flags: int, *given: Any, **options: Any) -> int:
        """Open a file; one that is to be written needs an inode."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.take("open")
        return os.open(path, flags, *given, **options)


@contextlib.contextmanager
def full_disk(full_from: int | None = None) -> Iterator[FullDisk]:
    """Let local stores write to a `FullDisk` in the block."""
    disk, fill = FullDisk(full_from), local_files._fill

    def half(file: BinaryIO, write: Any, *, sync: bool) -> None:
        try:
            disk.take("write")
        except OSError:
            fill(file, lambda it: it.write(b"half"), sync=False)
            raise
        fill(file, write, sync=sync)

    with contextlib.ExitStack() as undo:
        durable = {os.sep, ""}  # as in a new process
        for name, stand_in in (("os", disk), ("_fill", half), ("_DURABLE", durable)):
            undo.callback(setattr, local_files, name, getattr(local_files, name))
            setattr(local_files, name, stand_in)
        yield disk
