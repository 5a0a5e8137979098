"""Which versions a `StateStore` has: the newest, the floor, and the hint that tells of a record that was lost.

INVARIANT: what shows that a version was made (hint, floor, a segment of the version after it) and no record of it is
`CorruptState`: a store never becomes an older or an empty one. CRASH: a version that was never committed may leave a
segment, one above the newest; nothing else lies above it. So the newest record that is lost together with the hint
cannot be told from a commit that never was, unless a floor names it.
"""

from __future__ import annotations

from .. import names
from ..errors import CorruptState
from ..protocol import hint
from ..protocol.codec import decode
from ..protocol.records import StoreFloor
from ..store import ObjectMissing, Store


def newest(store: Store) -> int:
    """The newest version, 0 where there is none; `CorruptState` where there are traces of a newer one."""
    # INVARIANT: hint and floor are read before the records, which are made before them and never deleted.
    hinted, least = hint.read(store, names.HEAD_HINT), floor(store)
    found = _last(store, hinted)
    _check(store, found, hinted, f"`{names.HEAD_HINT}` says")
    _check(store, found, least, "`floors/` says")
    beyond = next(store.list("segments/", start_after=f"segments/{found + 2:010d}"), None)
    if beyond is not None:
        made = number(store, beyond.name) - 1
        found = _last(store, found)  # others may have committed meanwhile
        _check(store, found, made, f"`{beyond.name}` shows")
    return found


def floor(store: Store) -> int:
    """The least version that was not let go."""
    missed = None
    while entries := _floors(store):
        greatest = entries[-1]
        try:
            found = decode(StoreFloor, store.get(greatest), greatest).version
        except ObjectMissing as error:  # others were entered since it was listed
            if greatest == missed:
                raise CorruptState(
                    f"read `{greatest}` in {store.uri}: it is listed, and not there", hint="restore it from a backup"
                ) from error
            missed = greatest
            continue
        if found != number(store, greatest):
            raise CorruptState(f"read `{greatest}` in {store.uri}: it says {found}", hint="restore it from a backup")
        return found
    return 0


def drop_floors(store: Store) -> None:
    """Drops all floors but the greatest and the one before it.

    INVARIANT: what is dropped lies below two that are durable, so a listing that missed the greatest has the other.
    """
    for name in _floors(store)[:-2]:
        store.delete(name)


def raise_hint(store: Store, version: int) -> None:
    """Leaves the hint that `version` is there, which somebody else may have made long ago: a greater one stays."""
    if hint.read(store, names.HEAD_HINT) < version:
        hint.write(store, names.HEAD_HINT, version)


def number(store: Store, name: str) -> int:
    """The number in an object's name."""
    digits = name.rpartition("/")[2][:10]
    if not (len(digits) == 10 and digits.isascii() and digits.isdigit()):
        raise CorruptState(f"list {store.uri}: `{name}` is none of its names", hint="move it elsewhere")
    return int(digits)


def _floors(store: Store) -> list[str]:
    return [entry.name for entry in store.list("floors/")]


def _last(store: Store, known: int) -> int:
    """The greatest version with a record. Only those from `known` on are listed where there is one."""
    after = names.store_version(known - 1) if known > 0 else None
    found = [entry.name for entry in store.list("versions/", start_after=after)]
    if not found and after is not None:
        return _last(store, 0)
    return number(store, found[-1]) if found else 0


def _check(store: Store, found: int, made: int, where: str) -> None:
    if made > found:
        there = f"the newest record is that of version {found}" if found else "there is no record of any version"
        raise CorruptState(
            f"read the newest version in {store.uri}: {where} that version {made} was made, and {there}",
            hint=f"restore `{names.store_version(made)}` from a backup; nothing starts empty or older by accident",
        )
