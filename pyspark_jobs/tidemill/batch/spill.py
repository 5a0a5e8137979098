"""Receiving the messages of an apply task in bounded memory: chunks beyond a limit go to a file, which is mapped.

The file has no name. It is in Spark's local folders, or in the system's folder for temporary files. Operators read
mapped chunks as they read others, and the system takes their memory back when it needs it. INVARIANT: no other process
can shorten the file, because it has no name. CRASH: the system frees it when the process ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType

import pyarrow as pa

from ..store.full import no_temporary_file
from .memory import keep_freed_memory
from .wire import ALIGNMENT, Chunk, Message, decode_message
from .work import Data


def received(items: Iterable[Data], limit_bytes: int) -> list[Message]:
    """Decode the items, in order. Chunks beyond `limit_bytes` in all are in a mapped file instead of in memory.

    `StoreUnavailable` if the disk is full.
    """
    if "pyspark.worker" in sys.modules:  # which reads each chunk into memory of its own
        keep_freed_memory(limit_bytes)
    messages: list[Message] = []
    held = 0
    with contextlib.ExitStack() as stack:
        file: _SpillFile | None = None
        for data in items:
            message = decode_message(data)
            if isinstance(message, Chunk):
                if held + message.body.size > limit_bytes:
                    file = file or stack.enter_context(_SpillFile())
                    message = file.write(message, len(messages))
                else:
                    held += message.body.size
            messages.append(message)
        for place, chunk in file.mapped() if file is not None else ():
            messages[place] = chunk
    return messages


class _SpillFile:
    """A file without a name that chunks are written to. Once all are written, it is mapped as a whole."""

    def __init__(self) -> None:
        self._folder = _folder_of_spark()
        self._chunks: list[tuple[int, Chunk, int, int]] = []
        self._bytes = 0
        try:
            self._file = tempfile.TemporaryFile(prefix="tidemill-", buffering=0, dir=self._folder)  # noqa: SIM115
        except OSError as error:
            raise no_temporary_file(error, folder=self._folder) from error

    def write(self, chunk: Chunk, place: int) -> Chunk:
        """Write the rows of a chunk, and return the chunk without its rows. `mapped` returns `place` with it."""
        size = chunk.body.size
        padded = size + -size % ALIGNMENT
        try:
            self._write(memoryview(chunk.body))
            self._write(memoryview(bytes(padded - size)))
        except OSError as error:
            raise no_temporary_file(error, size, self._folder) from error
        emptied = dataclasses.replace(chunk, body=pa.py_buffer(b""))
        self._chunks.append((place, emptied, self._bytes, size))
        self._bytes += padded
        return emptied

    def mapped(self) -> Iterator[tuple[int, Chunk]]:
        """Yield (place, chunk) of all chunks that were written, with their rows mapped."""
        whole = memoryview(mmap.mmap(self._file.fileno(), self._bytes, access=mmap.ACCESS_READ))
        for place, chunk, start, size in self._chunks:
            yield place, dataclasses.replace(chunk, body=pa.py_buffer(whole[start : start + size]))

    def __enter__(self) -> _SpillFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file. The mapping stays until the last chunk is freed."""
        self._file.close()

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]


def _folder_of_spark() -> str | None:
    """Return the local folder of Spark's worker with the most free space; None if no worker of Spark runs this."""
    folders = [one for one in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if one and os.path.isdir(one)]
    return max(folders, key=lambda one: shutil.disk_usage(one).free, default=None)
