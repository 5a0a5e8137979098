"""Rounds of listings that triggers share: in one round, a folder is listed once, for all pipelines that read it.

INVARIANT: folders are listed in threads, so the event loop of the triggerer goes on. At most a tenth of the time is
spent on listings: a round that took long is followed by a longer pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .heads import list_folder

if TYPE_CHECKING:
    from ..store import Entry

T = TypeVar("T")
_PAUSE = 9
"""A pause is at least so many times as long as the round before it."""


@dataclass(frozen=True)
class Listing:
    """The objects of a folder. `mark` is another one if a name or an ETag is another one."""

    entries: list[Entry]
    mark: int


@dataclass
class Round:
    """The listings of one round. `options` are for S3: those of the sources, and the credentials."""

    options: Mapping[str, Any] = field(repr=False)
    started: float = field(default_factory=time.monotonic)
    _ended: float = field(default_factory=time.monotonic, repr=False)
    _tasks: dict[str, asyncio.Task[Listing]] = field(default_factory=dict, repr=False)
    _busy: set[asyncio.Future[Any]] = field(default_factory=set, repr=False)

    async def listing(self, uri: str) -> Listing:
        """Return the listing of a folder. All who ask for it in this round get the same one, or the same error."""
        if uri not in self._tasks:
            self._tasks[uri] = asyncio.create_task(asyncio.to_thread(_listing, uri, self.options))
        # A trigger that is cancelled must not cancel the listing of the others.
        return await asyncio.shield(self._tasks[uri])

    async def work(self, doing: Awaitable[T]) -> T:
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


def _listing(uri: str, options: Mapping[str, Any]) -> Listing:
    entries = list_folder(uri, options)
    return Listing(entries, hash(frozenset((entry.name, entry.etag) for entry in entries)))
