"""stdout and stderr that may lose their reader (`tidemill run … --json | head -1`): the command goes on without one.

INVARIANT: what is done and its exit status do not depend on whether anybody reads what is said.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class Patient(io.FileIO):
    """A file descriptor, left open; what is written after its reader has gone is dropped."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)

    def write(self, data: Any) -> int:
        """As of a file; all of it counts as written where nobody reads."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def patient(stream: TextIO) -> TextIO:
    """A stream like `stream` to the same file descriptor, patient; `stream` itself where it is no file."""
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
def patient_streams() -> Iterator[None]:
    """stdout and stderr are patient meanwhile, for user code too."""
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
    """What waits in a stream, written; a stream that the process was started without (`>&-`) is None."""
    if stream is not None:
        stream.flush()
