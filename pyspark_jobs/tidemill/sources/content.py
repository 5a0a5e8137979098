"""The bytes of a source's file, in a folder or in a store.

INVARIANT: a failure to read bytes is `StoreUnavailable` or the store's own error. It never means that a file is
invalid.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO, Any

from ..errors import StoreUnavailable, TidemillError
from ..store import ListedObject, ObjectMissing, Store
from ..store.walk import entry

WHOLE_BYTES = 64 * 1024**2
"""An object of at most this size is fetched by one request."""
READ_ONCE_BYTES = 1024**2
"""A local file of at most this size is read once, for its fingerprint and for its rows."""
_BUFFER_BYTES = 8 * 1024**2


class StoreFile(io.RawIOBase):
    """An object as a seekable file. Each read is a ranged read from the store."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store, self._name, self._size = store, name, size
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position and return it; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:  # prose: quoted
        """Return the position."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` by one ranged read and return the number of bytes."""
        wanted = min(len(buffer), self._size - self._position)
        data = self._store.get_range(self._name, self._position, wanted) if wanted > 0 else b""
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class StoreRanges:
    """Ranges of an object. `size` is that of the whole object."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self.size = store, name, size

    def read_at(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start` on."""
        return self._store.get_range(self._name, start, length)


class Content:
    """The bytes of one file. The constructor fetches a small object of a remote store by one request.

    `entry` is that of the object which was fetched or loaded, or None if nothing was.
    """

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name = store, name
        self.size = size
        """The bytes of the file, as it was listed."""
        self._path = store.local_path(name)
        self.data: bytes | None = None
        """All bytes, if they are in memory."""
        self.entry: ListedObject | None = None
        if self._path is None and size <= WHOLE_BYTES:
            self.data, self.entry = store.read(name)
        self.at_once = self.data is not None
        """Whether all bytes were read in one request, so that later changes of the object do not matter."""

    def load(self) -> bytes:
        """Read all bytes, and keep them and their entry. Of a file that has grown, one byte more is read."""
        if self.data is None:
            with self.open() as file, self.reading():
                self.data = file.read(self.size + 1)
                if self._path is not None:
                    self.entry = entry(self._name, os.fstat(file.fileno()))
        return self.data

    @property
    def source(self) -> str | bytes | IO[bytes]:
        """What the reader in Rust takes: the path of a local file, the bytes, or a file with ranged reads."""
        if self.data is not None:
            return self.data
        return self.open() if self._path is None else self._path

    @property
    def ranges(self) -> str | bytes | StoreRanges:
        """What the reader of Parquet takes: the path of a local file, the bytes, or ranged reads."""
        if self.data is not None:
            return self.data
        return self._path or StoreRanges(self._store, self._name, self.size)

    def open(self) -> IO[bytes]:
        """Open the file for reading. Raises `ObjectMissing` if there is none."""
        if self.data is not None:
            return io.BytesIO(self.data)
        if self._path is None:
            return io.BufferedReader(StoreFile(self._store, self._name, self.size), _BUFFER_BYTES)
        with self.reading():
            return open(self._path, "rb")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of the operating system into `ObjectMissing` or `StoreUnavailable`."""
        try:
            yield
        except TidemillError:
            raise
        except FileNotFoundError:
            raise ObjectMissing(self._name, self._store.uri) from None
        except PermissionError as error:
            raise StoreUnavailable(
                f"read `{self._name}` in {self._store.uri}: {error.strerror}", hint="give this user access to the file"
            ) from error
        except OSError as error:
            raise StoreUnavailable(f"read `{self._name}` in {self._store.uri}: {error.strerror or error}") from error
