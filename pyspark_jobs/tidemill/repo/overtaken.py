"""What a missing object means to a command that another one overtook.

INVARIANT: an object is deleted only after an entry or a commit gave it up. So a command that misses an object of a head
that is no longer the newest, or of a branch that was dropped, was overtaken; the repository is not damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import CorruptState, Fenced
from ..protocol.records import Commit
from .opened import Opened


@contextmanager
def fenced_if_overtaken(repo: Opened, head: Commit | None, what: str) -> Iterator[None]:
    """Raise `Fenced` instead of `CorruptState` if another run has committed after `head`, or dropped the branch.

    `what` begins the message.
    """
    try:
        yield
    except CorruptState as error:
        refs = repo.refresh()
        if repo.branch in refs.dropped:
            raise Fenced(
                f"{what}: branch `{refs.name_of(repo.branch)}` was dropped in the meantime, so objects that this "
                f"run needs may be deleted ({error.first_line})",
                hint="nothing of this run is committed; start another branch",
            ) from error
        newest = repo.log.head()
        if newest is None or (head is not None and newest.version <= head.version):
            raise
        raise Fenced(
            f"{what}: another run committed versions up to {newest.version} in the meantime, so objects that this one "
            f"needs may be deleted ({error.first_line})",
            hint="nothing of this run is committed; run again",
        ) from error
