"""`tm.StateMap`: the engine's versioned map by itself, with single keys as Python objects and whole arrays as Arrow.

Semantics are those of Spark Streaming's `StateMap` (`org.apache.spark.streaming.util.OpenHashMapBasedStateMap`).
Nothing is decided here about a row: keys, times and versions are the Rust engine's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .._native import Codec, MapSchema, Run, SingleKeys
from .._native import StateMap as EngineMap
from ..errors import InvalidInput, repr_of
from ..protocol.records import HASH_END
from ..schema import is_unnamed, to_arrow
from .iterating import rows_in_parts, sliced
from .map_arrays import deadlines_in, listed, rows_in
from .map_files import KEY, STATE, columns_of, no_segment, path_of, read_file, write_file

_HASHES = (0, HASH_END)
_BEYOND = 2**63


class StateMap:
    """A map from key to state whose versions are cheap: `copy()` makes a new one over an unchanged old one.

    `key` and `state` are DDL strings, `pyarrow.Schema`, `StructType` or dataclasses; one bare type (`"string"`) means
    scalars, else keys and states are rows (`tm.Row`, tuples, dicts). Times are ms since the epoch. Equal keys are
    Spark's: −0.0 is 0.0, one NaN, null is a key. What it hands out are values: to change one changes nothing here.

    A version is a chain: a base and, for every `copy()` after changes, a delta; after `delta_chain_threshold` of them
    `should_compact` says so. A single-key call costs one to five microseconds for plain types; for many keys at once
    use `get_many` and its kin, which cost a fraction of that a key. Threads may share a map: changes wait for one
    another, `get` and `in` for nobody; other reads first seal what single-key puts left, which is a change. A process
    that is forked while another thread is in a call on the map goes on with the map as it was before that call.

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
        self._schema = MapSchema("state map", self._key, pa.schema([]), self._state)
        self._unnamed = (is_unnamed(key), is_unnamed(state))
        self._codec = Codec(self._schema, *self._unnamed, "UTC")
        self._hold(EngineMap.open(self._schema, [], *_HASHES))
        self._refuses: str | None = None

    @classmethod
    def empty(cls, key: Any, state: Any) -> StateMap:
        """The empty map: `put` raises `InvalidInput`, `remove` does nothing, and `copy()` gives the same map.

        Spark: `EmptyStateMap`. A file holds rows and not whose they are: read back, it is a map that takes states.

        >>> nothing = StateMap.empty("string", "bigint")
        >>> nothing.get("ann") is None, nothing.copy() is nothing
        (True, True)
        """
        made = cls(key, state)
        made._refuses = "the empty state map takes no states: make a map that does with StateMap(key, state)"
        return made

    # Single keys.

    def get(self, key: Any) -> Any:
        """The state of `key`, None if it has none."""
        return self._single.get(key)

    def put(self, key: Any, state: Any, updated_ms: int, deadline_ms: int | None = None) -> None:
        """Sets the state of `key`. Without a deadline the key has none from now on.

        None as a state is refused; a row is a state even where all its columns are None, as in Spark.
        """
        self._check_writable()
        deadline = None if deadline_ms is None else _ms(deadline_ms, "deadline_ms")
        self._single.put(key, state, _ms(updated_ms, "updated_ms"), deadline)

    def remove(self, key: Any) -> None:
        """Takes the key out of this version. An unknown key is no error."""
        if self._refuses is None:
            self._single.remove(key)

    def __contains__(self, key: Any) -> bool:
        """Whether the key has a state."""
        return self._single.contains(key)

    def __len__(self) -> int:
        """Keys with a state, counted: the cost grows with the map where it has changes."""
        return len(self._map)

    def get_by_time(self, threshold_ms: int) -> Iterator[tuple[Any, Any, int]]:
        """(key, state, updated_ms) of every key updated strictly before `threshold_ms`. Looks at all keys.

        Iterated as `get_all` is: part by part, and of the version as it is now.
        """
        threshold_ms = _ms(threshold_ms, "threshold_ms")
        return _without_deadline(rows_in_parts(self._codec, self._map, lambda part: part.updated_before(threshold_ms)))

    def get_all(self) -> Iterator[tuple[Any, Any, int]]:
        """(key, state, updated_ms) of every key, in the order of the keys' hashes.

        Objects are made for some thousand keys at a time, when they are asked for, and other threads run in between.
        What is changed after this call does not show, however long the iterator is used.
        """
        return _without_deadline(rows_in_parts(self._codec, self._map, EngineMap.scan))

    def get_due(self, now_ms: int) -> Iterator[tuple[Any, Any, int, int]]:
        """(key, state, updated_ms, deadline_ms) of every key with a deadline at or before `now_ms`.

        What it costs follows what is due, not what there is. The rows are found by this call, as Arrow columns, so
        later changes do not show; objects are made of them as `get_all` does it.
        """
        due = sliced(self._codec, self._map.get_due(_ms(now_ms, "now_ms")))
        return ((key, state, updated, deadline) for key, state, updated, deadline in due if deadline is not None)

    # Whole arrays.

    def get_many(self, keys: Any) -> pa.Table:
        """A row for each of `keys`, in their order: state columns, `updated_at`, `deadline`; null where there is none.

        A key without a state is one whose `updated_at` is null: a row of nulls is a state too.

        `keys`: the key columns as a table, or an array where the key is one column: of pyarrow, or of anything else
        that speaks the Arrow PyCapsule interface (Polars, DuckDB, nanoarrow …). What has the canonical types
        (docs/format.md) is not copied. Broken data (offsets beyond their buffer, text that is not UTF-8) is refused as
        `InvalidInput`; but the interface tells no lengths of buffers, so a producer that lies about type or rows is
        believed, and may end the process. The same holds for all whole-array forms.
        """
        _, rows = self._map.get_many(rows_in(keys, self._key, "keys"))
        return pa.Table.from_batches([rows])

    def put_many(self, keys: Any, states: Any, updated_ms: int, deadlines_ms: Any = None) -> None:
        """Sets the states of all `keys`; of equal keys the last one holds. `deadlines_ms`: int64, may have nulls.

        What is a state is what `put` says: a null is refused where states are scalars, a row of nulls is taken.
        """
        self._check_writable()
        states = rows_in(states, self._state, "states")
        if self._unnamed[1] and states.column(0).null_count:
            raise InvalidInput("StateMap.put_many: a state is null, which is none", hint="remove those keys instead")
        deadlines = None if deadlines_ms is None else deadlines_in(deadlines_ms)
        self._map.put_many(rows_in(keys, self._key, "keys"), states, _ms(updated_ms, "updated_ms"), deadlines)

    def remove_many(self, keys: Any) -> None:
        """Takes all `keys` out of this version; unknown ones are no error."""
        batch = rows_in(keys, self._key, "keys")
        if self._refuses is None:
            self._map.remove_many(batch)

    # Versions.

    def copy(self) -> StateMap:
        """A new version over this one, which stays as it is.

        What was changed is sealed as one sorted run; where there would be more than eight, the newest are merged, so
        that a long chain stays as fast as a short one.
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
        raise InvalidInput("a StateMap cannot be pickled", hint="write_base(path), and StateMap.read there")

    @property
    def delta_chain_length(self) -> int:
        """How many deltas lie over the base. A version without changes adds none."""
        return self._map.deltas()

    @property
    def should_compact(self) -> bool:
        """Whether the chain is as long as `delta_chain_threshold`."""
        return self.delta_chain_length >= self._threshold

    @property
    def approx_size(self) -> int:
        """Bytes that keys, states and times take in memory, about; versions share what they have in common."""
        return sum(run.nbytes for run in self._map.runs())

    def compact(self) -> None:
        """Makes one base of the chain. What the map holds does not change, and no other version does.

        What was changed since this version was made is kept beside it until the next `copy()`: `write_delta` still
        writes all of that. `InvalidInput` where one base does not hold it (2 GiB of text in a column).
        """
        self._map.compact()

    def to_debug_string(self) -> str:
        """The map in words: its size, then its sorted runs, newest first, with rows, removals and bytes."""
        lines = [f"StateMap with {len(self)} keys, {self.delta_chain_length} over the base"]
        for run in reversed(self._map.runs()):
            removed = pc.sum(run.rows().column("deleted")).as_py() or 0
            lines.append(f"  {len(run)} rows ({removed} removals), {run.nbytes} bytes")
        return "\n".join(lines)

    # Files.

    def write_delta(self, path: str | os.PathLike[str]) -> None:
        """Writes what changed since this version was made (by `copy()`, `read`), with removals: a Parquet segment.

        Changes that went into a base by `compact()` are among them.
        """
        delta = self._map.delta()
        changed = EngineMap.open(self._schema, [], *_HASHES).base() if delta is None else delta
        write_file(path_of(path), changed.write())

    def write_base(self, path: str | os.PathLike[str]) -> None:
        """Writes all of this version as a Parquet segment that needs no other."""
        write_file(path_of(path), self._map.base().write())

    @classmethod
    def read(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        key: Any = None,
        state: Any = None,
        delta_chain_threshold: int = 20,
    ) -> StateMap:
        """The map of these segments: a base first, then deltas from the oldest to the newest.

        A segment does not say which one it follows: of deltas in another order, or with one left out, the map is
        another one, and nobody sees it. `tm.StateStore` keeps such a list itself.

        Without `key` and `state` the schemas are those of the files, where a single column called `key` (or `state`) is
        taken for one without a name. A file does not keep `delta_chain_threshold`.

        `CorruptState` for a file that is missing, damaged or no segment, `InvalidInput` for segments of two schemas,
        and where there is no memory for what they hold.
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
                    f"StateMap.read: {path} has other columns than {first}", hint="name files of one map"
                )
            runs.append(Run.read(own._schema, data, str(path)))
        asked_key, asked_state = found[0] if key is None else key, found[1] if state is None else state
        made = cls(asked_key, asked_state, delta_chain_threshold)
        for expected, (schema, _) in zip((made._key, made._state), in_file, strict=True):
            if expected.names != schema.names or expected.types != schema.types:
                wanted = f"asked for as ({listed(expected)})"
                raise InvalidInput(f"StateMap.read: {first} has ({listed(schema)}), {wanted}")
        made._hold(EngineMap.open(made._schema, [run for run in runs if len(run)], *_HASHES))
        return made

    def _hold(self, engine: EngineMap) -> None:
        self._single = SingleKeys(self._codec, engine)

    @property
    def _map(self) -> EngineMap:
        """The engine's map, with what single-key calls have put."""
        return self._single.sealed()

    def _check_writable(self) -> None:
        if self._refuses is not None:
            raise InvalidInput(f"StateMap: {self._refuses}")

    def __repr__(self) -> str:
        return f"StateMap(({listed(self._key)}) -> ({listed(self._state)}), {len(self)} keys)"


def _without_deadline(rows: Iterator[tuple[Any, Any, int, int | None]]) -> Iterator[tuple[Any, Any, int]]:
    return ((key, state, updated) for key, state, updated, _ in rows)


def _ms(value: Any, what: str) -> int:
    if type(value) is int and -_BEYOND <= value < _BEYOND:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not -_BEYOND <= value < _BEYOND:
        raise InvalidInput(f"StateMap: {what} is {repr_of(value)}, expected whole ms since the epoch")
    return value
