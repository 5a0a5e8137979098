"""Lists the files below a folder in the order in which S3 lists objects.

Only reads. INVARIANT: names are ordered by the bytes of the full name (`a-b` before `a/b` before `a0`), and memory
holds at most one folder for each level, of which only the names that were asked for. The system returns every name of a
folder, so that a prefix saves sorting, but no reading.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from ..values import dataclass
from .contract import TEMPORARY, Enters, ListedObject, Skipped, checked_prefix

_Folders = tuple[tuple[int, int], ...]


def walk(
    base: str, uri: str, prefix: str, start_after: str | None, enters: Enters | None = None
) -> Iterator[ListedObject]:
    """Yield the files below the folder `base` whose name begins with `prefix` and is after `start_after`.

    Links are followed, also those that lead out of `base`. A link to nothing is skipped, and so is one to a folder
    above itself, also above `base`, with a warning. `enters` decides which folders are read.
    """
    above, slash, _ = checked_prefix(prefix).rpartition("/")
    with contextlib.closing(Skipped(uri)) as skipped:
        made = _Walk(base, prefix, _bytes(start_after or ""), skipped, enters or _everywhere)
        yield from _folder(made, above + slash, (*_around(base), *_above(base, above)))


def entry(name: str, found: os.stat_result) -> ListedObject:
    """Return the entry of a file."""
    return ListedObject(name, found.st_size, f"{found.st_size}-{found.st_mtime_ns}", found.st_mtime_ns // 1_000_000)


@dataclass(frozen=True)
class _Walk:
    base: str
    prefix: str
    after: bytes
    skipped: Skipped
    enters: Enters

    def wants(self, name: str, key: bytes, is_folder: bool) -> bool:
        """Return whether the file is wanted, or the folder may hold a wanted file."""
        if not is_folder:
            return name.startswith(self.prefix) and key > self.after
        inside = name.startswith(self.prefix) or self.prefix.startswith(name)
        return inside and (key > self.after or self.after.startswith(key)) and self.enters(name)


def _folder(walk: _Walk, name: str, above: _Folders) -> Iterator[ListedObject]:
    """Yield the files of the folder `name`, which is empty or ends with `/`, and of the folders below it."""
    for key, item in _children(walk, name):
        full = os.fsdecode(key)
        if full.endswith("/"):
            identity = _identity(item)
            if identity in above:
                walk.skipped.loops(full)
            else:
                yield from _folder(walk, full, (*above, identity))
            continue
        found = _stat(item)
        if found is not None and stat.S_ISREG(found.st_mode) and not walk.skipped.has(full):
            yield entry(full, found)


def _children(walk: _Walk, name: str) -> list[tuple[bytes, os.DirEntry[str]]]:
    """Return the wanted items of a folder, sorted by full name. Names of folders end with `/`, as their files sort."""
    found: list[tuple[bytes, os.DirEntry[str]]] = []
    try:
        with os.scandir(os.path.join(walk.base, name)) as items:
            for item in items:
                full = name + item.name
                if item.name == TEMPORARY or not (full.startswith(walk.prefix) or walk.prefix.startswith(full)):
                    continue
                is_folder = _is_folder(item)
                full += "/" if is_folder else ""
                key = _bytes(full)
                if walk.wants(full, key, is_folder):
                    found.append((key, item))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda pair: pair[0])


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()  # needs no request to the system, except for a link
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def _stat(item: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return item.stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):  # deleted meanwhile, or a link to nothing or to itself
            raise
        return None


def _above(base: str, name: str) -> _Folders:
    """Return the identities of `base` and of the folders of `name` below it, as far as they are there."""
    paths = [base]
    for part in filter(None, name.split("/")):
        paths.append(os.path.join(paths[-1], part))
    found: list[tuple[int, int]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in paths:
            status = os.stat(path)
            found.append((status.st_dev, status.st_ino))
    return tuple(found)


def _around(base: str) -> _Folders:
    """Return the identities of the folders above `base`."""
    found: list[tuple[int, int]] = []
    folder = os.path.dirname(os.path.realpath(base))
    while folder != os.path.dirname(folder):
        with contextlib.suppress(OSError):
            status = os.stat(folder)
            found.append((status.st_dev, status.st_ino))
        folder = os.path.dirname(folder)
    return tuple(found)


def _identity(item: os.DirEntry[str]) -> tuple[int, int]:
    """Return what two names of one folder have in common; (0, 0) if it was deleted meanwhile."""
    found = _stat(item)
    return (0, 0) if found is None else (found.st_dev, found.st_ino)


def _everywhere(folder: str) -> bool:
    del folder
    return True


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
