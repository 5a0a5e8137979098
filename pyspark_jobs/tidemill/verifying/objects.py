"""Checks the objects that records name: that they are there, as long as the records say, and with their checksum.

INVARIANT: `protocol.named` says which objects a record names; nothing here knows the fields of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from ..errors import CorruptState
from ..protocol.named import Object, named
from ..protocol.records import Commit, digest
from ..protocol.refs import Refs
from ..store import ListedObject, ObjectMissing, Store
from ..values import dataclass
from .findings import Findings

_READERS = 16
OnChecked = Callable[[int, int], None]
"""Called with the number of objects that were checked, and of all."""


@dataclass
class _Named:
    """An object, and the first and the last version that name it, by branch. Version -1 stands for `refs/`."""

    object: Object
    first: tuple[str, int]
    last: tuple[str, int]


@dataclass
class Objects:
    """All objects that records name. `add` is called for each record, `check` at the end."""

    found: Findings
    known: dict[str, _Named] = field(default_factory=dict)

    def add(self, record: Commit | Refs, kept: Collection[Object] | None = None) -> None:
        """Take down what a record names, or those of its objects that are kept.

        Two records that say different things of one object are a problem.
        """
        at = (record.branch, record.version) if isinstance(record, Commit) else ("", -1)
        for one in named(record) if kept is None else kept:
            known = self.known.setdefault(one.name, _Named(one, at, at))
            known.last = at
            if (one.checksum, one.size) != (known.object.checksum, known.object.size):
                what = f"named with checksum {known.object.checksum}, and later with {one.checksum}"
                self.found.add(one.name, what, self._affects(known))

    def check(self, store: Store, listing: Mapping[str, ListedObject], deep: bool, on_checked: OnChecked) -> int:
        """Check all objects; with `deep` read each. Return how many bytes they have together."""
        for number, known in enumerate(self.known.values()):
            on_checked(number, len(self.known))
            what = _fault(known.object, listing.get(known.object.name))
            if what is None and deep:
                what = _damage(store, known.object)
            if what is not None:
                self.found.add(known.object.name, what, self._affects(known))
        return sum(known.object.size for known in self.known.values())

    def _affects(self, known: _Named) -> str:
        (branch, first), (_, last) = known.first, known.last
        room, _, rest = known.object.name.partition("/")
        owner = rest.partition("/")[0]
        what = {"state": f"state of `{owner}`", "output": f"rows of sink `{owner}`"}.get(room, room)
        if owner == "_ledger":
            what = "the ledger of files that were read"
        if last < 0:
            return f"{what}, from version 0 on"
        shown = f"version {first}" if first == last else f"versions {max(first, 0)} to {last}"
        return f"{what} in {shown}" + (f" of branch `{branch}`" if branch not in ("", "main") else "")


def check_stored(store: Store, expected: Iterable[Object], what: str) -> None:
    """Raise `CorruptState` if an object is missing or has another size. Costs a request for each object."""
    wanted = list(expected)
    with ThreadPoolExecutor(_READERS, "tidemill-stat") as pool:
        for one, there in zip(wanted, pool.map(lambda one: store.stat(one.name), wanted), strict=True):
            fault = _fault(one, there)
            if fault is not None:
                raise CorruptState(
                    f"{what}: `{one.name}`: {fault}",
                    hint="restore the object from a backup; `tidemill verify` lists all that are damaged",
                )


def _fault(expected: Object, there: ListedObject | None) -> str | None:
    """Return what a listing shows to be wrong with an object, or None."""
    if there is None:
        return "the object is missing"
    if there.size != expected.size:
        return f"found {there.size} bytes, expected {expected.size}"
    if expected.etag and there.etag != expected.etag:
        return f"found the ETag {there.etag}, expected {expected.etag}: the object was written again"
    return None


def _damage(store: Store, expected: Object) -> str | None:
    """Return what is wrong with the content of an object, or None."""
    try:
        found = digest(store.get(expected.name))
    except ObjectMissing:
        return "the object is missing"
    return None if found == expected.checksum else f"found checksum {found}, expected {expected.checksum}"
