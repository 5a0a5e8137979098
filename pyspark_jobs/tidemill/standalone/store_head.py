"""Which versions a `StateStore` has: the newest version, the floor, and the hint.

INVARIANT: a store never silently becomes older or empty. If a hint, a floor or a segment of the following version shows
that a version was made, but its record is missing, reading raises `CorruptState`. CRASH: a commit that failed may leave
segments of the version above the newest, and no other object above it. So if the newest record and the hint are lost
together, the loss cannot be distinguished from a commit that never happened, unless a floor names the version.
"""

from __future__ import annotations

from .. import names
from ..errors import CorruptState
from ..protocol import hint
from ..protocol.codec import decode
from ..protocol.records import StoreFloor
from ..store import ObjectMissing, Store


def newest(store: Store) -> int:
    """Return the newest version, or 0 without any. `CorruptState` if there are traces of a newer version."""
    # INVARIANT: hint and floor are read before the records. A record is written before its hint and floor and is never
    # deleted, so a record that is missing afterwards was lost.
    hinted, least = hint.read(store, names.HEAD_HINT), floor(store)
    found = _last(store, hinted)
    _check(store, found, hinted, f"`{names.HEAD_HINT}` shows")
    _check(store, found, least, "`floors/` shows")
    beyond = next(store.list("segments/", start_after=f"segments/{found + 2:010d}"), None)
    if beyond is not None:
        made = number(store, beyond.name) - 1
        found = _last(store, found)  # another writer may have committed since the first listing
        _check(store, found, made, f"`{beyond.name}` shows")
    return found


def floor(store: Store) -> int:
    """Return the lowest version that was not dropped."""
    missed = None
    while entries := _floors(store):
        greatest = entries[-1]
        try:
            found = decode(StoreFloor, store.get(greatest), greatest).version
        except ObjectMissing as error:  # another caller recorded newer floors and deleted this one after the listing
            if greatest == missed:
                raise CorruptState(
                    f"read `{greatest}` in `{store.uri}`: it is listed, but missing", hint="restore it from a backup"
                ) from error
            missed = greatest
            continue
        if found != number(store, greatest):
            raise CorruptState(
                f"read `{greatest}` in `{store.uri}`: expected version {number(store, greatest)}, found {found}",
                hint="restore it from a backup",
            )
        return found
    return 0


def drop_floors(store: Store) -> None:
    """Delete all floors except the two greatest.

    INVARIANT: two durable floors always remain, so a listing that misses the greatest still returns the other.
    """
    for name in _floors(store)[:-2]:
        store.delete(name)


def raise_hint(store: Store, version: int) -> None:
    """Set the hint to `version` unless it is higher already. Another writer may have made `version` long ago."""
    if hint.read(store, names.HEAD_HINT) < version:
        hint.write(store, names.HEAD_HINT, version)


def number(store: Store, name: str) -> int:
    """Return the number in the name of an object."""
    digits = name.rpartition("/")[2][:10]
    if not (len(digits) == 10 and digits.isascii() and digits.isdigit()):
        raise CorruptState(
            f"list `{store.uri}`: `{name}` is not the name of a StateStore object", hint="move the object elsewhere"
        )
    return int(digits)


def _floors(store: Store) -> list[str]:
    return [entry.name for entry in store.list("floors/")]


def _last(store: Store, known: int) -> int:
    """Return the greatest version with a record. Older records are listed only if none from `known` on exists."""
    after = names.store_version(known - 1) if known > 0 else None
    found = [entry.name for entry in store.list("versions/", start_after=after)]
    if not found and after is not None:
        return _last(store, 0)
    return number(store, found[-1]) if found else 0


def _check(store: Store, found: int, made: int, where: str) -> None:
    if made > found:
        there = f"the newest record is that of version {found}" if found else "the store has no records"
        raise CorruptState(
            f"read the newest version in `{store.uri}`: {where} that version {made} was made, but {there}",
            hint=f"restore `{names.store_version(made)}` from a backup; Tidemill never starts from an older state by "
            "accident",
        )
