"""stdout and stderr whose reader may exit early (`tidemill run … --json | head -1`): the command runs to its end.

INVARIANT: neither the work nor the exit status depends on whether the output is read.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class Patient(io.FileIO):
    """A file descriptor that stays open. Writes are discarded once the reader has closed its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)

    def write(self, data: Any) -> int:
        """Write as a file does. Without a reader, report everything as written."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def patient(stream: TextIO) -> TextIO:
    """Return a `Patient` text stream on the file descriptor of `stream`, or `stream` itself if it has none."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        raw: Any = Patient(stream.fileno())
    except OSError:
        return stream
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


@contextlib.contextmanager
def patient_stdio() -> Iterator[None]:
    """Make stdout and stderr patient until the end of the block, for user code too."""
    kept = sys.stdout, sys.stderr
    for stream in kept:
        _flush(stream)
    sys.stdout, sys.stderr = (patient(stream) for stream in kept)
    try:
        yield
    finally:
        _flush(sys.stdout)
        _flush(sys.stderr)
        sys.stdout, sys.stderr = kept


def _flush(stream: TextIO | None) -> None:
    """Flush a stream. A stream that the process was started without (`>&-`) is None."""
    if stream is not None:
        stream.flush()
