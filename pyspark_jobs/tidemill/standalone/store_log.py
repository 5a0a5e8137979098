"""`StoreLog`: the versions and floors of a `StateStore`, as two series of numbered records.

INVARIANT: a store never silently becomes older or empty. If a hint, a floor or a segment of the following version shows
that a version was made, but its record is missing, reading raises `CorruptState`. CRASH: a commit that failed may leave
segments of the version above the newest, and no other object above it. So if the newest record and the hint are lost
together, the loss cannot be distinguished from a commit that never happened, unless a floor names the version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from .. import names
from ..clock import now_ms
from ..errors import CorruptState
from ..protocol.codec import decode, encode
from ..protocol.numbered import Numbered
from ..protocol.records import StoreFloor, StoreVersion
from ..store import Store


class StoreLog:
    """Which versions a `StateStore` has. `store` is opened at the store's folder."""

    def __init__(self, store: Store, pause: Callable[[float], None] = time.sleep) -> None:
        # Every commit writes the hint, because no other object shows that the newest record was lost.
        self._versions = Numbered(store, names.STORE_VERSIONS, "version", names.HEAD_HINT, 1, pause, hint_every=1)
        self._floors = Numbered(store, names.STORE_FLOORS, "floor", names.STORE_FLOORS_HINT, pause=pause)
        self._store = store
        self._floor: StoreFloor | None = None  # the newest floor that was read

    def newest(self) -> int:
        """Return the newest version, or 0 without any. `CorruptState` if there are traces of a newer version."""
        # INVARIANT: the floor is read before the versions. It is written after the record of its version, which is
        # never deleted, so a record that is missing afterwards was lost.
        floor = self.floor()
        found = self._versions.newest() or 0
        if floor > found:
            raise self._versions.lost(floor, f"`{names.STORE_FLOORS}` shows that it was made")
        beyond = next(self._store.list(names.STORE_SEGMENTS, f"{names.STORE_SEGMENTS}{found + 2:010d}"), None)
        if beyond is not None:
            made = self._number(beyond.name) - 1
            found = self._versions.newest() or 0  # another writer may have committed since the first search
            if made > found:
                raise self._versions.lost(made, f"`{beyond.name}` shows that it was made")
        return found

    def exists(self, version: int) -> bool:
        """Whether the version was made."""
        return self._versions.exists(version)

    def read(self, version: int) -> StoreVersion | None:
        """Return the record of a version, or None if the version has none."""
        data = self._versions.read(version)
        return None if data is None else self._decoded(version, data)

    def lost(self, version: int) -> CorruptState:
        """Return the error for a missing record of a version below the newest."""
        return self._versions.lost(version, "a newer version exists")

    def claim(self, record: StoreVersion) -> StoreVersion:
        """Make the version of `record`, or return the record that another attempt stored for it.

        `StoreUnavailable` means that the outcome is unknown. CRASH: one conditional create is the whole commit.
        """
        data = encode(record)
        found = self._versions.claim(record.version, data)
        if found == data:
            self._versions.reached(record.version)
            return record
        there = self._decoded(record.version, found)
        if self._versions.newest() == record.version:  # whoever made it may have died before it wrote the hint
            self._versions.reached(record.version)
        return there

    def floor(self) -> int:
        """Return the lowest version that was not dropped."""
        number = self._floors.newest()
        if number is None:
            return 0
        if self._floor is None or self._floor.number != number:
            data = self._floors.read(number)
            if data is None:
                raise self._floors.lost(number, "it was made")
            self._floor = self._decoded_floor(number, data)
        return self._floor.version

    def raise_floor(self, version: int) -> int:
        """Drop the versions below `version`, and return the floor, which others may have raised higher."""
        while (floor := self.floor()) < version:
            number = 0 if self._floor is None else self._floor.number + 1
            self._floors.claim(number, encode(StoreFloor(number, version, now_ms())))
            self._floors.reached(number)
        return floor

    def segments(self, through: int) -> Iterator[str]:
        """Yield the names of the segments that attempts at versions up to `through` stored."""
        names_found = (entry.name for entry in self._store.list(names.STORE_SEGMENTS))
        return (name for name in names_found if self._number(name) <= through)

    def _number(self, segment: str) -> int:
        """Return the version for which a segment was stored."""
        found = names.store_segment_version(segment)
        if found is None:
            raise CorruptState(
                f"list `{self._store.uri}`: `{segment}` is not the name of a StateStore object",
                hint="move the object elsewhere",
            )
        return found

    def _decoded(self, version: int, data: bytes) -> StoreVersion:
        record = decode(StoreVersion, data, self._versions.name(version))
        self._check_number(self._versions.name(version), "version", version, record.version)
        return record

    def _decoded_floor(self, number: int, data: bytes) -> StoreFloor:
        record = decode(StoreFloor, data, self._floors.name(number))
        self._check_number(self._floors.name(number), "floor", number, record.number)
        return record

    def _check_number(self, name: str, what: str, expected: int, found: int) -> None:
        if expected != found:
            raise CorruptState(
                f"read `{name}` in `{self._store.uri}`: expected {what} {expected}, found {what} {found}",
                hint="restore the object from a backup",
            )
