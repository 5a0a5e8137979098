"""The cache of opened segments on the machine's own disk, which all processes of a user map into memory.

A run is stored in `<checksum>.run`. `<checksum>.ok` identifies the file whose bytes were all checked, and its
modification time is the time of last use. Files may be deleted at any time. INVARIANT: a failure here is never an
error; the segment is read from the store instead. CRASH: a run is written under a temporary name, with a lock that ends
with its writer, and renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import stat
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from .. import _native
from ..errors import CorruptState

LOG = logging.getLogger("tidemill")

RESERVED_BYTES = 1 << 30
"""Free space that the cache leaves on a disk for other programs."""
LEAST_CACHED_BYTES = 4 << 20
"""Runs below this size are not cached, because decoding them is as fast as looking them up here."""
OTHER_FORMAT = "it has another format"
"""The end of the engine's message for a file that another release wrote. Such a file is not damaged."""
LISTINGS_PER_LIMIT = 32
"""How often the folder is listed while the limit is written once. Other processes write to the folder too, but listing
many files is slow. The folder is also listed when this process knows that the limit is exceeded."""
_RUN = re.compile(r"[0-9a-f]{32}\.run")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.tmp")


class DiskCache:
    """Runs by checksum in a private folder of the user, up to `limit_bytes`. The least recently used is dropped first.

    Processes that write at the same time may exceed the limit, each by 1/32 of it. An empty `folder` means
    `tidemill/segments` below `$XDG_CACHE_HOME` or `~/.cache`.
    """

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self.folder = Path(folder).expanduser() if folder else _default_folder()
        self.limit_bytes = limit_bytes
        self._warned = False
        self._seen_bytes: int | None = None
        self._written_bytes = 0
        self._counting = threading.Lock()

    def get(self, checksum: str, schema: _native.MapSchema) -> _native.Run | None:
        """Return the run with this checksum, or None if the cache does not have it intact."""
        run, ok = self._places(checksum)
        if not self.is_usable(make=False):
            return None
        try:
            # INVARIANT: the mapped file is the file that was checked. Its identity is compared through the open
            # descriptor, because the name may point to another file at any time.
            with _opened(run) as descriptor:
                seen = _identity(descriptor)
                is_checked = seen == _read(ok)
                found = _native.Run.map(schema, descriptor, checksum, verify=not is_checked)
                if is_checked or _identity(descriptor) == seen:
                    _mark(ok, None if is_checked else seen)
                return found
        except CorruptState as error:
            level = logging.INFO if error.message.endswith(OTHER_FORMAT) else logging.WARNING
            LOG.log(level, "disk cache: %s; the file is deleted, and the segment is read from the store", error)
            self._drop(checksum)
        except FileNotFoundError:
            pass
        except OSError as error:
            LOG.info("disk cache: cannot read %s: %s", run, error)
        return None

    def put(self, checksum: str, run: _native.Run) -> _native.Run:
        """Store a run, unless it is small or the disk is full. Return the run, mapped from disk if it was stored."""
        if run.nbytes < LEAST_CACHED_BYTES or run.nbytes > self.limit_bytes or not self.is_usable(make=True):
            return run
        try:
            if not self._places(checksum)[0].exists() and self._has_room(run.nbytes):
                size = self._write(checksum, run)
                with self._counting:
                    self._written_bytes += size
                if self._may_be_full():
                    self._evict(checksum)
        except OSError as error:
            LOG.info("disk cache: cannot store %s: %s", checksum, error)
            return run
        return self.get(checksum, run.schema) or run

    def clear(self) -> None:
        """Remove all runs. Processes that have mapped some keep their mapping. Files of other programs stay."""
        if not self.is_usable(make=False):
            return
        for entry in os.scandir(self.folder):
            if _UNFINISHED.fullmatch(entry.name):
                _delete_unlocked(Path(entry.path))
            elif _RUN.fullmatch(entry.name):
                self._drop(entry.name.partition(".")[0])

    def _write(self, checksum: str, run: _native.Run) -> int:
        """Write the file of a run, and return its size in bytes."""
        unfinished = self.folder / f"{uuid.uuid4().hex}.tmp"
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            run.keep(descriptor, checksum)
            os.fchmod(descriptor, 0o400)  # truncating a mapped file would crash the processes that read it (SIGBUS)
            unfinished.rename(self._places(checksum)[0])
            return os.fstat(descriptor).st_size
        finally:
            unfinished.unlink(missing_ok=True)
            os.close(descriptor)

    def _has_room(self, needed: int) -> bool:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize >= needed + RESERVED_BYTES

    def _may_be_full(self) -> bool:
        """Whether the folder must be listed, because its size is unknown or much was written since the last listing."""
        seen, written = self._seen_bytes, self._written_bytes
        return seen is None or written > self.limit_bytes // LISTINGS_PER_LIMIT or seen + written > self.limit_bytes

    def _evict(self, kept: str) -> None:
        """If runs exceed the limit, delete the least recently used, and some more to make room for the next ones.

        Files that dead writers left are deleted too. Files of other programs stay.
        """
        sizes: dict[str, int] = {}
        for entry in os.scandir(self.folder):
            if _UNFINISHED.fullmatch(entry.name):
                _delete_unlocked(Path(entry.path))
            elif _RUN.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    sizes[entry.name.partition(".")[0]] = entry.stat(follow_symlinks=False).st_size
        total = sum(sizes.values())
        if total > self.limit_bytes:
            for checksum in sorted(sizes, key=self._used):
                if total > self.limit_bytes - self.limit_bytes // LISTINGS_PER_LIMIT and checksum != kept:
                    self._drop(checksum)
                    total -= sizes[checksum]
        with self._counting:
            self._seen_bytes, self._written_bytes = total, 0

    def _used(self, checksum: str) -> float:
        """Return when a run was last used, or 0 if that is unknown."""
        try:
            return self._places(checksum)[1].stat().st_mtime
        except OSError:
            return 0.0

    def _drop(self, checksum: str) -> None:
        for place in self._places(checksum):
            try:
                place.unlink(missing_ok=True)
            except OSError as error:
                LOG.info("disk cache: %s", error)

    def _places(self, checksum: str) -> tuple[Path, Path]:
        return self.folder / f"{checksum}.run", self.folder / f"{checksum}.ok"

    def is_usable(self, make: bool = True) -> bool:
        """Whether the folder exists and is private to the user. It is checked every time; a fault is logged once."""
        try:
            if make:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fault = _fault(self.folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            fault = str(error)
        if fault is not None and not self._warned:
            self._warned = True
            LOG.warning("the disk cache is not used: %s: %s", self.folder, fault)
        return fault is None


def _fault(folder: Path) -> str | None:
    """Return why other users could change the folder, or None if they cannot."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, this process to {os.geteuid()}"
    if found.st_mode & 0o077:
        return f"its mode is {stat.S_IMODE(found.st_mode):o}, expected 700"
    return None


@contextlib.contextmanager
def _opened(run: Path) -> Iterator[int]:
    descriptor = os.open(run, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mark(ok: Path, seen: str | None) -> None:
    """Record that a file was used, or which file was just checked. If that fails, the next use checks it again."""
    try:
        if seen is not None:
            ok.write_text(seen)
        else:
            os.utime(ok)
    except OSError as error:
        LOG.info("disk cache: %s: %s", ok, error)


def _identity(descriptor: int) -> str:
    """Return a text that changes whenever the file changes, and when the machine restarts.

    A crash of the machine may damage files that were not written to disk yet, so all files are checked again after it.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    if found.st_uid != os.geteuid():
        raise OSError(f"it belongs to user {found.st_uid}, this process to {os.geteuid()}")
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return " ".join((_boot(), *map(str, numbers)))


def _boot() -> str:
    """Return the boot id of the system, or the process id if that fails, so that each process checks by itself."""
    return _read(Path("/proc/sys/kernel/random/boot_id")) or str(os.getpid())


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _delete_unlocked(path: Path) -> None:
    """Delete an unfinished file whose writer is dead, which shows in its missing lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError as error:
        LOG.debug("disk cache: %s stays: %s", path, error)
    finally:
        os.close(descriptor)


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(base):
        return Path(base) / "tidemill" / "segments"
    # Without a home directory. Only the last folder is checked, so its parent must be a place where other users can
    # neither rename nor delete it.
    return Path(tempfile.gettempdir()) / f"tidemill-{os.geteuid()}"
