"""Checks the objects that records name: that they are there, as long as the records say, and with their checksum.

INVARIANT: `protocol.named` says which objects a record names; nothing here knows the fields of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field

from ..protocol.named import Object, named
from ..protocol.records import Commit
from ..protocol.refs import Refs
from ..repo.stored import fault_in
from ..store import ListedObject, Store
from ..values import dataclass
from .findings import Findings

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
        """Check all objects, and read those with another ETag; with `deep`, read all. Return their bytes together."""
        for number, known in enumerate(self.known.values()):
            on_checked(number, len(self.known))
            what = fault_in(store, known.object, listing.get(known.object.name), deep)
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
