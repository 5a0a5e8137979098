"""How a file of a local store gets its name: it is written without one, then linked to it, and made durable.

A file without a name (`O_TMPFILE`) is visible to no reader, and the system frees it when the process dies. Writes that
replace a file, and file systems without such files, need a temporary name in another folder. INVARIANT: no name in a
folder of objects ever belongs to a part of a file. CRASH: the content is fsynced before the name is given, the folders
afterwards; `leftovers` deletes temporary files of dead processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

from ..errors import InvalidInput
from ..values import dataclass
from . import leftovers

WriteContent = Callable[[BinaryIO], object]
_Result = TypeVar("_Result")

_DURABLE: set[str] = {os.sep, ""}
"""Folders whose own directory entries are known to be on disk."""
_OPEN_FILES = "/proc/self/fd"
_UNNAMED = getattr(os, "O_TMPFILE", 0) if os.path.isdir(_OPEN_FILES) else 0
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_UNUSABLE = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
_MAKE_TRIES = 20


@dataclass(frozen=True)
class FilePlace:
    """The path that a file shall have, and the folders for temporary names, best first. The last one always serves."""

    path: str
    spare: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of the path."""
        return os.path.dirname(self.path)


def create(place: FilePlace, write: WriteContent) -> bool:
    """Give the path to a new, durable file that `write` fills. Return False if the path already has a file."""
    try:
        with _unnamed(place, write) as file:
            if file is None:
                made = _through_spare(place, lambda path: _write_named(path, write, sync=True), _link_named)
            else:
                made = _link_unnamed(file, place.path)
    except _LinkRefused as error:
        raise InvalidInput(
            f"create `{place.path}`: the file system refuses hard links ({error.strerror}), without which two "
            "writers could both create this object",
            hint="choose a root on another file system, or `s3://`",
        ) from error
    _sync(place.folder)  # also if another writer won, because it may not have fsynced yet
    return made


def replace_file(place: FilePlace, write: WriteContent) -> None:
    """Give the path to a durable file that `write` fills, in place of any file that is there."""
    with _unnamed(place, write) as file:
        if file is None:
            _through_spare(place, lambda path: _write_named(path, write, sync=True), os.replace)
        elif not _link_unnamed(file, place.path, may_be_folder=True):
            _through_spare(place, lambda path: _link_unnamed(file, path), os.replace)
    _sync(place.folder)


def replace_hint(place: FilePlace, write: WriteContent) -> None:
    """Like `replace_file`, but the file system may lose the file."""
    _make_folder(place.folder)
    _through_spare(place, lambda path: _write_named(path, write, sync=False), os.replace)


class _LinkRefused(OSError):
    """The file system does not make this hard link."""


@contextlib.contextmanager
def _unnamed(place: FilePlace, write: WriteContent) -> Iterator[BinaryIO | None]:
    """Yield a file without a name that `write` filled, or None if the file system has no such files."""
    _make_folder(place.folder)
    descriptor = _open_unnamed(place.folder)
    if descriptor is None:
        yield None
        return
    with open(descriptor, "wb") as file:
        _fill(file, write, sync=True)
        yield file


def _open_unnamed(folder: str) -> int | None:
    if not _UNNAMED:
        return None
    try:
        return os.open(folder, _UNNAMED | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NO_UNNAMED:
            return None
        raise


def _link_unnamed(file: BinaryIO, path: str, *, may_be_folder: bool = False) -> bool:
    """Give a file its name. Return False if there is another file, or with `may_be_folder` anything else."""
    descriptor = file.fileno()
    try:
        # `src_dir_fd` makes Python call linkat, which follows the link to the open file.
        _refusing(lambda: os.link(f"{_OPEN_FILES}/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True))
        return True
    except FileExistsError:
        if os.path.isdir(path) and not may_be_folder:
            raise
        return os.fstat(descriptor).st_nlink > 0


def _link_named(temporary: str, path: str) -> bool:
    try:
        _refusing(lambda: os.link(temporary, path))
        return True
    except FileExistsError:
        if os.path.isdir(path):
            raise
        # A network file system may have made the link and lost the answer. Then our file has two names.
        return os.stat(temporary).st_nlink > 1


def _refusing(link: Callable[[], None]) -> None:
    try:
        link()
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise _LinkRefused(error.errno, error.strerror) from error
        raise


def _through_spare(place: FilePlace, make: Callable[[str], object], act: Callable[[str, str], _Result]) -> _Result:
    """Call `make` for a temporary path, then `act` for this and the final path, in the first folder that can be used.

    The temporary file is deleted afterwards unless it was renamed.
    """
    *better, last = place.spare
    for folder in better:
        try:
            if os.stat(os.path.dirname(folder)).st_dev == os.stat(place.folder).st_dev:
                return _through(folder, place.path, make, act)
        except OSError as error:
            if error.errno not in _UNUSABLE:
                raise
    return _through(last, place.path, make, act)


def _through(folder: str, path: str, make: Callable[[str], object], act: Callable[[str, str], _Result]) -> _Result:
    leftovers.delete(folder)
    temporary = os.path.join(folder, leftovers.new_name())
    try:
        _make_in(folder, lambda: make(temporary))
        return act(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _make_in(folder: str, make: Callable[[], object]) -> None:
    """Call `make` after making the folder, which another writer deletes whenever it is empty."""
    for _ in range(_MAKE_TRIES):
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            make()
            return
    make()


def _write_named(path: str, write: WriteContent, *, sync: bool) -> None:
    with open(path, "xb") as file:
        _fill(file, write, sync=sync)


def _fill(file: BinaryIO, write: WriteContent, *, sync: bool) -> None:
    write(file)
    file.flush()
    if sync:
        os.fsync(file.fileno())


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
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
    sync_folder(above)
    _DURABLE.add(folder)


def _sync(folder: str) -> None:
    """CRASH: another process may have made these folders without having fsynced their parents, so do that once."""
    sync_folder(folder)
    while folder not in _DURABLE:
        _DURABLE.add(folder)
        folder = os.path.dirname(folder)
        with contextlib.suppress(PermissionError):  # a system folder, which existed before
            sync_folder(folder)


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
