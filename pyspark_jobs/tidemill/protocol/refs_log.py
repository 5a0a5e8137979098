"""Reads and appends entries of `refs/`, and keeps the snapshot from which a run reads them in three requests.

INVARIANT: the snapshot, `refs/head.json`, is a hint. It may be old or lost, or come from a copy, so it is compared with
the entry at which it ends. The entries above it count, and without it all entries are read. CRASH: an entry is one
conditional create, and the snapshot follows it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Callable
from typing import Any

from .. import names
from ..errors import CorruptState, InvalidInput, TidemillError
from ..store import ObjectMissing, Store
from .codec import checksum_of, decode, decode_entry, encode
from .entries import Entry, Init
from .numbered import Numbered
from .refs import Refs, begin, follow

Make = Callable[[Refs, int], Entry | None]
"""Makes an entry from what is known and the entry's number, or None if nothing is left to append.

`position` gives its common fields.
"""


def position(refs: Refs, created_ms: int) -> dict[str, Any]:
    """Return the fields that place an entry after `refs`, for the constructor of an entry."""
    return {
        "number": refs.through + 1,
        "parent": refs.refs_checksum,
        "uuid": refs.uuid,
        "attempt": uuid.uuid4().hex[:12],
        "created_ms": created_ms,
    }


class RefsLog:
    """The entries of `refs/` of a repository. `store` is opened at the repository's folder."""

    def __init__(self, store: Store, pause: Callable[[float], None] = time.sleep) -> None:
        self._store = store
        self._entries = Numbered(store, names.REFS, "entry", pause=pause)
        self._known: Refs | None = None

    def create(self, init: Init) -> Refs:
        """Make the repository, or return what makes up the one that is there.

        `InvalidInput` if it belongs to another pipeline.
        """
        found = self._entries.claim(0, encode(init))
        there = _init(found)
        if there.pipeline != init.pipeline:
            raise InvalidInput(
                f"init pipeline `{init.pipeline}` in `{self._store.uri}`: found the pipeline `{there.pipeline}` there",
                hint="choose another root or another name",
            )
        if there.attempt != init.attempt:
            return self._checked_read()
        self._known = begin(there)
        self._write_snapshot(self._known)
        return self._known

    def read(self) -> Refs | None:
        """Return all entries, folded, or None if there is no repository. Later calls only look for newer entries.

        The first call costs three requests, later ones cost one, whatever the number of entries.
        """
        if self._known is None:
            self._known = self._snapshot() or self._beginning()
        if self._known is not None:
            self._known = self._up_to_date(self._known)
        return self._known

    def read_entries(self) -> Refs | None:
        """Return all entries, folded, from the entries alone, as if the snapshot were lost."""
        beginning = self._beginning()
        self._known = None if beginning is None else self._up_to_date(beginning)
        return self._known

    def append(self, make: Make) -> Refs:
        """Append the entry that `make` returns for the refs at hand and its number; return the refs with it.

        If another writer takes the number first, its entry is read and `make` is called again. So `make` checks what it
        needs each time. It raises if the entry no longer makes sense, and returns None if the other writer
        did the same. Entries that are known are not looked for again before the first try, because the conditional
        create fails if there are newer ones. If `make` refuses what is known, it is asked again with all entries.
        """
        is_all = self._known is None
        refs = self._known or self._checked_read()
        while True:
            try:
                entry = make(refs, refs.through + 1)
            except InvalidInput:
                if is_all:
                    raise
                entry = None
            if entry is None and is_all:
                break
            if entry is None:
                refs, is_all = self._checked_read(), True
                continue
            data = encode(entry)
            found = self._entries.claim(entry.number, data)
            refs = follow(refs, decode_entry(found, names.ref(entry.number)))
            self._known = refs
            if found == data:
                self._write_snapshot(refs)
                break
        return refs

    def _checked_read(self) -> Refs:
        found = self.read()
        if found is None:
            raise CorruptState(
                f"read `{self._store.uri}/{names.ref(0)}`: the init record is missing, although it was made",
                hint="restore `refs/` from a backup",
            )
        return found

    def _snapshot(self) -> Refs | None:
        """Return the snapshot, or None if it is missing, damaged, or of another history than these entries.

        `CorruptState` if the entry at which it ends is damaged, or if it is missing and the snapshot is of this
        repository.
        """
        try:
            found = decode(Refs, self._store.get(names.REFS_HEAD), names.REFS_HEAD)
        except (ObjectMissing, CorruptState, InvalidInput):
            return None
        last = self._entries.read(found.through)
        if last is not None:
            return found if decode_entry(last, names.ref(found.through)).checksum == found.refs_checksum else None
        beginning = None if found.through == 0 else self._beginning()
        if beginning is not None and beginning.origin != found.origin:
            return None
        raise self._entries.lost(found.through, f"`{names.REFS_HEAD}` names it")

    def _write_snapshot(self, refs: Refs) -> None:
        """Overwrite the snapshot. A write that fails is not an error, because an old snapshot is harmless."""
        with contextlib.suppress(TidemillError):
            self._store.put_hint(names.REFS_HEAD, encode(refs))

    def _beginning(self) -> Refs | None:
        found = self._entries.read(0)
        return None if found is None else begin(_init(found))

    def _up_to_date(self, refs: Refs) -> Refs:
        while (data := self._entries.read(refs.through + 1)) is not None:
            refs = follow(refs, decode_entry(data, names.ref(refs.through + 1)))
        return refs


def _init(data: bytes) -> Init:
    found = decode_entry(data, names.ref(0))
    if not isinstance(found, Init) or found.number != 0:
        raise CorruptState(
            f"read entry `{names.ref(0)}`: expected the init record, found entry {found.number}",
            hint="restore `refs/` from a backup",
        )
    return dataclasses.replace(found, checksum=checksum_of(data))
