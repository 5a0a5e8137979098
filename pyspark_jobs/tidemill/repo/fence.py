"""`Fence`: a commit at the place that a moved repository has left, so that no process commits there any more.

It takes the number after the newest version, and no Tidemill reads it, so a batch that is about to commit loses. An
error says where the repository is now. INVARIANT: the fence comes before the repository is adopted
at its new place, so two places never write at once. CRASH: `adopt` again; a fence for the same place counts as made.
"""

from __future__ import annotations

import logging
import uuid

from .. import names
from ..clock import now_ms
from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.codec import MOVED_TO, encode
from ..protocol.log import Log
from ..protocol.records import MOVED, Commit
from ..protocol.refs import MAIN, Refs
from ..protocol.refs_log import RefsLog
from ..protocol.successor import Origin, successor
from ..store import Store, open_store
from ..values import dataclass
from .opened import Opened

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Fence:
    """The commit that fences a place. `place` is its URI, `store` is opened there."""

    store: Store
    place: str
    commit: Commit

    def create(self) -> None:
        """Fence the place. `InvalidInput` if it has one more version since the look."""
        name, data = names.commit(MAIN, self.commit.version), encode(self.commit)
        if not self.store.create(name, data) and self.store.get(name) != data:
            raise _ahead(self.place, self.commit.version, self.commit.version - 1)


def fence_of(repo: Opened, refs: Refs) -> Fence | None:
    """Return what fences the place where a repository was before. None: it is gone, cannot be reached, or is fenced.

    `InvalidInput` if it has versions that the copy lacks, or has moved to a third place.
    """
    place = refs.root
    try:
        store = open_store(place.removeprefix("file://"), repo.storage_options.get("root") if _is_s3(place) else None)
        there = RefsLog(store).read()
        if there is None or there.origin != refs.origin or there.uuid != refs.uuid:
            return None
        theirs = Log(store, MAIN).head()
    except (StoreUnavailable, CorruptState, InvalidInput) as error:
        _note_not_reached(repo, place, error)
        return None
    ours = Log(repo.store, MAIN)
    head = ours.head()
    newest = -1 if head is None else head.version
    if theirs is not None and (theirs.version > newest or ours.commit(theirs.version).as_parent != theirs.as_parent):
        raise _ahead(place, theirs.version, newest)
    origin = Origin(there, MAIN, theirs)
    made = successor(
        origin,
        "void",
        {
            "attempt": uuid.uuid4().hex[:12],
            "reason": repo.place,
            "committed_ms": now_ms(),
            "published_through": -1 if theirs is None else theirs.published_through,
            "requires": [MOVED],
        },
    )
    return Fence(store, place, made)


def _note_not_reached(repo: Opened, place: str, error: Exception) -> None:
    """Warn that a place is not fenced, unless it is. `InvalidInput` if the repository has moved to a third place."""
    said = str(error)
    if MOVED_TO in said:
        if f"{MOVED_TO} `{repo.place}`" not in said:
            raise InvalidInput(
                f"adopt `{repo.place}`: `{place}`, where it was made, has moved to another place",
                hint="go on there; or give --copy, if both remain",
            ) from error
    else:
        first = said.partition("\n")[0]
        LOG.warning("`%s` could not be fenced: %s. Make sure that no process writes there", place, first)


def _ahead(place: str, theirs: int, ours: int) -> InvalidInput:
    return InvalidInput(
        f"adopt: `{place}`, where the repository was made, has versions up to {theirs} that this copy, which has "
        f"versions up to {ours}, does not have",
        hint="stop what runs there, and copy the repository again; or remove that place if it is dead; or give --copy "
        "if both remain",
    )


def _is_s3(place: str) -> bool:
    return place.startswith("s3://")
