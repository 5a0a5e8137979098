"""`NewFilesTrigger`: wakes a DAG when files wait that no commit has read, in Airflow's triggerer.

It finds the folders of the sources in the repository, so it needs no code of the pipeline. INVARIANT: an event is a
hint that comes beside a clock. The run lists its sources itself, so an event that is lost, late or there twice changes
only when a file is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from ..errors import InvalidInput, TidemillError
from ..secret_names import holds_secret
from .calls.checks import check_root_argument, is_template, seconds_of
from .calls.connections import aws_variables_aside
from .waiting.cursor import Cursor, announce_files
from .waiting.heads import Heads, section_options
from .waiting.listings import FolderListing, KnownListings, Round

if TYPE_CHECKING:
    from ..sources.contract import SourceFile

DEFAULT_POLL_S = 30.0
_LOOK_AGAIN_S = 600.0
"""After so long the head is read even if no folder has changed, because the sources may be others."""
_SAY_AGAIN_S = 900.0
"""A warning is repeated after so long."""

LOG = logging.getLogger(__name__)


class NewFilesTrigger(BaseEventTrigger):
    """Makes an event when files arrived that no commit of the branch has read.

    It is for `AssetWatcher`, in an `AssetOrTimeSchedule` beside a clock; `tidemill_dags(…, watch=True)` does all of it.

    - `root`, `pipeline`, `branch`: as for the sensors. `pipeline` is the name in the code.
    - `poll_s`: seconds between two listings. A listing that takes long is repeated less often.
    - `options`, `source_options`: storage options of the root and of the sources, without secrets.
    - `conn_id`: an AWS connection of Airflow, from which the triggerer takes credentials. Default: its own role.

    Each file makes one event while it waits, by its name and ETag. Airflow keeps what was announced with the asset, so
    another triggerer continues. Triggers with the same `poll_s`, `source_options` and `conn_id` share their listings.
    Whatever cannot be read is a warning in the triggerer's log, and is tried again.

    The payload of an event has `pipeline`, `branch`, `files` (how many are new) and `sources`, the same by source.
    """

    def __init__(
        self,
        *,
        root: str,
        pipeline: str,
        branch: str = "main",
        poll_s: float = DEFAULT_POLL_S,
        options: Mapping[str, Any] | None = None,
        source_options: Mapping[str, Any] | None = None,
        conn_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        for what, text in (("root", root), ("pipeline", pipeline), ("branch", branch), ("conn_id", conn_id)):
            if is_template(text):
                raise InvalidInput(f"the trigger of new files got the template {what}={text!r}, which nothing renders")
        check_root_argument(root)
        seconds_of("poll_s", poll_s)
        _refuse_secrets("options", options)
        _refuse_secrets("source_options", source_options)
        self.root, self.pipeline, self.branch, self.poll_s = root, pipeline, branch, float(poll_s)
        self.options, self.source_options, self.conn_id = dict(options or {}), dict(source_options or {}), conn_id
        self._heads: Heads | None = None
        self._cursor: Cursor | None = None
        self._folders: list[str] | None = None
        self._seen: tuple[int, ...] = ()
        self._looked = 0.0
        self._said: dict[str, float] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments of this trigger."""
        names = ("root", "pipeline", "branch", "poll_s", "options", "source_options", "conn_id")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    def shared_stream_key(self) -> Hashable:
        """Return what triggers have in common that may share listings."""
        return ("tidemill.new_files", self.conn_id, self.poll_s, tuple(sorted(map(repr, self.source_options.items()))))

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Round]:
        """Yield a round of listings every `poll_s` seconds. Nothing is listed unless a trigger asks for it."""
        options, conn_id, known = dict(kwargs.get("source_options") or {}), kwargs.get("conn_id"), KnownListings()
        while True:
            try:
                found = Round({**await credentials(conn_id), **options}, known)
            except Exception as error:  # noqa: BLE001 - a backend of secrets may raise anything
                LOG.warning("cannot read the connection `%s`: %s", conn_id, error)
                await asyncio.sleep(float(kwargs["poll_s"]))
                continue
            yield found
            await found.rest(float(kwargs["poll_s"]))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Round]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each round in which files wait that were not announced."""
        async for listings in shared_stream:
            try:
                waiting = await listings.work(self._look(listings))
            except Exception as error:  # noqa: BLE001 - Airflow restarts a failed trigger each second
                self._heads = None  # the credentials may be others by now
                self._warn(str(error) if isinstance(error, TidemillError) else f"{type(error).__name__}: {error}")
                continue
            if waiting is None:
                continue
            if self._cursor is None:
                self._cursor = Cursor.of(await self._stored())
            cursor, fresh = announce_files(self._cursor, waiting)
            if fresh:
                yield _event(self.pipeline, self.branch, fresh)
            if cursor != self._cursor:
                # CRASH: Airflow stores the event within a second or so. If the triggerer dies before, and the cursor is
                # stored already, the event is lost, and the clock starts the run.
                self._cursor = cursor
                await self._store(cursor)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Do the same without other triggers."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    async def _look(self, listings: Round) -> list[SourceFile] | None:
        """Return the files that wait; None if no folder has changed since the last look."""
        if self._heads is None:
            self._heads = Heads(
                self.root, self.pipeline, self.branch, {**await credentials(self.conn_id), **self.options}
            )
        if self._folders is None or time.monotonic() - self._looked > _LOOK_AGAIN_S:
            self._folders = sorted({folder.uri for folder in await asyncio.to_thread(self._heads.folders)})
            self._looked, self._seen = time.monotonic(), ()
        found: dict[str, FolderListing] = {uri: await listings.listing(uri) for uri in self._folders}
        seen = tuple(listing.mark for listing in found.values())
        if seen == self._seen:
            return None
        entries = {uri: listing.entries for uri, listing in found.items()}
        waiting = await asyncio.to_thread(self._heads.waiting, entries)
        self._seen = seen
        return waiting

    async def _stored(self) -> Any:
        """Return the cursor that an earlier triggerer stored, or None."""
        if self.asset_state_store is None:
            return None
        try:
            return await self.asset_state_store.aget(self._key)
        except (AirflowRuntimeError, OSError, ValueError) as error:
            self._warn(f"cannot read what was announced: {error}")
            return None

    async def _store(self, cursor: Cursor) -> None:
        if self.asset_state_store is not None:
            try:
                await self.asset_state_store.aset(self._key, cursor.as_json())
            except (AirflowRuntimeError, OSError, ValueError) as error:
                self._warn(f"cannot store what was announced: {error}")

    @property
    def _key(self) -> str:
        """The name of the cursor. An asset may have several watchers."""
        mark = hashlib.blake2b("\0".join((self.root, self.pipeline, self.branch)).encode(), digest_size=6).hexdigest()
        return f"tidemill-cursor-{mark}"

    def _warn(self, message: str) -> None:
        """Log a warning, unless the same one was logged a short while ago."""
        now = time.monotonic()
        if now - self._said.get(message, float("-inf")) > _SAY_AGAIN_S:
            self._said = {message: now}
            self.log.warning("new files of `%s` under %s: %s", self.pipeline, self.root, message)


async def credentials(conn_id: str | None) -> dict[str, Any]:
    """Return the storage options that an AWS connection of Airflow stands for; none without a connection."""
    return section_options("root", None, await aws_variables_aside(conn_id))


def _event(pipeline: str, branch: str, fresh: Sequence[SourceFile]) -> TriggerEvent:
    sources: dict[str, int] = {}
    for file in fresh:
        sources[file.source] = sources.get(file.source, 0) + 1
    payload = {"pipeline": pipeline, "branch": branch, "files": len(fresh), "sources": sources}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


def _refuse_secrets(what: str, options: Mapping[str, Any] | None) -> None:
    for name, value in (options or {}).items():
        if holds_secret(str(name), value) or is_template(value):
            raise InvalidInput(
                f"{what} of the trigger of new files has `{name}`: Airflow stores the arguments of triggers, and "
                "renders no templates in them",
                hint="use conn_id=… with a connection of Airflow, or the role of the triggerer",
            )
