"""`tm.StateMap`: the engine's versioned map for direct use, with single keys as Python objects or arrays as Arrow.

Semantics are those of Spark Streaming's `StateMap` (`org.apache.spark.streaming.util.OpenHashMapBasedStateMap`).
INVARIANT: this module decides nothing about a row. The Rust engine compares keys and times and keeps the versions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from .. import _native
from .._native import StateMap as EngineMap
from ..errors import InvalidInput, repr_of
from ..protocol.records import HASH_END
from ..schema import is_unnamed, to_arrow
from ..schema.kernels import pc
from .iterating import rows_in_parts, sliced
from .map_arrays import deadlines_in, rows_in, typed_columns
from .map_files import KEY, STATE, columns_of, no_segment, path_of, read_file, write_file

_HASHES = (0, HASH_END)
_BEYOND = 2**63


class StateMap:
    """A map from key to state with cheap versions: `copy()` makes a new version and leaves the old one unchanged.

    `key` and `state` are DDL strings, `pyarrow.Schema`, `StructType` or dataclasses. With a bare type (`"string"`),
    keys or states are scalars. Otherwise they are rows: `tm.Row`, tuples or dicts. Times are ms since the epoch. Keys
    are equal as in Spark: -0.0 equals 0.0, NaN equals NaN, and null is a key. Returned objects are copies: changing one
    does not change the map.

    A version is a chain: a base, and a delta for every `copy()` after changes. `should_compact` becomes true when the
    chain has `delta_chain_threshold` deltas.

    A call for a single key takes one to five microseconds for plain types. For many keys at once, `get_many`,
    `put_many` and `remove_many` take a fraction of that time per key.

    Threads may share a map. Changes wait for each other; `get` and `in` never wait. Other reads first seal the changes
    of single-key puts, which counts as a change. If a process forks while another thread is in a call on the map, the
    child continues with the map as it was before that call.

    >>> import tidemill as tm
    >>> clicks = tm.StateMap("string", "bigint")
    >>> clicks.put("ann", 3, updated_ms=1_000)
    >>> later = clicks.copy()
    >>> later.put("ann", 4, updated_ms=2_000)
    >>> clicks.get("ann"), later.get("ann"), "bob" in later, len(later)
    (3, 4, False, 1)
    >>> list(later.get_by_time(2_001))
    [('ann', 4, 2000)]
    """

    def __init__(self, key: Any, state: Any, delta_chain_threshold: int = 20) -> None:
        if isinstance(delta_chain_threshold, bool) or not isinstance(delta_chain_threshold, int):
            raise InvalidInput(
                f"StateMap: delta_chain_threshold is {repr_of(delta_chain_threshold)}, expected a whole number"
            )
        if delta_chain_threshold < 1:
            raise InvalidInput(
                f"StateMap: delta_chain_threshold is {repr_of(delta_chain_threshold)}, expected at least 1"
            )
        self._threshold = delta_chain_threshold
        self._key, self._state = to_arrow(key, unnamed=KEY), to_arrow(state, unnamed=STATE)
        self._schema = _native.MapSchema("state map", self._key, pa.schema([]), self._state)
        self._unnamed = (is_unnamed(key), is_unnamed(state))
        self._codec = _native.Codec(self._schema, *self._unnamed, "UTC")
        self._hold(EngineMap.open(self._schema, [], *_HASHES))
        self._refuses: str | None = None

    @classmethod
    def empty(cls, key: Any, state: Any) -> StateMap:
        """Return an empty map that accepts no states: `put` raises `InvalidInput`, and `copy()` returns the same map.

        `remove` does nothing. Spark: `EmptyStateMap`. Files do not record this property: a map that is read from a file
        accepts states.

        >>> nothing = StateMap.empty("string", "bigint")
        >>> nothing.get("ann") is None, nothing.copy() is nothing
        (True, True)
        """
        made = cls(key, state)
        made._refuses = "the empty state map accepts no states"
        return made

    # Single keys.

    def get(self, key: Any) -> Any:
        """Return the state of `key`, or None if the key has no state."""
        return self._single.get(key)

    def put(self, key: Any, state: Any, updated_ms: int, deadline_ms: int | None = None) -> None:
        """Set the state of `key`. `updated_ms` and `deadline_ms` are ms since the epoch.

        Without `deadline_ms`, the key has no deadline from now on. None is not a valid state and raises `InvalidInput`.
        As in Spark, a row is a valid state even if all its columns are None.
        """
        self._check_writable()
        deadline = None if deadline_ms is None else _ms(deadline_ms, "deadline_ms")
        self._single.put(key, state, _ms(updated_ms, "updated_ms"), deadline)

    def remove(self, key: Any) -> None:
        """Remove the key from this version. An unknown key is not an error."""
        if self._refuses is None:
            self._single.remove(key)

    def __contains__(self, key: Any) -> bool:
        """Whether `key` has a state."""
        return self._single.contains(key)

    def __len__(self) -> int:
        """The number of keys with a state. In a map with deltas they are counted, so the cost grows with its size."""
        return len(self._map)

    def get_by_time(self, threshold_ms: int) -> Iterator[tuple[Any, Any, int]]:
        """Yield (key, state, updated_ms) for every key that was updated strictly before `threshold_ms`.

        The call reads all keys. Like `get_all`, it iterates part by part over the map as it is at the time of the call.
        """
        threshold_ms = _ms(threshold_ms, "threshold_ms")
        return _without_deadline(rows_in_parts(self._codec, self._map, lambda part: part.updated_before(threshold_ms)))

    def get_all(self) -> Iterator[tuple[Any, Any, int]]:
        """Yield (key, state, updated_ms) for every key, in the order of the hashes of the keys.

        The iterator makes Python objects for about two thousand keys at a time, as you consume it, and other threads
        run in between. Changes after this call do not show, however long you use the iterator.
        """
        return _without_deadline(rows_in_parts(self._codec, self._map, EngineMap.scan))

    def get_due(self, now_ms: int) -> Iterator[tuple[Any, Any, int, int]]:
        """Yield (key, state, updated_ms, deadline_ms) for every key with a deadline at or before `now_ms`.

        The cost grows with the number of due keys, not with the size of the map. The call itself finds the rows, as
        Arrow columns, so later changes do not show. The iterator makes the Python objects as `get_all` does.
        """
        due = sliced(self._codec, self._map.get_due(_ms(now_ms, "now_ms")))
        return ((key, state, updated, deadline) for key, state, updated, deadline in due if deadline is not None)

    # Whole arrays.

    def get_many(self, keys: Any) -> pa.Table:
        """Return one row for each of `keys`, in the same order: the state columns, `updated_at` and `deadline`.

        A key has no state if its `updated_at` is null. The state columns alone do not show that, because a row of nulls
        is a valid state.

        `keys` has the key columns as a table, or is an array if the key is one column. It may come from pyarrow or from
        any library that implements the Arrow PyCapsule interface, such as Polars, DuckDB or nanoarrow. Data with the
        canonical types (docs/format.md) is not copied. Invalid data, such as offsets beyond their buffer or text that
        is not UTF-8, raises `InvalidInput`. The interface does not transmit the lengths of buffers, so a producer that
        reports a wrong type or row count can crash the process. All of this holds for `put_many` and `remove_many` too.
        """
        _, rows = self._map.get_many(rows_in(keys, self._key, "keys"))
        return pa.Table.from_batches([rows])

    def put_many(self, keys: Any, states: Any, updated_ms: int, deadlines_ms: Any = None) -> None:
        """Set the states of all `keys`. If a key occurs more than once, its last state counts.

        `updated_ms` applies to all keys. `deadlines_ms` are int64, in ms since the epoch; a null means no deadline. As
        in `put`, a null is not a valid scalar state, and a row of nulls is a valid row state.
        """
        self._check_writable()
        states = rows_in(states, self._state, "states")
        if self._unnamed[1] and states.column(0).null_count:
            raise InvalidInput(
                "StateMap.put_many: `states` contains a null, which is not a valid state",
                hint="remove those keys with remove_many",
            )
        deadlines = None if deadlines_ms is None else deadlines_in(deadlines_ms)
        self._map.put_many(rows_in(keys, self._key, "keys"), states, _ms(updated_ms, "updated_ms"), deadlines)

    def remove_many(self, keys: Any) -> None:
        """Remove all `keys` from this version. Unknown keys are not an error."""
        batch = rows_in(keys, self._key, "keys")
        if self._refuses is None:
            self._map.remove_many(batch)

    # Versions.

    def copy(self) -> StateMap:
        """Return a new version on top of this one. Changes to one of the two do not show in the other.

        The changes of this version are sealed as one sorted run. If that would make more than eight runs, the newest
        ones are merged, so that a long chain stays as fast as a short one.
        """
        if self._refuses is not None:
            return self
        made = StateMap.__new__(StateMap)
        made.__dict__.update(self.__dict__)
        made._hold(self._map.next_version())
        return made

    __copy__ = copy

    def __deepcopy__(self, _memo: dict[int, Any]) -> StateMap:
        return self.copy()

    def __reduce__(self) -> Any:
        raise InvalidInput(
            "a StateMap cannot be pickled", hint="write it with write_base(path) and read it with StateMap.read(path)"
        )

    @property
    def delta_chain_length(self) -> int:
        """The number of deltas on top of the base. A version without changes adds no delta."""
        return self._map.deltas()

    @property
    def should_compact(self) -> bool:
        """Whether the chain has at least `delta_chain_threshold` deltas."""
        return self.delta_chain_length >= self._threshold

    @property
    def approx_size(self) -> int:
        """The approximate memory of keys, states and times, in bytes. Versions share the parts they have in common."""
        return sum(run.nbytes for run in self._map.runs())

    def compact(self) -> None:
        """Merge the chain into one base. The content of the map does not change, and other versions are not affected.

        The changes since this version was made are also kept until the next `copy()`, so `write_delta` still writes all
        of them. `InvalidInput` if one base cannot hold the map, because a column has more than 2 GiB of text.
        """
        self._map.compact()

    def to_debug_string(self) -> str:
        """Return a text with the size of the map and its sorted runs, newest first, with rows, removals and bytes."""
        lines = [f"StateMap with {len(self)} keys, {self.delta_chain_length} over the base"]
        for run in reversed(self._map.runs()):
            removed = pc.sum(run.rows().column("deleted")).as_py() or 0
            lines.append(f"  {len(run)} rows ({removed} removals), {run.nbytes} bytes")
        return "\n".join(lines)

    # Files.

    def write_delta(self, path: str | os.PathLike[str]) -> None:
        """Write the changes since this version was made by `copy()` or `read`, with removals, as a Parquet segment.

        Changes that `compact()` merged into a base are included. The file appears under its name only when it is
        complete. `StoreUnavailable` if it cannot be written.
        """
        delta = self._map.delta()
        changed = EngineMap.open(self._schema, [], *_HASHES).base() if delta is None else delta
        write_file(path_of(path), changed.write())

    def write_base(self, path: str | os.PathLike[str]) -> None:
        """Write all of this version as a Parquet segment that can be read by itself.

        The file appears under its name only when it is complete. `StoreUnavailable` if it cannot be written.
        """
        write_file(path_of(path), self._map.base().write())

    @classmethod
    def read(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        key: Any = None,
        state: Any = None,
        delta_chain_threshold: int = 20,
    ) -> StateMap:
        """Read a map from segments: first a base, then its deltas from the oldest to the newest.

        A segment does not record which segment it follows. If the deltas are in the wrong order or one is missing, the
        map is wrong, and Tidemill cannot detect it. Use `tm.StateStore` if you want the list to be kept for you.

        Without `key` and `state`, the schemas are those of the files. There, a single column called `key` (or `state`)
        becomes an unnamed column, whose values are scalars. Files do not record `delta_chain_threshold`.

        `CorruptState` for a file that is missing, damaged or not a segment. `InvalidInput` for segments with different
        schemas, and if their content does not fit into memory.
        """
        if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
            paths = [paths]
        if not paths:
            raise InvalidInput("StateMap.read: found no paths, expected a base and its deltas")
        read = [(path, read_file(path)) for path in map(path_of, paths)]
        first, data = read[0]
        in_file = columns_of(first, data)
        found = [schema.field(0).type if unnamed else schema for schema, unnamed in in_file]
        try:
            own = cls(*found)
        except InvalidInput as error:
            raise no_segment(first, error) from error
        runs = []
        for path, data in read:
            if columns_of(path, data) != in_file:
                raise InvalidInput(
                    f"StateMap.read: `{path}` has different columns from `{first}`", hint="name files of one map"
                )
            runs.append(_native.Run.read(own._schema, data, str(path)))
        asked_key, asked_state = found[0] if key is None else key, found[1] if state is None else state
        made = cls(asked_key, asked_state, delta_chain_threshold)
        for expected, (schema, _) in zip((made._key, made._state), in_file, strict=True):
            if expected.names != schema.names or expected.types != schema.types:
                wanted = f"expected ({typed_columns(expected)})"
                raise InvalidInput(f"StateMap.read: `{first}` has the columns ({typed_columns(schema)}), {wanted}")
        made._hold(EngineMap.open(made._schema, [run for run in runs if len(run)], *_HASHES))
        return made

    def _hold(self, engine: EngineMap) -> None:
        self._single = _native.SingleKeys(self._codec, engine)

    @property
    def _map(self) -> EngineMap:
        """The engine's map, after the changes of single-key calls were sealed into it."""
        return self._single.flush()

    def _check_writable(self) -> None:
        if self._refuses is not None:
            raise InvalidInput(f"StateMap: {self._refuses}", hint="make a map with StateMap(key, state)")

    def __repr__(self) -> str:
        return f"StateMap(({typed_columns(self._key)}) -> ({typed_columns(self._state)}), {len(self)} keys)"


def _without_deadline(rows: Iterator[tuple[Any, Any, int, int | None]]) -> Iterator[tuple[Any, Any, int]]:
    return ((key, state, updated) for key, state, updated, _ in rows)


def _ms(value: Any, what: str) -> int:
    if type(value) is int and -_BEYOND <= value < _BEYOND:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not -_BEYOND <= value < _BEYOND:
        raise InvalidInput(f"StateMap: {what} is {repr_of(value)}, expected whole ms since the epoch")
    return value
