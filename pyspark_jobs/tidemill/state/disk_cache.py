"""Opened segments on the machine's own disk, mapped by all processes of a user: a copy that may vanish at any time.

A run lies in `<checksum>.run`; `<checksum>.ok` says which file that was when all its bytes were checked, and its time
when it was last used. INVARIANT: what goes wrong here is never an error: the segment is read from the store.
CRASH: a run is written under another name, under a lock that dies with its writer, and renamed when it is whole.
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

from .._native import MapSchema, Run
from ..errors import CorruptState

LOG = logging.getLogger("tidemill")

RESERVED_BYTES = 1 << 30
"""So much of a disk is left to others."""
SMALL_BYTES = 4 << 20
"""A smaller run is decoded as fast as it is found here."""
OTHER_FORMAT = "it has another format"
"""How the engine ends what it says of a file that another release kept: nothing is wrong with it."""
LOOKED_AT = 32
"""What others write is not known before the folder is looked at, and that takes its time where many runs lie there: it
is done each time that so large a part of the limit has been written, or the limit is passed."""
_RUN = re.compile(r"[0-9a-f]{32}\.run")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.tmp")


class DiskCache:
    """Runs by checksum in a folder of the user's own, at most `limit_bytes` of them, least recently used out first;
    processes that write at the same time may pass that, each by a part of `LOOKED_AT`.

    An empty `folder` means `tidemill/segments` below `$XDG_CACHE_HOME` or `~/.cache`.
    """

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self.folder = Path(folder).expanduser() if folder else _default_folder()
        self.limit_bytes = limit_bytes
        self._warned = False
        self._seen_bytes: int | None = None
        self._written_bytes = 0
        self._counting = threading.Lock()

    def get(self, checksum: str, schema: MapSchema) -> Run | None:
        """The run that is kept under a checksum; None where there is none, or none that is whole."""
        run, ok = self._places(checksum)
        if not self._is_usable(make=False):
            return None
        try:
            # INVARIANT: the file that is mapped is the one that was checked: the name may get another at any time.
            with _opened(run) as descriptor:
                seen = _identity(descriptor)
                is_checked = seen == _read(ok)
                found = Run.map(schema, descriptor, checksum, verify=not is_checked)
                if is_checked or _identity(descriptor) == seen:
                    _mark(ok, None if is_checked else seen)
                return found
        except CorruptState as error:
            level = logging.INFO if error.message.endswith(OTHER_FORMAT) else logging.WARNING
            LOG.log(level, "the cache on disk: %s; it is deleted, and the segment read from the store", error)
            self._drop(checksum)
        except FileNotFoundError:
            pass
        except OSError as error:
            LOG.info("the cache on disk: %s is not used: %s", run, error)
        return None

    def put(self, checksum: str, run: Run) -> Run:
        """Keeps a run, unless it is small or there is no room. Returns it, as mapped memory where it was kept."""
        if run.nbytes < SMALL_BYTES or run.nbytes > self.limit_bytes or not self._is_usable(make=True):
            return run
        try:
            if not self._places(checksum)[0].exists() and self._has_room(run.nbytes):
                size = self._write(checksum, run)
                with self._counting:
                    self._written_bytes += size
                if self._may_be_full():
                    self._evict(checksum)
        except OSError as error:
            LOG.info("the cache on disk: %s is not kept: %s", checksum, error)
            return run
        return self.get(checksum, run.schema) or run

    def _write(self, checksum: str, run: Run) -> int:
        """Bytes of the file."""
        unfinished = self.folder / f"{uuid.uuid4().hex}.tmp"
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            run.keep(descriptor, checksum)
            os.fchmod(descriptor, 0o400)  # who shortens a file that is mapped ends the processes that read it
            unfinished.rename(self._places(checksum)[0])
            return os.fstat(descriptor).st_size
        finally:
            unfinished.unlink(missing_ok=True)
            os.close(descriptor)

    def _has_room(self, needed: int) -> bool:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize >= needed + RESERVED_BYTES

    def _may_be_full(self) -> bool:
        """Whether the folder must be looked at: never so far, or not since much was written."""
        seen, written = self._seen_bytes, self._written_bytes
        return seen is None or written > self.limit_bytes // LOOKED_AT or seen + written > self.limit_bytes

    def _evict(self, kept: str) -> None:
        """Where runs pass the limit, deletes what was used longest ago, and some more, so that the next ones find room.
        Deletes what dead writers left. Foreign files stay."""
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
                if total > self.limit_bytes - self.limit_bytes // LOOKED_AT and checksum != kept:
                    self._drop(checksum)
                    total -= sizes[checksum]
        with self._counting:
            self._seen_bytes, self._written_bytes = total, 0

    def _used(self, checksum: str) -> float:
        """When a run was last used; 0 where nobody knows."""
        try:
            return self._places(checksum)[1].stat().st_mtime
        except OSError:
            return 0.0

    def _drop(self, checksum: str) -> None:
        for place in self._places(checksum):
            try:
                place.unlink(missing_ok=True)
            except OSError as error:
                LOG.info("the cache on disk: %s", error)

    def _places(self, checksum: str) -> tuple[Path, Path]:
        return self.folder / f"{checksum}.run", self.folder / f"{checksum}.ok"

    def _is_usable(self, make: bool) -> bool:
        """Whether the folder is the user's alone: looked at every time, and told once where it is not."""
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
            LOG.warning("the cache on disk is not used: %s: %s", self.folder, fault)
        return fault is None


def _fault(folder: Path) -> str | None:
    """Why others could have a hand in a folder; None: they cannot."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
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
    """Notes when a file was used, or which one was just checked; where it cannot, that is checked again next time."""
    try:
        if seen is not None:
            ok.write_text(seen)
        else:
            os.utime(ok)
    except OSError as error:
        LOG.info("the cache on disk: %s: %s", ok, error)


def _identity(descriptor: int) -> str:
    """What changes with the file, whoever changes it, and with each start of the machine: a crash may tear files."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is no file")
    if found.st_uid != os.geteuid():
        raise OSError(f"it belongs to user {found.st_uid}, this process to {os.geteuid()}")
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return " ".join((_boot(), *map(str, numbers)))


def _boot() -> str:
    """The running system's id; where there is none, the process's, so that each process checks for itself."""
    return _read(Path("/proc/sys/kernel/random/boot_id")) or str(os.getpid())


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _delete_unlocked(path: Path) -> None:
    """Deletes what a writer left that is dead: its lock went with it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError as error:
        LOG.debug("the cache on disk: %s stays: %s", path, error)
    finally:
        os.close(descriptor)


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(base):
        return Path(base) / "tidemill" / "segments"
    # There is no home. Only the last folder is looked at, so it lies where others can neither rename nor delete it.
    return Path(tempfile.gettempdir()) / f"tidemill-{os.geteuid()}"
