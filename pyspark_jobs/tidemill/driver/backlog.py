"""`Backlog`: the files that wait, as one drain sees them.

INVARIANT: the sources are listed once in a drain, so that it ends, and so that the cost of listing does not grow with
the number of batches. They are listed again only where the reasons say so: before a sweep that is due after the
listing, and while a backlog that grows may call for Spark, which happens once.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from ..errors import TidemillError
from ..protocol.records import Commit, Plan
from ..sources.contract import SourceFile
from . import plan as planning
from .context import Context

LIST_AGAIN_S = 10.0
"""How long a listing is new enough to choose an engine: about what a start of Spark takes."""


class Backlog:
    """The waiting files of one drain."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._seen: planning.Waiting | None = None
        self._ahead: planning.Listing | None = None
        self._listed: planning.Listing | None = None
        self._listed_at = 0.0

    def keep(self, listed: planning.Listing | None) -> None:
        """Keep a listing that was made before it is needed. INVARIANT: the head was known before it was made."""
        self._ahead = listed

    def forget(self) -> None:
        """List the sources again when the backlog is next asked for."""
        self._seen = None

    def at(self, head: Commit | None) -> planning.Waiting:
        """Return the files that wait at `head`."""
        if self._seen is not None:
            self._seen = planning.still_waiting(self.context, head, self._seen)
            return self._seen
        self._listed_at = time.monotonic()
        self._listed = self._ahead or planning.listing(self.context)
        self._seen, self._ahead = planning.waiting(self.context, head, self._listed), None
        return self._seen

    def has_grown(self, batch: Plan, calls_for_spark: Callable[[Plan], bool]) -> bool:
        """Whether so much has arrived since the listing that a batch that would run in this process is one for Spark.

        Then the drain continues with what is there now. Otherwise, files that have arrived are for the next run.
        """
        if self._listed is None or time.monotonic() - self._listed_at < LIST_AGAIN_S:
            return False
        found = listing_if_possible(self.context)
        self._listed_at = time.monotonic()
        if found is None or not calls_for_spark(_with_arrived(batch, self._listed, found)):
            return False
        self._seen, self._ahead = None, found
        return True


def listing_if_possible(context: Context) -> planning.Listing | None:
    """List the sources, or return None on an error; the same error is raised when the listing is needed."""
    try:
        return planning.listing(context)
    except TidemillError:
        return None


def _with_arrived(batch: Plan, before: planning.Listing, now: planning.Listing) -> Plan:
    """Return the plan of a batch, with the files that a later listing has and an earlier one has not behind it."""
    known = {_identity(file) for files in before.files.values() for file in files}
    arrived = sum(file.size for files in now.files.values() for file in files if _identity(file) not in known)
    return dataclasses.replace(batch, outstanding_bytes=batch.outstanding_bytes + arrived)


def _identity(file: SourceFile) -> tuple[str, str, str]:
    return file.source, file.path, file.etag
