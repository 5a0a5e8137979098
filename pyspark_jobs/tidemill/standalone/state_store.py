"""`tm.StateStore`: Spark's state store contract over Tidemill's segments, as a small repository of its own.

Spark: `org.apache.spark.sql.execution.streaming.state.StateStore` and `StateStoreProvider`. `store_log` finds the
versions that exist and makes new ones. INVARIANT: the conditional create of the record of a version is the whole
commit, so a version is never made twice.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from .. import _native, names
from ..clock import now_ms
from ..errors import Fenced, InvalidInput, TidemillError, repr_of
from ..protocol.named import named
from ..protocol.records import HASH_END, StoreVersion
from ..schema import is_unnamed, to_arrow
from ..settings import resolve_settings
from ..state.cache import RunCache, process_cache
from ..state.columns import MapColumns
from ..state.versions import OpenedMap, open_map, persist
from ..store import open_store, probe
from .iterating import rows_in_parts
from .store_log import StoreLog


class StateStore:
    """The versions of the state of one partition of an operator, stored under `root`.

    `root` is a folder or `s3://bucket/prefix`. `operator` is a name like that of a pipeline, `partition` a number from
    0 to 99999. `key` and `state` are schemas as for `tm.StateMap`. `storage_options` are those of the root.

    Version 0 is empty. `get(n)` opens version n for changes, and its `commit()` makes version n + 1, which only one
    writer can make. Every version stays readable until `maintain` drops it.

    >>> import tempfile, tidemill as tm
    >>> counts = tm.StateStore(tempfile.mkdtemp(), "counts", 0, key="string", state="bigint")
    >>> store = counts.get(0)
    >>> store.put("ann", 3)
    >>> store.commit()
    1
    >>> counts.getReadOnly(1).get("ann"), counts.getReadOnly(0).get("ann"), counts.latest
    (3, None, 1)
    """

    def __init__(
        self,
        root: str,
        operator: str,
        partition: int,
        *,
        key: Any,
        state: Any,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 10**5:
            raise InvalidInput(f"StateStore: partition is {repr_of(partition)}, expected a number from 0 to 99999")
        names.check_name(operator, "operator")
        columns = MapColumns("state", to_arrow(key, unnamed="key"), pa.schema([]), to_arrow(state, unnamed="state"))
        self._columns = columns
        self._schema = columns.engine()
        self._codec = _native.Codec(self._schema, is_unnamed(key), is_unnamed(state), "UTC")
        self._store = open_store(root, storage_options).at(names.store_folder(operator, partition))
        self._log = StoreLog(self._store)
        self._cache: RunCache = process_cache(resolve_settings()[0])
        self._probed = False

    @property
    def latest(self) -> int:
        """The newest version; 0 if nothing was committed yet. `CorruptState` if the record of a version was lost.

        The cost does not grow with the number of versions, because records are listed from the hint (`head.json`) on.
        If the hint and the newest record are lost together, that version counts as never committed.
        """
        return self._log.newest()

    def get(self, version: int) -> StateStoreVersion:
        """Open version `version` for changes. `InvalidInput` if the version does not exist or was dropped.

        A version may be opened any number of times. The first commit on top of it makes the next version.
        """
        self._probe()
        opened = self._open(version, read_only=False)
        following = version + 1
        if not self._log.exists(following) and self.latest > version and not self._log.exists(following):
            raise self._log.lost(following)
        return opened

    def getReadOnly(self, version: int) -> StateStoreVersion:
        """Open version `version` for reading. `put`, `remove` and `commit` raise `InvalidInput`."""
        return self._open(version, read_only=True)

    def maintain(self, keep: int = 100) -> int:
        """Drop all versions except the newest `keep`, and delete the segments that only dropped versions use.

        Return the number of deleted segments. Segments are merged by commits, not here.
        CRASH: the floor is recorded before anything is deleted. The next call deletes the segments that a crash left.
        """
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise InvalidInput(f"StateStore.maintain: keep is {repr_of(keep)}, expected at least 1")
        newest = self._log.newest()
        floor = self._log.raise_floor(max(newest - keep + 1, 0))
        kept = (self._record(version) for version in range(max(floor, 1), newest + 1))
        in_use = {one.name for record in kept for one in named(record)}
        gone = [name for name in self._log.segments(newest) if name not in in_use]
        self._store.delete_many(gone)
        return len(gone)

    def _open(self, version: int, read_only: bool) -> StateStoreVersion:
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= names.LAST_NUMBER:
            raise InvalidInput(
                f"StateStore: version is {repr_of(version)}, expected a number from 0 to {names.LAST_NUMBER}"
            )
        floor = self._log.floor()
        if version < floor:
            raise InvalidInput(f"StateStore: version {version} was dropped; versions go from {floor} to {self.latest}")
        record = self._record(version) if version else None
        if not version and (first := self._log.read(1)) is not None:
            self._of_these_columns(first)
        opened = open_map(self._store, self._cache, self._schema, record.segments if record else [], 0, HASH_END)
        return StateStoreVersion(self, version, opened, record.rows_total if record else 0, read_only)

    def _record(self, version: int) -> StoreVersion:
        found = self._log.read(version)
        if found is None:
            newest = self.latest
            if version > newest:
                there = f"the newest in `{self._store.uri}` is {newest}"
                raise InvalidInput(f"StateStore: there is no version {version}; {there}")
            raise self._log.lost(version)
        return self._of_these_columns(found)

    def _of_these_columns(self, found: StoreVersion) -> StoreVersion:
        mine = self._columns.describe()
        if (found.key, found.state) != (mine["key"], mine["value"]):
            raise InvalidInput(
                f"StateStore: `{self._store.uri}` has the key ({found.key}) and the state ({found.state}), "
                f"but was opened with ({mine['key']}) and ({mine['value']})"
            )
        return found

    def _probe(self) -> None:
        if not self._probed:
            probe(self._store)
            self._probed = True

    def _commit(self, opened: OpenedMap, after: _native.StateMap, version: int, rows_total: int) -> None:
        """Make `version`, or find that another writer made it with the same changes.

        CRASH: segments are stored before the record. A crash between them leaves segments that no record names, which
        `maintain` deletes.
        """
        attempt = uuid.uuid4().hex[:16]
        segments = persist(self._store, self._cache, opened, after, version, names.store_segment(version, attempt))
        mine = self._columns.describe()
        record = StoreVersion(version, attempt, mine["key"], mine["value"], segments, rows_total, now_ms())
        there = self._log.claim(record)
        if there.attempt == attempt:
            return
        self._discard(record)
        self._of_these_columns(there)
        if _shown(there) != _shown(record):
            raise Fenced(
                f"commit version {version} in `{self._store.uri}`: another writer made this version with other changes",
                hint=f"open version {version} and make your changes there",
            )

    def _discard(self, lost: StoreVersion) -> None:
        """Delete the segments that an attempt stored whose version another attempt made.

        INVARIANT: the record of `lost` can no longer be created, and no other record names segments of its attempt. A
        delete that fails is not an error, because `maintain` deletes what remains.
        """
        ours = [one.name for one in lost.segments if f"-{lost.attempt}" in one.name]
        with suppress(TidemillError):
            self._store.delete_many(ours)

    def __repr__(self) -> str:
        return f"StateStore({self._store.uri!r})"


def _shown(record: StoreVersion) -> list[tuple[str, int, int]]:
    """Return the content of each segment and the range that it shows. Equal changes of a version give equal lists."""
    return [(one.checksum, one.lo, one.hi) for one in record.segments]


class StateStoreVersion:
    """One version of a `StateStore`, and the changes that you make to it. Others see them only after `commit()`.

    Threads may share it. A change waits while another thread commits. If the commit succeeds, the change raises
    `InvalidInput`; if the commit fails, the change is made.
    """

    def __init__(self, of: StateStore, version: int, opened: OpenedMap, rows_total: int, read_only: bool) -> None:
        self._of = of
        self._opened = opened
        self._single = _native.SingleKeys(of._codec, opened.map.copy())
        self._rows_total = rows_total
        self._read_only = read_only
        self._ended = "it is read-only" if read_only else None
        self._committed = False
        # INVARIANT: a commit contains every change that returned without an error before it. The lock is re-entrant,
        # because the methods of a user's key may call the store.
        self._changing = threading.RLock()
        self.version = version
        """The version that was opened, without the changes."""

    def get(self, key: Any) -> Any:
        """Return the state of `key`, including the changes made here, or None if the key has no state."""
        return self._single.get(key)

    def put(self, key: Any, state: Any) -> None:
        """Set the state of `key`. None is not a valid state and raises `InvalidInput`."""
        with self._changing:
            self._check("put")
            self._single.put(key, state, 0)  # Spark's contract has no times; so equal changes make equal segments

    def remove(self, key: Any) -> None:
        """Remove the key. An unknown key is not an error."""
        with self._changing:
            self._check("remove")
            self._single.remove(key)

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        """Yield (key, state) for every key, including the changes made here so far, in the order of the key hashes.

        The iterator makes Python objects for about two thousand keys at a time, as you consume it, and other threads
        run in between. Later calls of `put`, `remove` and `abort` do not affect it.
        """
        return ((key, state) for key, state, _, _ in rows_in_parts(self._of._codec, self._map, _native.StateMap.scan))

    def commit(self) -> int:
        """Make the next version durable, and return its number. After that, nothing can be changed here.

        `Fenced` if another writer made the next version with other changes. If it made the same changes, as a task that
        runs twice does, both commits succeed with the same version. So two writers that each add one to the same number
        both succeed, and the number rises by one.

        `StoreUnavailable` means that the outcome is unknown: commit again. A crash leaves the next version complete or
        not made.
        """
        with self._changing:
            self._check("commit")
            after = self._map
            self._of._commit(self._opened, after, self.version + 1, self._rows_total + after.live_change())
            self._ended, self._committed = "its changes were committed", True
        return self.version + 1

    def abort(self) -> None:
        """Discard the changes. After that, nothing can be changed here. After `commit` it raises `InvalidInput`.

        For a read-only version it does nothing. In Spark a reader must end with `abort`; here it need not.
        """
        if self._read_only:
            return
        with self._changing:
            self._check("abort")
            self._single = _native.SingleKeys(self._of._codec, self._opened.map.copy())
            self._ended = "its changes were aborted"

    @property
    def hasCommitted(self) -> bool:
        """Whether `commit()` succeeded."""
        return self._committed

    @property
    def metrics(self) -> dict[str, int]:
        """`numKeys` and `memoryUsedBytes` of the version with the changes made here. Spark: `StateStoreMetrics`."""
        return {
            "numKeys": self._rows_total + self._map.live_change(),
            "memoryUsedBytes": sum(run.nbytes for run in self._map.runs()),
        }

    @property
    def _map(self) -> _native.StateMap:
        return self._single.flush()

    def _check(self, verb: str) -> None:
        if self._ended is not None:
            raise InvalidInput(
                f"StateStore: cannot {verb} at version {self.version}: {self._ended}",
                hint=f"open a version for changes with get({self.version + self._committed})",
            )
