"""`discard`: delete what a losing attempt stored, once another commit has its number.

INVARIANT: only objects of our own attempt are deleted, and only after our commit can no longer be created. CRASH: what
remains after a crash is named by no commit and numbered at or below the head, so garbage collection deletes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ..errors import StoreUnavailable, TidemillError
from ..protocol.garbage import COLLECTED
from ..protocol.named import named
from ..protocol.records import Commit
from ..store import Store
from ..store.full import is_full
from .opened import Opened


def discard(store: Store, lost: Commit) -> None:
    """Delete the objects that the commit `lost`, which was never created, names and its attempt stored."""
    discard_names(store, [one.name for one in named(lost)], lost.attempt)


def discard_unless_named(repo: Opened, number: int, attempt: str, names: Iterable[str]) -> None:
    """Delete what the attempt stored for version `number`, unless its commit was made, and publishing it failed."""
    head = repo.log.head()
    if head is None or head.version < number or repo.log.commit(number).attempt != attempt:
        discard_names(repo.store, names, attempt)


def discard_names(store: Store, names: Iterable[str], attempt: str) -> None:
    """Delete those of the objects that the attempt stored.

    A delete that fails is not an error, because garbage harms nothing.
    """
    ours = sorted(name for name in names if f"-{attempt}-" in name)
    if ours:
        with contextlib.suppress(TidemillError):
            store.delete_many(ours)


@contextlib.contextmanager
def discarded_if_full(store: Store, attempt: str) -> Iterator[None]:
    """Delete everything that the attempt stored if the disk becomes full in the block, so that retries do not fill it.

    INVARIANT: the commit of the attempt is created after the block, so no commit names these objects.
    """
    try:
        yield
    except StoreUnavailable as error:
        if is_full(error):
            with contextlib.suppress(TidemillError):
                discard_names(store, [entry.name for prefix in COLLECTED for entry in store.list(prefix)], attempt)
        raise
