"""Rounds of listings that triggers share: in one round, a folder is listed once, for all pipelines that read it.

Of a large folder, most rounds list only the end, from the first of the newest objects on: names of new files usually
grow. Every ten minutes it is listed whole, because names may come in any order. INVARIANT: folders are listed in
threads, so the event loop of the triggerer goes on. At most a tenth of the time is spent on listings: a round that took
long is followed by a longer pause.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from ...values import dataclass
from .heads import list_folder

if TYPE_CHECKING:
    from ...store.contract import ListedObject

_T = TypeVar("_T")
_PAUSE = 9
"""A pause is at least so many times as long as the round before it."""
PAGE = 1_000
"""Objects that S3 returns for one request."""
_NEWEST = 100
"""The end of a folder begins with the first of so many objects that were modified last."""
WHOLE_S = 600.0
"""After so long a folder is listed whole again."""


@dataclass(frozen=True)
class FolderListing:
    """The objects of a folder. `mark` is another one if a name or an ETag is another one.

    The next listing begins with the object at `start`. `whole_at` is when all of it was listed.
    """

    entries: list[ListedObject]
    mark: int
    start: int
    whole_at: float


KnownListings = dict[str, FolderListing]
"""The newest listing of each folder, kept from round to round."""


@dataclass
class Round:
    """The listings of one round. `options` are for S3: those of the sources, and the credentials."""

    options: Mapping[str, Any] = field(repr=False)
    known: KnownListings = field(default_factory=dict, repr=False)
    started: float = field(default_factory=time.monotonic)
    _ended: float = field(default_factory=time.monotonic, repr=False)
    _tasks: dict[str, asyncio.Task[FolderListing]] = field(default_factory=dict, repr=False)
    _busy: set[asyncio.Future[Any]] = field(default_factory=set, repr=False)

    async def listing(self, uri: str) -> FolderListing:
        """Return the listing of a folder. All who ask for it in this round get the same one, or the same error."""
        if uri not in self._tasks:
            self._tasks[uri] = asyncio.create_task(self._list(uri))
        # A trigger that is cancelled must not cancel the listing of the others.
        return await asyncio.shield(self._tasks[uri])

    async def _list(self, uri: str) -> FolderListing:
        found = await asyncio.to_thread(_listing, uri, self.options, self.known.get(uri))
        self.known[uri] = found
        return found

    async def work(self, doing: Awaitable[_T]) -> _T:
        """Await what a trigger does in this round. The round ends when all of it has ended."""
        running = asyncio.ensure_future(doing)
        self._busy.add(running)
        try:
            return await running
        finally:
            self._busy.discard(running)
            self._ended = time.monotonic()

    async def rest(self, poll_s: float) -> None:
        """Wait until the next round may begin: for `poll_s` seconds, until this round has ended, and for the pause."""
        await asyncio.sleep(poll_s)
        while waiting := [*self._busy, *(task for task in self._tasks.values() if not task.done())]:
            await asyncio.wait(waiting)
        pause_s = (self._ended - self.started) * _PAUSE - (time.monotonic() - self._ended)
        await asyncio.sleep(max(pause_s, 0.0))


def _listing(uri: str, options: Mapping[str, Any], before: FolderListing | None) -> FolderListing:
    """List a folder: whole, or if it was listed whole a short while ago, its end."""
    if before is None or before.start == 0 or time.monotonic() - before.whole_at > WHOLE_S:
        entries, whole_at = list_folder(uri, options), time.monotonic()
    else:
        kept = before.entries[: before.start]
        entries, whole_at = [*kept, *list_folder(uri, options, kept[-1].name)], before.whole_at
    return FolderListing(
        entries, hash(frozenset((entry.name, entry.etag) for entry in entries)), _start(entries), whole_at
    )


def _start(entries: list[ListedObject]) -> int:
    """Return the place of the first of the newest objects; 0 if to begin there saves no request."""
    if len(entries) <= PAGE:
        return 0
    newest = heapq.nlargest(_NEWEST, range(len(entries)), key=lambda place: (entries[place].modified_ms, place))
    return start if (start := min(newest)) >= PAGE else 0
