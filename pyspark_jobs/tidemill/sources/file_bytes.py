"""The bytes of a source's file: from a folder or a store, decompressed, cut into pieces at ends of records.

INVARIANT: where a file is cut depends on its bytes alone. What the rows mean is not known here.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from ..errors import StoreUnavailable, TidemillError
from ..store import ObjectMissing, Store

PIECE_BYTES = 32 * 1024**2
"""How much of a text file is decoded at once."""
RECORD_BYTES = 8 * PIECE_BYTES
"""A record that is longer is refused."""
WHOLE_BYTES = 64 * 1024**2
"""An object up to this size is fetched by one request."""
_CODECS = {".gz": "gzip", ".zst": "zstd"}


class StoreFile(io.RawIOBase):
    """An object as a file that can be read and searched, by ranged reads."""

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
        """Moves the position; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """One ranged read."""
        wanted = min(len(buffer), self._size - self._position)
        data = self._store.get_range(self._name, self._position, wanted) if wanted > 0 else b""
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class Content:
    """The bytes of one file. A small object of a remote store is fetched by one request when this is made."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self._size = store, name, size
        self._path = store.local_path(name)
        whole = self._path is None and size <= WHOLE_BYTES
        self._data = store.get(name) if whole else None
        self.at_once = self._data is not None
        """Whether all of it is one version of the object, whatever happens to that now."""

    def open(self) -> IO[bytes]:
        """The file, opened for reading; `ObjectMissing` if there is none."""
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
        """Something with `read(n)`, decompressed by the file's ending."""
        codec = next((codec for ending, codec in _CODECS.items() if self._name.lower().endswith(ending)), None)
        with self.open() as file:
            if codec is None or self._size == 0:
                yield file
            else:
                with pa.CompressedInputStream(pa.PythonFile(file), codec) as stream:
                    yield stream


class Quoting:
    """How records of delimited text are told apart: a line end inside a quoted field ends no record."""

    def __init__(self, separator: str, quote: str, escape: str) -> None:
        self._quote = quote.encode()
        self._escape = escape.encode()
        self._doubled = escape == quote or not escape
        self._field = self._quoted_field(separator.encode()) if quote else re.compile(b"(?!)")

    def _quoted_field(self, separator: bytes) -> re.Pattern[bytes]:
        """A field that begins with a quote, up to the quote that closes it, or to the end."""
        mark, slash = re.escape(self._quote), re.escape(self._escape)
        inside = b"[^%b]*+(?:%b%b[^%b]*+)*+" % (mark, mark, mark, mark)
        if not self._doubled:
            inside = b"[^%b%b]*+(?:%b.[^%b%b]*+)*+" % (mark, slash, slash, mark, slash)
        starts = b"(?:\\A|(?<=[\\n\\r])|(?<=%b))" % re.escape(separator)
        return re.compile(starts + mark + inside + b"(?:" + mark + b"|\\Z)", re.DOTALL)

    def end_of_records(self, data: bytes) -> int:
        """After the last line end of `data`, which begins with a record, that ends a record; 0 if none does."""
        end = data.rfind(b"\n")
        if end < 0 or not self._quote or data.find(self._quote, 0, end) < 0:
            return end + 1
        if self._doubled and data.count(self._quote, 0, end) % 2 == 0:
            return end + 1
        return self.plain(data).rfind(b"\n") + 1

    def plain(self, data: bytes) -> bytes:
        """`data` with quoted fields blanked out, in the same length: each line end left in it ends a record."""
        if not self._quote or self._quote not in data:
            return data
        return self._field.sub(lambda match: b"x" * len(match[0]), data)


LINES = Quoting("", "", "")
"""Every line is a record."""


class Unreadable(Exception):
    """A file, from `line` on where that is known, is not what its format says. Becomes a reject or an error.

    `hint`: what to do where it is an error, if there is more to say than what goes for all.
    """

    def __init__(self, reason: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line
        self.hint = hint


def is_damage(error: Exception) -> bool:
    """Whether an error of Arrow or of a file speaks of the data, and not of the disk or the store that has it.

    INVARIANT: what goes away by itself is never a reject: the batch fails, and is run again.
    """
    return not isinstance(error, TidemillError) and getattr(error, "errno", None) is None


def pieces(stream: Any, quoting: Quoting) -> Iterator[bytes]:
    """The content of `stream` in pieces of whole records, of about `PIECE_BYTES`; the last may lack its line end."""
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
    """The next bytes; zlib, zstd and Arrow say in different ways that compressed data is damaged."""
    try:
        return bytes(stream.read(PIECE_BYTES))
    except (pa.ArrowException, EOFError, OSError) as error:
        if not is_damage(error):
            raise
        raise Unreadable(f"the compressed data is damaged: {error}") from error
