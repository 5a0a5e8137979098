"""`Backlog`: the files that wait, as one drain sees them.

INVARIANT: a drain reads the files of one listing, so that it ends. It takes another one only before a sweep that has
become due, and when it moves to Spark, which it does once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..errors import TidemillError
from ..protocol.records import Commit
from ..repo.opened import Opened
from ..sources.asked import is_positioned
from ..sources.contract import SourceFile
from . import plan as planning

LIST_AGAIN_S = 10.0
"""How long a listing is new enough to choose an engine: about what a start of Spark takes."""
LISTING_SHARE = 10
"""How many times as long as a listing took a drain waits at least before it lists again."""


class Backlog:
    """The waiting files of one drain."""

    def __init__(self, repo: Opened) -> None:
        self.repo = repo
        self._seen: planning.Waiting | None = None
        self._kept: planning.ListedSources | None = None
        self._list_again_at = 0.0

    @property
    def seen(self) -> Mapping[str, Sequence[SourceFile]]:
        """The files that waited when they were last asked for, by source. Empty if they were not."""
        return {} if self._seen is None else self._seen.files

    def keep(self, listed: planning.ListedSources | None) -> None:
        """Keep a listing that was made before it is needed. INVARIANT: the head was known before it was made."""
        self._kept = listed

    def forget(self) -> None:
        """List the sources again when the backlog is next asked for."""
        self._seen = None

    def take(self, waiting: planning.Waiting) -> None:
        """Continue with what a later listing has found."""
        self._seen = waiting

    def at(self, head: Commit | None) -> planning.Waiting:
        """Return the files that wait at `head`. `InvalidInput` if they do not fit those that were read."""
        if self._seen is not None:
            self._seen = planning.still_waiting(self.repo, head, self._seen)
        else:
            self._seen, self._kept = self._listed(head, self._kept), None
        return self._seen

    def listed_again(self, head: Commit | None) -> planning.Waiting | None:
        """Return the files that wait now, by a new listing. The drain keeps the old one until `take`.

        None if the last listing is new enough, or if there is an error, which is for the next run.
        """
        if time.monotonic() < self._list_again_at:
            return None
        try:
            return self._listed(head, None)
        except TidemillError:
            return None

    def _listed(self, head: Commit | None, listed: planning.ListedSources | None) -> planning.Waiting:
        started = time.monotonic()
        try:
            return planning.waiting(self.repo, head, listed)
        finally:
            ended = time.monotonic()
            self._list_again_at = ended + max(LIST_AGAIN_S, LISTING_SHARE * (ended - started))


def listing_if_possible(repo: Opened) -> planning.ListedSources | None:
    """List the sources, or return None on an error; the same error is raised when the listing is needed.

    Also None if a source must be looked at after a position, which only the head says.
    """
    if any(map(is_positioned, repo.job.sources.values())):
        return None
    try:
        return planning.listing(repo, None)
    except TidemillError:
        return None
