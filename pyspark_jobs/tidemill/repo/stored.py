"""Are stored objects what a record says? The checksum decides; an ETag that is the recorded one only saves the reading.

INVARIANT: an object that was copied with other ETags is the same object, so a copied repository is whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ..errors import CorruptState
from ..protocol.named import Object
from ..protocol.records import digest
from ..store import ListedObject, ObjectMissing, Store

_READERS = 16
_MISSING = "the object is missing"


def check_stored(store: Store, expected: Iterable[Object], what: str, reads: bool = False) -> None:
    """Raise `CorruptState` if an object is missing or has another size, or with an ETag another content.

    `reads`: also read those without an ETag. Costs a request for each object.
    """
    wanted = list(expected)

    def looked(one: Object) -> str | None:
        return fault_in(store, one, store.stat(one.name), reads and not one.etag)

    with ThreadPoolExecutor(_READERS, "tidemill-stat") as pool:
        for one, fault in zip(wanted, pool.map(looked, wanted), strict=True):
            if fault is not None:
                raise CorruptState(
                    f"{what}: `{one.name}`: {fault}",
                    hint="restore the object from a backup; `tidemill verify` lists all that are damaged",
                )


def fault_in(store: Store, expected: Object, there: ListedObject | None, deep: bool = False) -> str | None:
    """Return what is wrong with an object, or None. With `deep`, or if it has another ETag, it is read."""
    if there is None:
        return _MISSING
    if there.size != expected.size:
        return f"found {there.size} bytes, expected {expected.size}"
    if not deep and there.etag == (expected.etag or there.etag):
        return None
    try:
        found = digest(store.get(expected.name))
    except ObjectMissing:
        return _MISSING
    return None if found == expected.checksum else f"found checksum {found}, expected {expected.checksum}"
