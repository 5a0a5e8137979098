"""`Fence`: commits at the place that a moved repository has left, so that no process commits there any more.

On each branch, one takes the number after the newest version. No Tidemill reads it, so a batch that is about to commit
loses. An error says where the repository is now. INVARIANT: the fence comes before the repository is adopted
at its new place, so two places never write at once. CRASH: `adopt` again; a fence for the same
place counts as made, and the other branches get theirs.
"""

from __future__ import annotations

import logging
import uuid

from .. import names
from ..clock import now_ms
from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.codec import MOVED_TO, encode
from ..protocol.log import log_of
from ..protocol.records import MOVED, Commit
from ..protocol.refs import BranchRef, Refs
from ..protocol.refs_log import RefsLog
from ..protocol.successor import Origin, successor
from ..store import Store, open_store
from ..values import dataclass
from .opened import Opened

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Fence:
    """The commits that fence a place, one for each branch. `place` is its URI, `store` is opened there."""

    store: Store
    place: str
    commits: list[Commit]

    def create(self) -> None:
        """Fence the place. `InvalidInput` if a branch has one more version since the look; then nothing is fenced."""
        made: list[str] = []
        for commit in self.commits:
            name, data = names.commit(commit.branch, commit.version), encode(commit)
            if self.store.create(name, data):
                made.append(name)
            elif self.store.get(name) != data:
                for one in made:  # or a new copy of the place would have them
                    self.store.delete(one)
                raise _ahead(self.place, commit.version, commit.version - 1)


def fence_of(repo: Opened, refs: Refs) -> Fence | None:
    """Return what fences the place where a repository was before. None: it is gone, cannot be reached, or is fenced.

    `InvalidInput` if it has versions that the copy lacks, or has moved to a third place.
    """
    place = refs.root
    try:
        store = open_store(place.removeprefix("file://"), repo.storage_options.get("root") if _is_s3(place) else None)
        there = RefsLog(store).read()
    except (StoreUnavailable, CorruptState, InvalidInput) as error:
        _note_not_reached(repo, place, error)
        return None
    if there is None or there.origin != refs.origin or there.uuid != refs.uuid:
        return None
    found = (_fence_of_branch(repo, refs, branch, store, there) for branch in there.branches.values())
    commits = [one for one in found if one is not None]
    return Fence(store, place, commits) if commits else None


def _fence_of_branch(repo: Opened, refs: Refs, branch: BranchRef, store: Store, there: Refs) -> Commit | None:
    """Return the commit that fences a branch. None: it is fenced, or cannot be read."""
    try:
        theirs = log_of(store, there, branch.id).head()
    except (StoreUnavailable, CorruptState, InvalidInput) as error:
        _note_not_reached(repo, refs.root, error)
        return None
    if branch.id not in {one.id for one in refs.branches.values()}:
        raise InvalidInput(
            f"adopt: `{refs.root}`, where the repository was made, has branch `{branch.name}`, which this copy does "
            "not have",
            hint=_COPY_AGAIN,
        )
    ours = log_of(repo.store, refs, branch.id)
    head = ours.head()
    newest = -1 if head is None else head.version
    if theirs is not None and (theirs.version > newest or ours.commit(theirs.version).as_parent != theirs.as_parent):
        raise _ahead(refs.root, theirs.version, newest)
    return successor(
        Origin(there, branch.id, theirs),
        "void",
        {
            "attempt": uuid.uuid4().hex[:12],
            "reason": repo.place,
            "committed_ms": now_ms(),
            "published_through": -1 if theirs is None else theirs.published_through,
            "requires": [MOVED],
        },
    )


_COPY_AGAIN = (
    "stop what runs there, and copy the repository again; or remove that place if it is dead; or give --copy if both "
    "remain"
)


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
        hint=_COPY_AGAIN,
    )


def _is_s3(place: str) -> bool:
    return place.startswith("s3://")
