"""The contract of a store: what every backend guarantees, and what the protocol may rely on.

No backend is here. Names are relative to the store's root, with parts joined by `/`, and are ordered by their UTF-8
bytes. INVARIANT: exactly one `create` of a name succeeds, and no reader ever sees part of an object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Protocol

from .. import names
from ..errors import CorruptState, InvalidInput
from ..values import dataclass
from ..visible import visible

LOG = logging.getLogger("tidemill")

TEMPORARY = ".tmp"
"""The folder in which a local store writes files that replace others. No name may contain it."""


Enters = Callable[[str], bool]
"""Whether a listing needs the objects in a folder, whose name ends with `/`."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a listing. `etag` changes whenever the content does; `modified_ms` is by the store's clock."""

    name: str
    size: int
    etag: str
    modified_ms: int


class ObjectMissing(LookupError):
    """The store `uri` has no object `name`. Internal: callers turn it into one of the five kinds of error."""

    def __init__(self, name: str, uri: str) -> None:
        super().__init__(name, uri)
        self.name = name
        self.uri = uri

    def __str__(self) -> str:
        return f"no object `{self.name}` in `{self.uri}`"


class ObjectReplaced(Exception):
    """The object `name` in the store `uri` is not the one that was expected. Internal, as `ObjectMissing`."""

    def __init__(self, name: str, uri: str, expected: str) -> None:
        super().__init__(name, uri, expected)
        self.name = name
        self.uri = uri
        self.expected = expected

    def __str__(self) -> str:
        return f"the object `{self.name}` in `{self.uri}` was replaced: expected the ETag `{self.expected}`"


class Store(Protocol):
    """Objects by name. Safe for threads. Can be pickled, but the memory store only within its process.

    Every method raises `StoreUnavailable` if the store did not answer, is full or refused the credentials. It raises
    `InvalidInput` if the store cannot do what is asked, for example if the bucket is missing or a name is too long.
    """

    @property
    def uri(self) -> str:
        """The place of the store: `s3://bucket/prefix`, `file:///dir`, `memory://name`. Holds no secrets."""

    @property
    def lists_after(self) -> bool:
        """Whether a listing after a name costs one request, however many objects are before that name.

        True for S3 and memory. False for folders, which are read whole before their names can be sorted.
        """

    @property
    def requests_at_once(self) -> int:
        """How many requests one caller should make at once; see `side_by_side`. 1 if that saves no time.

        Above 1 for S3, where a request is mostly waiting. 1 for memory and folders.
        """

    def clock_ms(self) -> int | None:
        """Return the time by the store's own clock, to the second, in ms since the epoch. Sends no request.

        It is the date of the last answer plus the time since. None if the store has no clock of its own, such as a
        folder, or if it has not answered this process yet; `probe` makes it answer.
        """

    def get(self, name: str) -> bytes:
        """Return the whole object, as one write left it. Raises `ObjectMissing` if there is none."""

    def read(self, name: str) -> tuple[bytes, ListedObject]:
        """Return the bytes of the object and its entry. Raise `ObjectMissing` if the object does not exist.

        On S3 one request has both. Elsewhere the entry is asked for after the bytes were read.
        """

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Return bytes `start` to `start + length`, or fewer if the object ends before. Raises `ObjectMissing`."""

    def put(self, name: str, data: bytes) -> str | None:
        """Write or overwrite an object, whole or not at all. It is durable on return.

        Returns the ETag of what was written, which a listing shows too. None if the store's ETags do not identify
        content, as in a folder; compare checksums there.
        """

    def put_hint(self, name: str, data: bytes) -> None:
        """Like `put`, but a crash may lose it or leave garbage under the name. Use it only for hints."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the object, whole or not at all, only if the name is free. Return whether this call wrote it.

        True: this call wrote the object, and it is durable. False: the name is taken, by another writer or an earlier
        attempt. `StoreUnavailable`: the outcome is unknown, and the write may still complete; read the object back.
        """

    def copy(self, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy `source` to `target`, whole or not at all, overwriting it; durable. Returns the ETag as `put` does.

        With `etag`, only an object with this ETag is copied. Raises `ObjectMissing`, and `ObjectReplaced` if the
        object has another ETag; then nothing is written.
        """

    def copy_from(self, origin: Store, source: str, target: str, etag: str | None = None) -> str | None:
        """Copy from another store, as `copy`."""

    def copies_from(self, origin: Store) -> bool:
        """Whether `copy_from` moves no bytes through this process, as between S3 stores with the same options.

        The ETag of such a copy is checked in the same step. Otherwise read, compare checksums and `put`.
        """

    def list(
        self, prefix: str = "", start_after: str | None = None, enters: Enters | None = None
    ) -> Iterator[ListedObject]:
        """Yield every object whose name begins with `prefix` and is after `start_after`, in the order of names.

        Objects that are written or deleted during the listing may be missing from it. All others appear exactly once.
        A local folder for which `enters` returns False is not read; other stores list its objects, too.
        """

    def stat(self, name: str) -> ListedObject | None:
        """Return the entry of one object, or None if there is none."""

    def delete(self, name: str) -> None:
        """Delete the object; do nothing if there is none."""

    def delete_many(self, names: Iterable[str]) -> None:
        """Delete the objects, 1,000 in a request on S3; skip those that are missing.

        All names are checked first. After an error some objects may be deleted and others not; the call can be
        repeated.
        """

    def at(self, prefix: str) -> Store:
        """Return the same store with the folder `prefix` as its root."""

    def local_path(self, name: str) -> str | None:
        """Return the local path of an object, whether or not it exists, or None if objects are not files."""


def read_then_stat(store: Store, name: str) -> tuple[bytes, ListedObject]:
    """Return an object and its entry, which is asked for after the bytes were read."""
    data, entry = store.get(name), store.stat(name)
    if entry is None:
        raise ObjectMissing(name, store.uri)
    return data, entry


def get_unchanged(origin: Store, name: str, etag: str | None) -> bytes:
    """Read an object to copy it. Raises `ObjectReplaced` if it does not have this ETag after it was read."""
    data = origin.get(name)
    if etag is not None:
        found = origin.stat(name)
        if found is None or found.etag != etag:
            raise ObjectReplaced(name, origin.uri, etag)
    return data


def checked_name(name: str) -> str:
    """Return `name` if it is valid. Raises `CorruptState` if it would leave the store, `InvalidInput` if reserved."""
    names.inside(name)
    if TEMPORARY in name.split("/") or "\0" in name:
        raise InvalidInput(f"the object name {name!r} is not allowed: expected no part `{TEMPORARY}` and no NUL")
    return name


def checked_prefix(prefix: str) -> str:
    """Return `prefix` if names can begin with it. Raises as `checked` otherwise."""
    above = prefix.rpartition("/")[0]
    if above or prefix.startswith("/"):
        checked_name(above)
    return prefix


class Skipped:
    """What one listing skips: names that no store can address, and links that have no end.

    One file must not stop a pipeline. A warning says how many names there are. It comes once for each folder or prefix,
    because listings are frequent.
    """

    _warned: ClassVar[set[object]] = set()

    def __init__(self, uri: str) -> None:
        self._uri, self._count, self._first = uri, 0, ""

    def has(self, name: str) -> bool:
        """Return whether a name from the listing is skipped."""
        try:
            name.encode()
            names.inside(name)
            return False
        except (CorruptState, UnicodeEncodeError):
            self._first = self._first or name
            self._count += 1
            return True

    def loops(self, folder: str) -> None:
        """Skip a folder that is a link to a folder above it. Its files are listed under their first names."""
        if (self._uri, folder) not in self._warned:
            self._warned.add((self._uri, folder))
            LOG.warning(
                "list `%s`: the folder `%s` is skipped, because it is a link to a folder above itself; remove the link",
                self._uri, visible(folder),
            )  # fmt: skip

    def close(self) -> None:
        """Log the warning, if some name was skipped."""
        if self._count and self._uri not in self._warned:
            self._warned.add(self._uri)
            objects = "1 object is" if self._count == 1 else f"{self._count:,} objects are"
            LOG.warning(
                "list `%s`: %s skipped, because no store can address the name, for example %r: expected UTF-8, no "
                "backslash, and no part that is empty, `.` or `..`; rename what is data",
                self._uri, objects, self._first,
            )  # fmt: skip


def check_range(start: int, length: int) -> None:
    """Raise `InvalidInput` for a negative start or length."""
    if start < 0 or length < 0:
        raise InvalidInput(f"read a range of an object: start {start}, length {length}; expected both at least 0")
