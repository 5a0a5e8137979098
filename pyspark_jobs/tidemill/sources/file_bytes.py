"""The bytes of a source's file: read from a folder or a store, decompressed, and cut into pieces at ends of records.

INVARIANT: where a file is cut depends on its bytes alone. The meaning of rows is not known here.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from ..errors import StoreUnavailable, TidemillError
from ..store import Entry, ObjectMissing, Store

PIECE_BYTES = 32 * 1024**2
"""How many bytes of a text file are decoded at once."""
RECORD_BYTES = 8 * PIECE_BYTES
"""A longer record is an error."""
WHOLE_BYTES = 64 * 1024**2
"""An object of at most this size is fetched by one request."""
_CODECS = {".gz": "gzip", ".zst": "zstd"}


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


class Content:
    """The bytes of one file. The constructor fetches a small object of a remote store by one request.

    `entry` is that of the object which was fetched, or None if nothing was.
    """

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self._size = store, name, size
        self.size = size
        """The bytes of the file, as it was listed."""
        self._path = store.local_path(name)
        whole = self._path is None and size <= WHOLE_BYTES
        self._data: bytes | None = None
        self.entry: Entry | None = None
        if whole:
            self._data, self.entry = store.read(name)
        self.at_once = self._data is not None
        """Whether all bytes were read in one request, so that later changes of the object do not matter."""

    @property
    def is_compressed(self) -> bool:
        """Whether `open_text` decompresses the file."""
        return _codec(self._name) is not None

    def load(self) -> bytes:
        """Read all bytes, and keep them for whatever is read later."""
        if self._data is None:
            with self.open() as file:
                self._data = file.read()
        return self._data

    def open(self) -> IO[bytes]:
        """Open the file for reading. Raises `ObjectMissing` if there is none."""
        if self._data is not None:
            return io.BytesIO(self._data)
        if self._path is None:
            return io.BufferedReader(StoreFile(self._store, self._name, self._size), 8 * 1024**2)
        try:
            return open(self._path, "rb")
        except FileNotFoundError:
            raise ObjectMissing(self._name, self._store.uri) from None
        except PermissionError as error:
            raise StoreUnavailable(
                f"read `{self._name}` in {self._store.uri}: {error.strerror}", hint="give this user access to the file"
            ) from error

    @contextlib.contextmanager
    def open_text(self) -> Iterator[Any]:
        """Open the file as an object with `read(n)`, decompressed according to the file's ending."""
        codec = _codec(self._name)
        with self.open() as file:
            if codec is None or self._size == 0:
                yield file
            else:
                with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec) as stream:
                    yield stream


def _codec(name: str) -> str | None:
    """Return how a file is compressed, by its ending."""
    return next((codec for ending, codec in _CODECS.items() if name.lower().endswith(ending)), None)


class Quoting:
    """Finds the records of delimited text: a line end inside a quoted field does not end a record."""

    def __init__(self, separator: str, quote: str, escape: str) -> None:
        self._quote = quote.encode()
        self._escape = escape.encode()
        self._doubled = escape == quote or not escape
        self._field = self._quoted_field(separator.encode()) if quote else re.compile(b"(?!)")

    def _quoted_field(self, separator: bytes) -> re.Pattern[bytes]:
        """Return a pattern for a field that begins with a quote, up to its closing quote or to the end."""
        mark, slash = re.escape(self._quote), re.escape(self._escape)
        inside = b"[^%b]*+(?:%b%b[^%b]*+)*+" % (mark, mark, mark, mark)
        if not self._doubled:
            inside = b"[^%b%b]*+(?:%b.[^%b%b]*+)*+" % (mark, slash, slash, mark, slash)
        starts = b"(?:\\A|(?<=[\\n\\r])|(?<=%b))" % re.escape(separator)
        return re.compile(starts + mark + inside + b"(?:" + mark + b"|\\Z)", re.DOTALL)

    def end_of_records(self, data: bytes) -> int:
        """Return the position after the last complete record of `data`, or 0. `data` begins with a record."""
        end = data.rfind(b"\n")
        if end < 0 or not self._quote or data.find(self._quote, 0, end) < 0:
            return end + 1
        if self._doubled and data.count(self._quote, 0, end) % 2 == 0:
            return end + 1
        return self.plain(data).rfind(b"\n") + 1

    def plain(self, data: bytes) -> bytes:
        """Return `data` with quoted fields blanked out, in the same length. Each remaining line end ends a record."""
        if not self._quote or self._quote not in data:
            return data
        return self._field.sub(lambda match: b"x" * len(match[0]), data)


LINES = Quoting("", "", "")
"""Every line is a record."""


class Unreadable(Exception):
    """A file is invalid in its format, from `line` on if that is known. It becomes a reject or an error.

    `hint` replaces the general hint of the error.
    """

    def __init__(self, reason: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line
        self.hint = hint


def is_damage(error: Exception) -> bool:
    """Return whether an error of Arrow or of a file means invalid data, and not a failing disk or store.

    INVARIANT: a failure that may pass is never a reject. The batch fails, and the next run retries it.
    """
    return not isinstance(error, TidemillError) and getattr(error, "errno", None) is None


def pieces(stream: Any, quoting: Quoting) -> Iterator[bytes]:
    """Yield `stream` in pieces of whole records, of about `PIECE_BYTES`. The last may lack its line end."""
    rest = b""
    while data := _read(stream):
        rest += bytes(data)
        end = quoting.end_of_records(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > RECORD_BYTES:
            raise Unreadable(
                f"a record is longer than {RECORD_BYTES >> 20} MiB: a line end or a closing quote is missing"
            )
    if rest:
        yield rest


def _read(stream: Any) -> bytes:
    """Return the next bytes. zlib, zstd and Arrow report damaged compressed data in different ways."""
    try:
        return bytes(stream.read(PIECE_BYTES))
    except (pa.ArrowException, EOFError, OSError) as error:
        if not is_damage(error):
            raise
        raise Unreadable(f"the compressed data is damaged: {error}") from error
