"""A store in the memory of this process, for tests and for pipelines that need not last.

Each name has one dict, shared by all who open `memory://name` in this process. INVARIANT: the store never crosses a
process boundary. A copy that arrives in another process raises an error, instead of being silently empty.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import field

from .. import clock
from ..errors import InvalidInput
from ..values import dataclass
from .contract import (
    Enters,
    ListedObject,
    ObjectMissing,
    Store,
    check_range,
    checked_name,
    checked_prefix,
    get_unchanged,
    read_then_stat,
)


@dataclass
class _Objects:
    lock: threading.Lock = field(default_factory=threading.Lock)
    content: dict[str, tuple[bytes, ListedObject]] = field(default_factory=dict)


_opened: dict[str, _Objects] = {}
_opening = threading.Lock()


def open_memory(name: str, prefix: str = "") -> MemoryStore:
    """Return the memory store of that name in this process; make it if it is new."""
    with _opening:
        return MemoryStore(name, _opened.setdefault(name, _Objects()), prefix)


class MemoryStore:
    """Objects in a dict with a lock. Keeps every guarantee of `Store`, except that it ends with the process."""

    def __init__(self, name: str, objects: _Objects, prefix: str = "") -> None:
        self._name = name
        self._objects = objects
        self._prefix = prefix

    @property
    def uri(self) -> str:
        """`memory://name` and the prefix."""
        return f"memory://{self._name}/{self._prefix}".rstrip("/")

    @property
    def lists_after(self) -> bool:
        """True, because nothing is requested."""
        return True

    @property
    def requests_at_once(self) -> int:
        """1, because nothing waits for an answer."""
        return 1

    def clock_ms(self) -> int | None:
        """Return None, because the clock is this machine's."""
        return None

    def __repr__(self) -> str:
        return f"MemoryStore({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (os.getpid(), self._name, self._prefix)

    def get(self, name: str) -> bytes:
        """Return the stored bytes."""
        return self._find(name)[0]

    def read(self, name: str) -> tuple[bytes, ListedObject]:
        """Read, then ask for the entry."""
        return read_then_stat(self, name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Return a slice of the stored bytes."""
        check_range(start, length)
        return self._find(name)[0][start : start + length]

    def put(self, name: str, data: bytes) -> str | None:
        """Replace the object."""
        with self._objects.lock:
            return self._store(self._full(name), data)

    def put_hint(self, name: str, data: bytes) -> None:
        """Same as `put`, because memory is never torn."""
        self.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Check and store under one lock."""
        full = self._full(name)
        with self._objects.lock:
            if full in self._objects.content:
                return False
            self._store(full, data)
            return True

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """Store the same bytes under another name."""
        return self.copy_from(self, source, target, etag)

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Read from `origin`, store here."""
        return self.put(target, get_unchanged(origin, source, etag))

    def copies_from(self, origin: Store) -> bool:
        """Return whether `origin` is a memory store, whose ETags are digests of the content."""
        return isinstance(origin, MemoryStore)

    def list(
        self, prefix: str = "", start_after: str | None = None, enters: Enters | None = None
    ) -> Iterator[ListedObject]:
        """Yield a sorted snapshot of the names."""
        del enters
        base = len(self._prefix)
        wanted = self._prefix + checked_prefix(prefix)
        with self._objects.lock:
            found = [entry for full, (_, entry) in self._objects.content.items() if full.startswith(wanted)]
        for entry in sorted(found, key=lambda entry: entry.name.encode()):
            name = entry.name[base:]
            if start_after is None or name.encode() > start_after.encode():
                yield ListedObject(name, entry.size, entry.etag, entry.modified_ms)

    def stat(self, name: str) -> ListedObject | None:
        """Return the entry; its etag is a digest of the content."""
        with self._objects.lock:
            found = self._objects.content.get(self._full(name))
        return None if found is None else ListedObject(name, found[1].size, found[1].etag, found[1].modified_ms)

    def delete(self, name: str) -> None:
        """Delete the object."""
        with self._objects.lock:
            self._objects.content.pop(self._full(name), None)

    def delete_many(self, names: Iterable[str]) -> None:
        """Delete the objects under one lock."""
        full = [self._full(name) for name in names]
        with self._objects.lock:
            for name in full:
                self._objects.content.pop(name, None)

    def at(self, prefix: str) -> MemoryStore:
        """Return the same objects with `prefix` as the root."""
        return MemoryStore(self._name, self._objects, self._full(prefix.rstrip("/")) + "/")

    def local_path(self, name: str) -> str | None:
        """Return None, because objects are not files."""
        checked_name(name)
        return None

    def _full(self, name: str) -> str:
        return self._prefix + checked_name(name)

    def _find(self, name: str) -> tuple[bytes, ListedObject]:
        with self._objects.lock:
            found = self._objects.content.get(self._full(name))
        if found is None:
            raise ObjectMissing(name, self.uri)
        return found

    def _store(self, full: str, data: bytes) -> str:
        data = bytes(data)
        etag = hashlib.blake2b(data, digest_size=16).hexdigest()
        self._objects.content[full] = (data, ListedObject(full, len(data), etag, clock.now_ms()))
        return etag


def _reopen(process: int, name: str, prefix: str) -> MemoryStore:
    if process != os.getpid():
        raise InvalidInput(
            f"open `memory://{name}` in another process: found process {os.getpid()}, expected {process}, "
            "because a memory store exists in one process only",
            hint="use a folder or `s3://`",
        )
    return open_memory(name, prefix)
