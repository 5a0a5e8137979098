"""A store in a folder of this machine, or of a mounted file system.

`local_files` gives files their names, and `walk` lists them. INVARIANT: readers of the folder that know nothing of
Tidemill never see a part of a file, whatever they list and whenever a writer dies. CRASH: file, name and folders are
fsynced before `put`, `create` and `copy` return.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO
from urllib.parse import quote

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from . import full, local_files
from .contract import (
    TEMPORARY,
    Enters,
    ListedObject,
    ObjectMissing,
    ObjectReplaced,
    Store,
    check_range,
    checked_name,
    get_unchanged,
    read_then_stat,
)
from .local_files import FilePlace, WriteContent
from .walk import entry, walk

BESIDE = ".tidemill-tmp"
"""The folder for temporary names next to a folder with readers of its own."""
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_UNHOLDABLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ, errno.ELOOP)
_ADVICE = {
    errno.EACCES: "give this user access to the folder",
    errno.EPERM: "give this user access to the folder",
    errno.EROFS: "mount the file system for writing, or choose another root",
    errno.EIO: "check the disk",
}


class LocalStore:
    """Files below a folder, which the first write creates. The etag is `<size>-<mtime_ns>`.

    `spare` are folders for temporary names, best first; by default `.tmp` below `root`.
    """

    def __init__(self, root: str, prefix: str = "", spare: tuple[str, ...] = ()) -> None:
        self._root = root
        self._prefix = prefix
        self._spare = spare or (os.path.join(root, TEMPORARY),)
        self._base = os.path.join(root, prefix)

    @property
    def uri(self) -> str:
        """`file://` and the path."""
        # Quote only characters that would change the path, so that people can read it.
        path = "".join(quote(c) if c in "%?#" else c for c in self._base)
        return f"file://{path.rstrip('/') or '/'}"

    @property
    def lists_after(self) -> bool:
        """False: a folder is read whole before its names can be sorted."""
        return False

    @property
    def requests_at_once(self) -> int:
        """1, because nothing waits for an answer."""
        return 1

    def clock_ms(self) -> int | None:
        """Return None: a folder has no clock that could be asked."""
        return None

    def __repr__(self) -> str:
        return f"LocalStore({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStore, (self._root, self._prefix, self._spare)

    def get(self, name: str) -> bytes:
        """Read the file."""
        with self._open(name) as file, _errors("read", file.name):
            return file.read()

    def read(self, name: str) -> tuple[bytes, ListedObject]:
        """Read, then ask for the entry."""
        return read_then_stat(self, name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Seek and read."""
        check_range(start, length)
        with self._open(name) as file, _errors("read", file.name):
            file.seek(start)
            return file.read(length)

    def put(self, name: str, data: bytes) -> str | None:
        """Write and fsync a file without a name, then link it to its name; rename it if the name has a file."""
        self._replace(name, lambda file: file.write(data), len(data))
        return None

    def put_hint(self, name: str, data: bytes) -> None:
        """Write and rename a temporary file without fsync, so the file system may lose it."""
        place = self._place(name)
        with _errors("write", place.path, len(data)):
            local_files.replace_hint(place, lambda file: file.write(data))

    def create(self, name: str, data: bytes) -> bool:
        """Write and fsync a file without a name, then link it to its name; the system refuses a taken name."""
        place = self._place(name)
        with _errors("create", place.path, len(data)):
            return local_files.create(place, lambda file: file.write(data))

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy by `put` from the other file."""
        return self.copy_from(self, source, target, etag)

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy by `put` from a file, or from an object of another kind of store."""
        if not isinstance(origin, LocalStore):
            return self.put(target, get_unchanged(origin, source, etag))
        with origin._open(source) as file:
            found = os.fstat(file.fileno())
            if etag is not None and entry(source, found).etag != etag:
                raise ObjectReplaced(source, origin.uri, etag)
            self._replace(target, lambda copy: shutil.copyfileobj(file, copy, 1 << 20), found.st_size)
        return None

    def copies_from(self, origin: Store) -> bool:
        """Return False: the bytes of a copy pass through this process, and no ETag identifies them."""
        del origin
        return False

    def list(
        self, prefix: str = "", start_after: str | None = None, enters: Enters | None = None
    ) -> Iterator[ListedObject]:
        """Walk the folders in the order of names, except `.tmp`."""
        with _errors("list", self._base):
            yield from walk(self._base, self.uri, prefix, start_after, enters)

    def stat(self, name: str) -> ListedObject | None:
        """Return size and time of the file; None also for a folder."""
        path = self._path(name)
        with _errors("stat", path):
            try:
                found = os.stat(path)
            except _MISSING:
                return None
        return entry(name, found) if stat.S_ISREG(found.st_mode) else None

    def delete(self, name: str) -> None:
        """Unlink the file; its folders remain."""
        path = self._path(name)
        with _errors("delete", path), contextlib.suppress(*_MISSING):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)

    def delete_many(self, names: Iterable[str]) -> None:
        """Unlink the files one after the other."""
        for name in [checked_name(name) for name in names]:
            self.delete(name)

    def at(self, prefix: str) -> LocalStore:
        """Return the folder below as a store, with the same folders for temporary names."""
        return LocalStore(self._root, f"{self._prefix}{checked_name(prefix.rstrip('/'))}/", self._spare)

    def for_readers(self) -> LocalStore:
        """Return the same folder for readers that list everything below it: temporary names are kept beside it."""
        beside = os.path.join(os.path.dirname(self._root), BESIDE)
        return LocalStore(self._root, self._prefix, (beside, os.path.join(self._root, TEMPORARY)))

    def local_path(self, name: str) -> str | None:
        """Return the path of the file."""
        return self._path(name)

    def _path(self, name: str) -> str:
        return os.path.join(self._base, checked_name(name))

    def _open(self, name: str) -> BinaryIO:
        path = self._path(name)
        with _errors("read", path):
            try:
                return open(path, "rb")
            except _MISSING:
                raise ObjectMissing(name, self.uri) from None

    def _place(self, name: str) -> FilePlace:
        return FilePlace(self._path(name), self._spare)

    def _replace(self, name: str, write: WriteContent, size: int) -> None:
        place = self._place(name)
        with _errors("write", place.path, size):
            local_files.replace_file(place, write)


@contextlib.contextmanager
def _errors(verb: str, path: str, size: int | None = None) -> Iterator[None]:
    """Turn errors of the system into one of the five kinds: verb, path, reason, advice. A write has `size` bytes."""
    try:
        yield
    except TidemillError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _UNHOLDABLE:
            raise InvalidInput(
                f"{verb} `{path}`: {reason}; expected a name that the file system accepts, "
                "in a path whose other parts are folders"
            ) from error
        advice = full.advice(error.errno) or _ADVICE.get(error.errno or 0, "check the file system, then run again")
        room = full.space(error.errno, path, size)
        at = error.filename if verb == "list" and isinstance(error.filename, str) else path
        raise StoreUnavailable(f"{verb} `{at}`: {reason}{room}", hint=advice) from error
