"""`Numbered`: records with the numbers 0, 1, 2 …, each created once. Refs, plans, commits, published records and
`tm.StateStore` use it.

It claims a number, reads records, and finds the newest one. INVARIANT: each name is created once and never changed or
deleted, so a record that exists proves that all lower ones were made. CRASH: a claim is one conditional create. After a
doubtful answer the name is read back, and the record that is stored there counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from .. import names
from ..errors import CorruptState, StoreUnavailable, TidemillError
from ..store import ObjectMissing, Store
from ..store.full import is_full
from . import hint

PAUSES_S = (0.05, 0.2, 0.5, 1.0)
"""Seconds to wait before each retry of a create whose outcome could not be read back."""
HINT_EVERY = 32
"""How many records apart hints are by default, where listing the names after the hint costs one request."""


class Numbered:
    """The records `<prefix><n>.json` in `store`. `hint_name` is the object that says where a search begins.

    `first` is the lowest number, and `what` is the word for one record, for messages. `hint_every` says how many
    records apart hints are in a store that lists after a name.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        what: str,
        hint_name: str | None = None,
        first: int = 0,
        pause: Callable[[float], None] = time.sleep,
        hint_every: int = HINT_EVERY,
    ) -> None:
        self._store, self._prefix, self._what, self._hint_name = store, prefix, what, hint_name
        self._first, self._pause, self._hint_every = first, pause, hint_every
        self._newest: int | None = None  # newest number seen; it never falls, so later searches start here

    def name(self, number: int) -> str:
        """Return the name of the record with a number."""
        return names.numbered(self._prefix, number)

    def uri(self, number: int) -> str:
        """Return the URI of the record with a number, for messages."""
        return f"{self._store.uri}/{self.name(number)}"

    def read(self, number: int) -> bytes | None:
        """Return the bytes of a record, or None if its number is free."""
        try:
            return self._store.get(self.name(number))
        except ObjectMissing:
            return None

    def exists(self, number: int) -> bool:
        """Whether there is a record with this number."""
        return self._store.stat(self.name(number)) is not None

    def claim(self, number: int, data: bytes) -> bytes:
        """Create the record if its number is free, and return the bytes stored under it: ours or another writer's.

        `StoreUnavailable` means that the outcome is unknown, unless the disk is full. INVARIANT: after an error or a
        refusal, the name is read back, because our own write may have succeeded although its answer was lost. If the
        name is still missing, an earlier write may yet arrive, so the same bytes are sent again.
        """
        name = self.name(number)
        failed: StoreUnavailable | None = None
        for pause_s in (0.0, *PAUSES_S):
            if pause_s:
                self._pause(pause_s)
            try:
                if self._store.create(name, data):
                    return data
                found = self.read(number)
            except Exception as error:
                found, is_missing = self._read_if_possible(number)
                if found is None and not isinstance(error, StoreUnavailable):
                    raise
                if is_missing and pause_s == 0.0 and isinstance(error, TidemillError) and is_full(error):
                    raise  # refused for certain, because no earlier attempt is on its way
                failed = error if isinstance(error, StoreUnavailable) else None
            if found is not None:
                return found
        raise StoreUnavailable(
            f"create `{self.uri(number)}`: outcome unknown after {len(PAUSES_S) + 1} attempts "
            f"({failed.first_line if failed else 'the store said that the name exists, but it is missing'}); "
            "the write may still complete",
            hint=failed.hint if failed and failed.hint else "run again; the next run finds out whether it completed",
        ) from failed

    def newest(self) -> int | None:
        """Return the greatest number that has a record, or None without any. `CorruptState` if one below is missing.

        The first search starts at the hint, later ones at the newest record seen. It costs two requests with a good
        hint, and one later. Without a hint all names are listed.
        """
        if (known := self._newest) is not None:
            return self._saw(self._probe_up(known))
        hinted = -1 if self._hint_name is None else hint.read_hint(self._store, self._hint_name)
        if hinted < self._first or self._store.lists_after:
            found = self._listed(hinted)
            return found if found is None else self._saw(found)
        if not self.exists(hinted):
            raise self.lost(hinted, f"the hint `{self._hint_name}` names it")
        return self._saw(self._probe_up(hinted))

    def _saw(self, number: int) -> int:
        """Remember the record, unless another thread has seen a newer one; return its number."""
        if self._newest is None or self._newest < number:
            self._newest = number
        return number

    def reached(self, number: int) -> None:
        """Take note that the record with this number exists, and write the hint if it is due."""
        self._saw(number)
        if self._hint_name is not None and (number % self._hint_every == 0 or not self._store.lists_after):
            hint.write_hint(self._store, self._hint_name, number)

    def lost(self, number: int, why: str) -> CorruptState:
        """Return the error for a record that was made, as `why` says, but is missing."""
        return CorruptState(
            f"read `{self.uri(number)}`: the {self._what} is missing, but {why}; such records are never deleted",
            hint=f"restore `{self._prefix}` from a backup; Tidemill never starts from an older or empty state by "
            "accident",
        )

    def _listed(self, hinted: int) -> int | None:
        """List the names from the hint on, or all, and return the last number. No number in between may be missing."""
        expected = max(hinted, self._first)
        for number in self._numbers(expected - 1 if expected > 0 else None):
            if number != expected:
                raise self.lost(expected, f"{self._what} {number} exists")
            expected = number + 1
        if expected <= hinted:
            raise self.lost(hinted, f"the hint `{self._hint_name}` names it")
        return expected - 1 if expected > self._first else None

    def _numbers(self, after: int | None) -> Iterator[int]:
        start = None if after is None else self.name(after)
        for entry in self._store.list(self._prefix, start_after=start):
            number = names.number_in(self._prefix, entry.name)
            if number is not None:
                yield number

    def _probe_up(self, known: int) -> int:
        """Return the greatest number from `known`, which exists, on: one probe if nothing was added, else a gallop."""
        there, absent = known, known + 1
        while absent <= names.LAST_NUMBER and self.exists(absent):
            there, absent = absent, known + 2 * (absent - known)
        absent = min(absent, names.LAST_NUMBER + 1)
        while absent - there > 1:
            middle = (there + absent) // 2
            there, absent = (middle, absent) if self.exists(middle) else (there, middle)
        return there

    def _read_if_possible(self, number: int) -> tuple[bytes | None, bool]:
        """Return the bytes of a record, and whether it is missing for certain."""
        try:
            found = self.read(number)
        except StoreUnavailable:
            return None, False
        return found, found is None
