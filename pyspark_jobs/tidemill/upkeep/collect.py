"""Garbage collection: deletes objects that no kept version names. `protocol.garbage` decides which.

INVARIANT: an entry of `refs/` gives up objects before they are deleted, never after. CRASH: any part of the garbage
may be deleted; the next call deletes the rest. Two collectors at once delete the same objects.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..clock import now_ms
from ..protocol.entries import DropBases
from ..protocol.garbage import COLLECTED, Garbage, Stored, dead_bases, garbage
from ..protocol.named import named
from ..protocol.refs import Refs
from ..protocol.refs_log import position
from ..repo.opened import Context
from .lineage import kept_names, lineage

PART = 1000
"""How many objects are deleted at once: as many as S3 deletes in a request."""
OnDeleted = Callable[[int, int], None]
"""Called with the number of deleted objects, and of all."""


@dataclass(frozen=True)
class Collected:
    """What garbage collection found, oldest first, and how many of these objects it deleted."""

    found: list[Garbage]
    deleted: int


def look(context: Context, refs: Refs) -> tuple[list[Garbage], list[int]]:
    """Return the garbage, and the entries of merged segments that no kept version can use. Writes nothing."""
    known = lineage(context, refs)
    kept = kept_names(known)
    dead = dead_bases(refs.bases, kept)
    kept |= {one.name for one in named(_without(refs, dead))}
    return garbage(refs, known.heads, kept, _listing(context), known.refs_through), dead


def collect(context: Context, deadline: float | None = None, on_deleted: OnDeleted | None = None) -> Collected:
    """Delete garbage, oldest first, until `deadline` by the monotonic clock."""
    found, dead = look(context, context.refresh())
    if dead:
        drop_bases(context, dead)
    names, deleted = [one.name for one in found], 0
    while deleted < len(names) and (deadline is None or time.monotonic() < deadline):
        part = names[deleted : deleted + PART]
        context.store.delete_many(part)
        deleted += len(part)
        if on_deleted is not None:
            on_deleted(deleted, len(names))
    return Collected(found, deleted)


def delete_garbage(context: Context) -> int:
    """Delete what is garbage already, without writing anything, as on a full disk. Return how many objects there were.

    Merged segments that no kept version can use stay, because only an entry of `refs/` gives them up.
    """
    refs = context.refresh()
    known = lineage(context, refs)
    kept = kept_names(known) | {one.name for one in named(refs)}
    found = garbage(refs, known.heads, kept, _listing(context), known.refs_through)
    context.store.delete_many([one.name for one in found])
    return len(found)


def drop_bases(context: Context, dead: Sequence[int]) -> None:
    """Append the entry that gives up merged segments that no kept version can use."""

    def make(refs: Refs, number: int) -> DropBases | None:
        del number
        left = [base.number for base in refs.bases if base.number in dead]
        return DropBases(**position(refs, now_ms()), numbers=left) if left else None

    context.refs_log.append(make)
    context.refresh()


def _without(refs: Refs, dead: Sequence[int]) -> Refs:
    return dataclasses.replace(refs, bases=[base for base in refs.bases if base.number not in dead])


def _listing(context: Context) -> Iterator[Stored]:
    for prefix in COLLECTED:
        for entry in context.store.list(prefix):
            yield Stored(entry.name, entry.size)
