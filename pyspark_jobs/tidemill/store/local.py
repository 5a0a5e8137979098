"""A store in a folder of this machine, or of a mounted file system.

Data is written to a temporary file under the root's `.tmp` first. `create` links the file to its name; other writes
rename it. CRASH: file, link and folders are fsynced before `put`, `create` and `copy` return. A temporary file that a
dead process left is never listed and never read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO
from urllib.parse import quote

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from .contract import TEMPORARY, Entry, ObjectMissing, ObjectReplaced, Store, check_range, checked, get_unchanged
from .walk import entry, walk

_DURABLE: set[str] = {os.sep, ""}
"""Folders whose own directory entries are known to be on disk."""
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_UNHOLDABLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ, errno.ELOOP)
_ADVICE = {
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "free space or raise the quota",
    errno.EACCES: "give this user access to the folder",
    errno.EPERM: "give this user access to the folder",
    errno.EROFS: "mount the file system for writing, or choose another root",
    errno.EIO: "check the disk",
}


class LocalStore:
    """Files below a folder, which the first write creates. The etag is `<size>-<mtime_ns>`."""

    def __init__(self, root: str, prefix: str = "") -> None:
        self._root = root
        self._prefix = prefix
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

    def clock_ms(self) -> int | None:
        """Return None: a folder has no clock that could be asked."""
        return None

    def __repr__(self) -> str:
        return f"LocalStore({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStore, (self._root, self._prefix)

    def get(self, name: str) -> bytes:
        """Read the file."""
        with self._open(name) as file, _errors("read", file.name):
            return file.read()

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Seek and read."""
        check_range(start, length)
        with self._open(name) as file, _errors("read", file.name):
            file.seek(start)
            return file.read(length)

    def put(self, name: str, data: bytes) -> str | None:
        """Write and fsync a temporary file, then rename it."""
        self._replace(name, lambda file: file.write(data))
        return None

    def put_hint(self, name: str, data: bytes) -> None:
        """Write and rename a temporary file without fsync, so the file system may lose it."""
        path = self._path(name)
        with _errors("write", path), self._temporary(lambda file: file.write(data), sync=False) as temporary:
            _into_folder(path, lambda: os.replace(temporary, path), sync=False)

    def create(self, name: str, data: bytes) -> bool:
        """Write and fsync a temporary file, then link it to its name; the system refuses that if the name is taken."""
        path = self._path(name)
        with _errors("create", path), self._temporary(lambda file: file.write(data), sync=True) as temporary:
            try:
                _into_folder(path, lambda: _link(temporary, path), sync=True)
                return True
            except FileExistsError:
                if os.path.isdir(path):
                    raise
                # A network file system may have made the link and lost the answer. Then our file has two names.
                ours = os.stat(temporary).st_nlink > 1
                sync_folder(os.path.dirname(path))  # the winner may not have fsynced yet
                return ours

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy by `put` from the other file."""
        return self.copy_from(self, source, target, etag)

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy by `put` from a file, or from an object of another kind of store."""
        if not isinstance(origin, LocalStore):
            return self.put(target, get_unchanged(origin, source, etag))
        with origin._open(source) as file:
            if etag is not None and entry(source, os.fstat(file.fileno())).etag != etag:
                raise ObjectReplaced(source, origin.uri, etag)
            self._replace(target, lambda copy: shutil.copyfileobj(file, copy, 1 << 20))
        return None

    def copies_from(self, origin: Store) -> bool:
        """Return False: the bytes of a copy pass through this process, and no ETag identifies them."""
        del origin
        return False

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Entry]:
        """Walk the folders in the order of names, except `.tmp`."""
        with _errors("list", self._base):
            yield from walk(self._base, self.uri, prefix, start_after)

    def stat(self, name: str) -> Entry | None:
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
        for name in [checked(name) for name in names]:
            self.delete(name)

    def at(self, prefix: str) -> LocalStore:
        """Return the folder below as a store, with the same `.tmp`."""
        return LocalStore(self._root, f"{self._prefix}{checked(prefix.rstrip('/'))}/")

    def local_path(self, name: str) -> str | None:
        """Return the path of the file."""
        return self._path(name)

    def _path(self, name: str) -> str:
        return os.path.join(self._base, checked(name))

    def _open(self, name: str) -> BinaryIO:
        path = self._path(name)
        with _errors("read", path):
            try:
                return open(path, "rb")
            except _MISSING:
                raise ObjectMissing(name, self.uri) from None

    def _replace(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        path = self._path(name)
        with _errors("write", path), self._temporary(write, sync=True) as temporary:
            _into_folder(path, lambda: os.replace(temporary, path), sync=True)

    @contextlib.contextmanager
    def _temporary(self, write: Callable[[BinaryIO], object], *, sync: bool) -> Iterator[str]:
        """Yield the path of a new file that `write` filled. It is deleted afterwards unless it was renamed."""
        folder = os.path.join(self._root, TEMPORARY)
        path = os.path.join(folder, f"{os.getpid()}-{uuid.uuid4().hex}")
        try:
            with _new_file(folder, path) as file:
                write(file)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            yield path
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _new_file(folder: str, path: str) -> BinaryIO:
    try:
        return open(path, "xb")
    except FileNotFoundError:
        _make_folder(folder)
        return open(path, "xb")


def _into_folder(path: str, act: Callable[[], None], *, sync: bool) -> None:
    """Call `act`, which puts a file at `path`, and make missing parent folders."""
    folder = os.path.dirname(path)
    try:
        act()
    except FileNotFoundError:
        _make_folder(folder)
        act()
    if sync:
        sync_folder(folder)
        _sync_above(folder)


def _sync_above(folder: str) -> None:
    """CRASH: another process may have made these folders without having fsynced their parents, so do that once."""
    while folder not in _DURABLE:
        _DURABLE.add(folder)
        folder = os.path.dirname(folder)
        with contextlib.suppress(PermissionError):  # a system folder, which existed before
            sync_folder(folder)


def _make_folder(folder: str) -> None:
    """CRASH: a new folder is durable only after its parent is fsynced, so fsync the parent of each new folder."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    _make_folder(above)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    sync_folder(above)
    _DURABLE.add(folder)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames and links in the folder survive a loss of power, if its file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems do not support fsync of a folder
            raise
    finally:
        os.close(descriptor)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise InvalidInput(
                f"create `{target}`: the file system refuses hard links ({error.strerror}), without which two "
                "writers could both create this object",
                hint="choose a root on another file system, or `s3://`",
            ) from error
        raise


@contextlib.contextmanager
def _errors(verb: str, path: str) -> Iterator[None]:
    """Turn errors of the system into one of the five kinds: verb, path, reason, advice."""
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
        advice = _ADVICE.get(error.errno or 0, "check the file system, then run again")
        raise StoreUnavailable(f"{verb} `{path}`: {reason}", hint=advice) from error
