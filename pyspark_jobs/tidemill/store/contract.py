"""The contract of a store: what every backend guarantees, and what the protocol may rely on.

No backend lives here. Names are relative to where the store was opened, parts joined by `/`; order is that of
their UTF-8 bytes. INVARIANT: `create` has exactly one winner a name, and no reader ever sees a part of an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from .. import names
from ..errors import CorruptState, InvalidInput

TEMPORARY = ".tmp"
"""The folder in which a local store writes before it links or renames; in no store a part of a name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it. `etag` changes whenever the content does; `modified_ms` is the store's clock."""

    name: str
    size: int
    etag: str
    modified_ms: int


class ObjectMissing(LookupError):
    """There is no object `name` in the store `uri`. Internal: callers turn it into one of the five kinds."""

    def __init__(self, name: str, uri: str) -> None:
        super().__init__(name, uri)
        self.name = name
        self.uri = uri

    def __str__(self) -> str:
        return f"no object `{self.name}` in `{self.uri}`"


class Store(Protocol):
    """Objects by name. Safe for threads; can be pickled (the memory store only within its process).

    Every method raises `StoreUnavailable` where the store did not answer, is full or refused the credentials, and
    `InvalidInput` where it cannot hold what is asked of it (no such bucket, a name that is too long).
    """

    @property
    def uri(self) -> str:
        """Where it is: `s3://bucket/prefix`, `file:///dir`, `memory://name`. Holds no secrets."""

    def get(self, name: str) -> bytes:
        """The whole object, as one write left it; `ObjectMissing` if there is none."""

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer or none where the object ends before; `ObjectMissing`."""

    def put(self, name: str, data: bytes) -> None:
        """Writes or overwrites, whole or not at all; durable when it returns."""

    def put_hint(self, name: str, data: bytes) -> None:
        """Like `put`, but a crash may lose it or leave garbage under the name: for what is never believed."""

    def create(self, name: str, data: bytes) -> bool:
        """Writes only if the name is free, whole or not at all, and says whether this call did.

        True: the object is ours, and durable. False: the name is taken, by somebody else or by an earlier try.
        `StoreUnavailable`: unknown. The object may be there, or come later; read it back.
        """

    def copy(self, source: str, target: str) -> None:
        """Makes `target` what `source` is, whole or not at all, overwriting; durable; `ObjectMissing`."""

    def copy_from(self, origin: Store, source: str, target: str) -> None:
        """`copy` from another store. Server side where both are S3 with the same options."""

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Entry]:
        """Every object whose name begins with `prefix`, in the order of names, after the name `start_after`.

        Objects that come or go meanwhile may or may not be seen; all others are seen exactly once.
        """

    def stat(self, name: str) -> Entry | None:
        """The entry of one object; None if there is none."""

    def delete(self, name: str) -> None:
        """Removes the object; nothing happens if there is none."""

    def at(self, prefix: str) -> Store:
        """The same store seen from the folder `prefix`."""

    def local_path(self, name: str) -> str | None:
        """The path of an object on this machine, whether or not it exists; None where objects are no files."""


def checked(name: str) -> str:
    """`name` if a store may use it; `CorruptState` if it would leave the store, `InvalidInput` if it is reserved."""
    names.inside(name)
    if TEMPORARY in name.split("/") or "\0" in name:
        raise InvalidInput(f"the object name {name!r} is not allowed: expected no part `{TEMPORARY}` and no NUL")
    return name


def checked_prefix(prefix: str) -> str:
    """`prefix` if names can begin so; else as `checked`."""
    above = prefix.rpartition("/")[0]
    if above or prefix.startswith("/"):
        checked(above)
    return prefix


def listed(name: str, uri: str) -> str:
    """`name`, found by listing `uri`, if a store can address it; an object that cannot be read is not passed over."""
    try:
        name.encode()
        return names.inside(name)
    except (CorruptState, UnicodeEncodeError):
        raise InvalidInput(
            f"list `{uri}`: the object {name!r} cannot be addressed: expected UTF-8, no backslash, "
            "and no part that is empty, `.` or `..`; rename or remove it"
        ) from None


def check_range(start: int, length: int) -> None:
    """Refuses a range that no object has."""
    if start < 0 or length < 0:
        raise InvalidInput(f"read a range of an object: start {start}, length {length}; expected both at least 0")
