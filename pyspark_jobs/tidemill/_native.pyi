"""The Rust engine, as Python sees it. `tests/unit/native/test_stub.py` checks this file against the binary.

Arrow data goes in through the Arrow PyCapsule interface (any object with `__arrow_c_array__`) and comes back as
`pyarrow` objects, without copies. Calls that take long release the GIL, except while a user's function runs.
Errors are the classes of `tidemill.errors`. Times are milliseconds since the epoch, UTC, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, Self, TypeAlias, final

import pyarrow as pa

__version__: str

def key_order(columns: pa.RecordBatch) -> pa.UInt32Array:
    """Return the row numbers in the order of (hash, key bytes). Rows with equal keys keep their order."""

def key_hashes(columns: pa.RecordBatch) -> pa.UInt64Array:
    """Return the key hash of each row: XXH3-64 of its canonical bytes, columns chained by seed (docs/format.md).

    >>> import pyarrow as pa
    >>> from tidemill import _native
    >>> [f"{hash:x}" for hash in _native.key_hashes(pa.record_batch({"k": ["", "tidemill"]})).to_pylist()]
    ['2d06800538d394c2', 'bea6f108f5034d96']
    """

def text_hash(text: str) -> int:
    """Return the key hash of one string."""

def distinct_names(key: Sequence[str], sub_key: Sequence[str], value: Sequence[str]) -> list[list[str]]:
    """Return unique names for an operator's columns in its map: those of the key, of the sub-key and of the value.

    A name is prefixed with `key.`, `sub_key.` or `value.` if an earlier column has it, or if it is a column of every
    map (`updated_at`, `deadline`, `deleted`). Case is ignored.

    >>> from tidemill import _native
    >>> _native.distinct_names(["user", "deadline"], [], ["User"])
    [['user', 'key.deadline'], [], ['value.User']]
    """

def partition(rows: pa.RecordBatch, key: Sequence[str], bounds: Sequence[int]) -> list[pa.RecordBatch]:
    """Split `rows` by key hash into one batch for each range. Rows keep their order.

    `bounds` are the inclusive upper ends of the ranges, ascending; the last one is 2**64 - 1. If `key` is empty, all
    rows have the same key. `InvalidInput` if a key column is missing.
    """

def in_plan_order(
    chunks: Sequence[pa.RecordBatch], places: Sequence[tuple[pa.Int64Array | int, pa.Int64Array]]
) -> list[pa.RecordBatch] | None:
    """Sort the rows of chunks with equal columns by their places; None if they are in this order.

    The places of a chunk are the blocks of its rows, or the block of all, and their rows there. Rows of equal places
    keep their order. A column, uint32, is added: the number of each row among the rows of all chunks. Every batch
    returned has 131,072 rows at most.
    """

def time_bounds_ms(column: pa.Array) -> tuple[int, int] | None:
    """Return the least and the greatest time of a timestamp or date column, rounded down; None if all are null."""

def after_ms(column: pa.Array, limit_ms: int) -> pa.BooleanArray:
    """Return which times of a timestamp or date column are after `limit_ms`, rounded down. A null is not."""

def merge_count(rows: Sequence[int]) -> int:
    """Return how many of the newest runs to merge, given the number of rows of each run, oldest first.

    1 means that no merge is due, `len(rows)` that all runs are merged.
    """

@final
class MapSchema:
    """The columns of a state map: (key, sub-key) → (value, updated_at, deadline).

    `InvalidInput` for a column type that state cannot have, and for a name that occurs twice.
    """
    def __new__(cls, name: str, key: pa.Schema, sub_key: pa.Schema, value: pa.Schema) -> Self: ...
    @property
    def name(self) -> str:
        """The name of the map, for error messages."""
    @property
    def widths(self) -> tuple[int, int]:
        """How many key and sub-key columns there are."""
    @property
    def columns(self) -> pa.Schema:
        """All columns: those of the key, the sub-key and the value, then `updated_at` timestamp[ms, UTC] not null,
        `deadline` timestamp[ms, UTC] and `deleted` bool not null."""

@final
class Codec:
    """Converts Python objects to keys and states of a map, and rows of a map to Python objects.

    With `key_unnamed` or `state_unnamed` the only column is a scalar. Otherwise keys and states are `Row`s, and tuples
    are accepted too. `time_zone` is the zone of naive datetimes.
    """
    def __new__(cls, schema: MapSchema, key_unnamed: bool, state_unnamed: bool, time_zone: str) -> Self: ...
    def rows(self, rows: pa.RecordBatch) -> list[tuple[Any, Any, int, int | None]]:
        """Return (key, state, updated_ms, deadline_ms) of each row that `StateMap.scan` or `get_due` returned."""

@final
class Run:
    """An immutable sorted run: rows sorted by (key hash, key bytes, sub-key bytes), one row for each (key, sub-key)."""
    @staticmethod
    def read(schema: MapSchema, data: bytes, name: str) -> Run:
        """Read a run from the bytes of a segment.

        `CorruptState`, naming `name`, if they are not valid Parquet, have other columns, or if a checksum or the order
        of the rows is wrong.
        """
    @staticmethod
    def of_rows(schema: MapSchema, rows: pa.RecordBatch) -> Run:
        """Make a run of rows in the columns of `MapSchema.columns`, in any order of keys. Copies the rows.

        If a key occurs more than once, its last row wins. A row with `deleted` is a tombstone: its values and deadline
        become null. `InvalidInput` for other columns, and if `updated_at` or `deleted` is null.
        """
    @staticmethod
    def map(schema: MapSchema, descriptor: int, key: str, verify: bool) -> Run:
        """Memory-map a run that `keep` wrote. Only the parts that are used are read.

        `verify` checks every byte; without it, the file must be unchanged since it was checked. `key` is the checksum
        of the segment. `CorruptState` if the file holds anything else, `OSError` if it cannot be mapped. The caller
        keeps the descriptor and may close it.
        """
    def keep(self, descriptor: int, key: str) -> None:
        """Write the run to an open file for `map`: uncompressed and with its index.

        `key` is the checksum of the run's segment. After an `OSError` the file is incomplete.
        """
    @staticmethod
    def merge(runs: Sequence[Run], lo: int, hi: int, drop: str, most: int) -> list[tuple[int, int, Run]]:
        """Merge the rows of `runs` (oldest first) whose hash is in lo..hi. The newest row of a key wins.

        Returns (lo, hi, run): one run, or several runs of adjacent ranges if a column of one run would hold more than
        `most` bytes of text or items of lists. `drop` is "tombstones" or "nothing". Tombstones may be dropped only if
        the oldest run of the range is among `runs`, because otherwise deleted keys would come back.
        """
    def within(self, lo: int, hi: int) -> Run:
        """Return the rows with a hash in lo..hi (inclusive), which share all memory with this run."""
    def write(self) -> bytes:
        """Return the run as a segment: Parquet with zstd level 1, BYTE_STREAM_SPLIT for numbers and no dictionary.

        The footer has the hash bounds and a checksum of each row group. The same run always gives the same bytes.
        """
    def rows(self) -> pa.RecordBatch:
        """Return all rows, including tombstones, in the columns of `MapSchema.columns`."""
    def __len__(self) -> int: ...
    @property
    def schema(self) -> MapSchema:
        """The schema of its map."""
    @property
    def nbytes(self) -> int:
        """The bytes that the run takes in memory, or in the mapped file."""
    @property
    def first_due(self) -> tuple[int, int] | None:
        """(deadline, key hash) of the row that is due first; None if no row has a deadline."""
    def with_due_from(self, deadline_ms: int, hash: int) -> Run:
        """Return the same rows with a place from which searches for deadlines begin.

        The caller asserts that newer runs hide every row whose (deadline, key hash) is below this place. Use the result
        only with `StateMap.open`, together with those newer runs.
        """

@final
class StateMap:
    """One key range of one version of a state map, and the changes made to it since it was opened.

    >>> import pyarrow as pa
    >>> from tidemill import _native
    >>> key, value = pa.schema([("user", pa.string())]), pa.schema([("n", pa.int64())])
    >>> schema = _native.MapSchema("visits", key, pa.schema([]), value)
    >>> visits = _native.StateMap.open(schema, [], 0, 2**64 - 1)
    >>> visits.put_many(pa.record_batch({"user": ["a", "b"]}), pa.record_batch({"n": [1, 2]}), updated_ms=0)
    >>> found, values = visits.get_many(pa.record_batch({"user": ["b", "c"]}))
    >>> found.to_pylist(), values.column("n").to_pylist()
    ([True, False], [2, None])
    """
    @staticmethod
    def open(schema: MapSchema, runs: Sequence[Run], lo: int, hi: int) -> StateMap:
        """Open a map over `runs`, oldest first. Rows with a hash outside lo..hi are ignored."""
    def copy(self) -> StateMap:
        """Return a fork: neither map sees later changes of the other. The cost does not depend on the size."""
    def next_version(self) -> StateMap:
        """Return a map with the same rows and no changes: those made so far are its newest run."""
    def base(self) -> Run:
        """Return all live rows in one run, without tombstones."""
    def compact(self) -> None:
        """Merge all runs of this map into one base, in place. The live rows stay the same."""
    def runs(self) -> list[Run]:
        """Return its runs, oldest first."""
    def deltas(self) -> int:
        """Return how many layers are above the oldest run. All changes since `open` count as one layer."""
    def updated_before(self, threshold_ms: int) -> pa.RecordBatch:
        """Return the live rows updated strictly before `threshold_ms`, in the columns of `scan`. Reads every row."""
    def scan(self) -> pa.RecordBatch:
        """Return the live rows (no tombstones), sorted, in the columns of `MapSchema.columns` without `deleted`."""
    def count_parts(self, rows: int) -> int:
        """Return into how many parts to cut the map so that each has about `rows` rows."""
    def part(self, number: int, count: int) -> StateMap:
        """Return part `number` of `count` as a map of its own. All parts in order have the rows of this map.

        `InvalidInput` if there is no such part.
        """
    def get_many(self, keys: pa.RecordBatch) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Look up each row of `keys`, which has the key columns, then the sub-key columns.

        Returns whether each was found, and a batch with the value columns, `updated_at` and `deadline`, which are null
        for a key that was not found. `InvalidInput` if the columns are not those of the map.
        """
    def put_many(
        self, keys: pa.RecordBatch, values: pa.RecordBatch, updated_ms: int, deadlines_ms: pa.Int64Array | None = None
    ) -> None:
        """Set (key, sub-key) → value. If a key occurs more than once, its last row wins.

        Without `deadlines_ms`, and where it is null, the key has no deadline afterwards. `InvalidInput` if the columns
        are not those of the map; then nothing is changed.
        """
    def remove_many(self, keys: pa.RecordBatch) -> None:
        """Remove keys. Unknown keys are ignored. `InvalidInput` if the columns are not those of the map."""
    def get_due(self, now_ms: int) -> pa.RecordBatch:
        """Return the live rows with deadline <= now_ms, sorted, in the columns of `scan`."""
    def next_deadline(self) -> int | None:
        """Return the least deadline of a live row, or None if no row has one."""
    def due_places(self) -> list[tuple[int, int]]:
        """Return (deadline, key hash) for each nonempty run that the map was opened with.

        Newer runs and changes hide every row of the run below this place. (2**63 - 1, 2**64 - 1) means that they hide
        all its rows.
        """
    def spent_runs(self) -> int:
        """Return how many of the oldest nonempty runs show no row any more.

        Only deadlines are examined, so the true number may be greater. Without these runs the map has the same rows.
        """
    def delta(self) -> Run | None:
        """Return all changes since `open`, including tombstones, or None if nothing was changed."""
    def live_change(self) -> int:
        """Return the number of live rows now minus their number at `open`.

        Only the changed keys are looked up, so the cost grows with the changes, not with the map.
        """
    def __len__(self) -> int:
        """Count the live rows. The cost grows with the map."""

@final
class SingleKeys:
    """Puts and gets of one key at a time, in front of a map without sub-keys.

    Puts are buffered here, where `get` sees them. `flush` adds all of them to the map at once; until then the map
    itself does not show them. They are also added when 16,384 keys or `most_bytes` bytes are buffered.
    """
    def __new__(cls, codec: Codec, map: StateMap, most_bytes: int = 1 << 26) -> Self: ...
    def get(self, key: Any) -> Any:
        """Return the state of a key, or None if it has none."""
    def contains(self, key: Any) -> bool:
        """Return whether a key has a state."""
    def put(self, key: Any, state: Any, updated_ms: int, deadline_ms: int | None = None) -> None:
        """Set the state of a key. Without `deadline_ms` the key has no deadline afterwards.

        `InvalidInput` if the state is None, or if the key or the state does not fit the schema.
        """
    def remove(self, key: Any) -> None:
        """Remove a key. An unknown key is not an error."""
    def flush(self) -> StateMap:
        """Add all buffered puts to the map, and return it."""

@final
class Pass:
    """One pass of a batch. `kind` is "data" or "due".

    Rows at or before `late_ms` are late: W(N-1), or None without a watermark. User functions see `watermark_ms`, and
    event-time deadlines are compared with it: W(N-1) in the data pass, W(N) in the due pass.
    """
    def __new__(cls, kind: str, batch_time_ms: int, late_ms: int | None, watermark_ms: int | None) -> Self: ...
    def beginning(self) -> Pass:
        """Return the same pass for an operator whose maps hold an initial state that no batch has processed yet."""
    @property
    def kind(self) -> str:
        """ "data" or "due"."""
    @property
    def batch_time_ms(self) -> int:
        """The batch time."""
    @property
    def late_ms(self) -> int | None:
        """The time at or before which rows are late; None without a watermark."""
    @property
    def watermark_ms(self) -> int | None:
        """The watermark that user functions see; None without a watermark."""
    @property
    def begins(self) -> bool:
        """Whether this is the operator's first batch over an initial state."""

@final
class Prepared:
    """What an operator sends through the exchange for one block."""
    @property
    def rows(self) -> pa.RecordBatch:
        """The rows, key columns first."""
    @property
    def late(self) -> pa.BooleanArray | None:
        """Which rows of the block were late; None if no row was."""
    @property
    def made_of(self) -> pa.UInt32Array | None:
        """For each of `rows`, the row of the block that it was made of, rising, if rows are not combined.

        None: each row that was not late has one.
        """

@final
class Operator:
    """A keyed operator in one task.

    One object serves one task: either `prepare` before the exchange, or after it `open`, any number of `apply`, and
    `finish`.
    """
    def map_schemas(self) -> list[MapSchema]:
        """Return the schemas of its state maps."""
    def output_schema(self) -> pa.Schema:
        """Return the columns of its output."""
    def prepared_schema(self) -> pa.Schema:
        """Return the columns of `Prepared.rows`: the key columns first."""
    def prepare(self, rows: pa.RecordBatch, pass_: Pass, combine: bool = True) -> Prepared:
        """Remove late rows and combine rows of one key, if the operator can.

        Columns are found by name; columns that the operator does not read are ignored. With `combine`, `rows` are the
        next block of a split, and the operator may hold rows back until `rest`. Without `combine` (a further stage,
        which reads the outputs of another operator) each row stays separate and is folded by itself.
        """
    def rest(self) -> pa.RecordBatch | None:
        """Return the rows that `prepare` held back, or None. Called at the end of a split."""
    def prepare_splits(self, rows: pa.RecordBatch, counts: Sequence[int], pass_: Pass) -> pa.RecordBatch:
        """Return what `prepare` and `rest` return for several splits, one after the other. No row may be late.

        `counts` says how many of the rows each split has.
        """
    def open(self, maps: Sequence[StateMap]) -> None:
        """Take forks of the maps, in the order of `map_schemas()`. The given maps never change."""
    def apply(
        self, chunks: Sequence[pa.RecordBatch], pass_: Pass, ports: Sequence[int] | None = None
    ) -> pa.RecordBatch:
        """Fold the prepared rows of a pass (chunks in plan order), then fire due timeouts.

        `ports` has the number of the input of each chunk and never falls; None: the operator has one input.

        Returns the outputs, sorted by (key hash, key bytes, emission number). Batch-time timeouts fire only in the
        "data" pass, which may have no chunks (a sweep). After an error the operator cannot be used any more, and the
        maps that it was given are unchanged.

        If the user's function raises: `InvalidInput` with its traceback, `__cause__`, and the attributes `operator`,
        `key` (its repr) and `chunk` (the index of the chunk that has the row; None for a timeout). Interrupts pass
        through unchanged.
        """
    def take_order(self) -> pa.Array:
        """Return an order number (int64) for each row that the last `apply` returned. They rise from row to row.

        The upper 32 bits are the group of the row's key, the first 20 bits of its hash. The lower bits count the rows
        of the group.
        """
    def keep_origins(self, for_operators: bool) -> None:
        """Keep the origins of rows in the passes from now on.

        With `for_operators`, rows go to operators only, and may come in the order of the rows that they are for.
        """
    def take_places(
        self, given: Sequence[tuple[pa.Int64Array | int, pa.Int64Array]]
    ) -> tuple[pa.Int64Array, pa.Int64Array]:
        """Return the places of the rows that the last `apply` returned, as blocks and rows, if origins are kept.

        `given` has the places of the rows of each chunk, the block of all as a number. A row that was emitted for a row
        has its place. One that was due has the block 2**63 - 1 and its time in ms, one that was emitted for its key
        that block and -2**63.
        """
    def take_quarantined(self) -> list[tuple[int, pa.RecordBatch, list[str]]]:
        """Return the rows quarantined since the last call because the user's function failed for their key.

        Each item has the index of the chunk in its `apply`, the prepared rows in their order, and the reason for each
        row, in one line. A row is returned once.
        """
    def finish(self) -> list[StateMap]:
        """Return the maps with all changes. The operator cannot be used any more."""
    def close(self) -> None:
        """Do nothing: the operator holds no resources."""
    def metrics(self) -> dict[str, int | str]:
        """Return the counts so far.

        `rows` counts rows given to `prepare` (without late rows) and to `apply`. `rows_updated` and `rows_removed`
        count state rows written and deleted, including timeouts. `timed_out` and `failed` count keys; `failure` is the
        reason why one of the keys failed, in one line.
        """

def aggregate(
    name: str,
    key: Sequence[str],
    input_schema: pa.Schema,
    functions: Sequence[tuple[str, str, str | None]],
    window: Any = None,
    by: dict[str, str] | None = None,
    parameters: dict[str, int] | None = None,
    key_time: tuple[str, str] | None = None,
) -> Operator:
    """Make the operator for running aggregates.

    `functions` has (output column, function, input column) for each aggregate; the input column is None for a count of
    rows. The functions are count, sum, min, max, mean, first, last, min_by, max_by, var, stddev, approx_count_distinct
    and collect_set. `by` maps the output columns of min_by and max_by to the column that is compared. `parameters` has
    the precision (4 to 18) of approx_count_distinct and the limit of collect_set.

    Result types, and the rules for null, NaN and overflow, are Spark's (ANSI). The sum of integers is bigint, of
    decimal(p, s) decimal(min(38, p+10), s); the mean of numbers is double, of decimal(p, s) decimal(min(38, p+4),
    min(38, s+4)); var and stddev are double. Input columns may have any supported type for count, first, last and the
    value of min_by and max_by. min, max and the column that is compared need a type with an order.

    The output has the key columns, then one column for each function, and one row for each key that the pass touched
    ("update" mode). Rows are combined within a split. Then partials are folded, state first, in plan order.

    `window` is None or an object with:

    - `column`: a timestamp column, or a column of windows, which count by their last microsecond
    - `cut_ms`: size, slide and start; None if the column holds windows
    - `key`: the names of the key columns for a window's start and, if the column holds windows, its end
    - `place`: the position of the window among the key columns
    - `output`: the output column `struct<start, end>`, at that position
    - `ends`: "never" (no watermark on the column), or "forgotten" or "emitted" when the watermark has passed the end

    Rows that fall into no open window are late, and so are rows without a time.

    `key_time` has the key column that is the event time, and what happens to a key when the watermark has reached it
    ("forgotten" or "emitted"); windows never end then. Rows whose key has ended are late; rows without a time are not.

    One map, `partials`: key → one column for each function, named like its output. Exceptions: a mean has `x.sum` and
    `x.count`; first and last have `x` and `x.set` (bool); min_by, max_by and earliest have `x` and `x.by`; var and
    stddev have `x.count`, `x.mean` and `x.m2` (doubles).
    """

def sessions(
    name: str,
    key: Sequence[str],
    input_schema: pa.Schema,
    functions: Sequence[tuple[str, str, str | None]],
    column: str,
    gap_ms: int,
    place: int,
    by: dict[str, str] | None = None,
    parameters: dict[str, int] | None = None,
) -> Operator:
    """Make the operator for aggregates by session.

    `functions`, `by` and `parameters` are those of `aggregate`. There is one more function, `earliest`: the value in
    the first of the rows whose `by` column is least.

    Rows of a key belong to one session if their times in `column` (a timestamp, or windows, which count by their last
    microsecond) are no more than `gap_ms` apart. A row is late if its own session, from its time to `gap_ms` later, has
    ended at the watermark, or if it has no time. A session is emitted and forgotten when the watermark has reached its
    end; sessions of one key are emitted in the order of their start. The output has `session_window struct<start, end>`
    at position `place` among the key columns. Partials are combined within a block, then folded, state first, in block
    order. `InvalidInput` for a gap below 1 ms or a position that does not exist.

    One map, `sessions`: key, `session_start` → `session_end` and the partials of `aggregate`.
    """

def deduplicate(
    name: str,
    key: Sequence[str],
    input_schema: pa.Schema,
    event_time: str | None,
    forget: Literal["never", "at_event_time", "after"],
    delay_ms: int | None,
) -> Operator:
    """Make the operator that passes the first row of each key. Its output has the columns of its input.

    Rows whose `event_time` is at or before the watermark are late; with None no row is. `forget` says when a key is
    forgotten: "never"; "at_event_time", when the watermark reaches the event time in the key (never for a null); or
    "after", when it reaches the event time of the key's first row plus `delay_ms` (a null counts as the epoch).

    One map, `seen`: key → nothing.
    """

def map_with_state(
    operator: Any, function: Callable[..., Any], arguments: int, value: str | None, timeout_ms: int | None, clock: str
) -> Operator:
    """Make the operator for `mapWithState` over a Python function, from a bound operator.

    The attributes of `operator` (`tidemill.operators.map_with_state`) that this function and the two below read:
    `name`, `input` (`schema`, `key`, `event_time`, `late`, `time_zone`), `state` and `output_schema` (schemas),
    `state_unnamed`, `state_type`, `output_unnamed` and `on_error`.

    `arguments` is 4 (`f(batchTime, key, value, state)`), 3 (`f(key, value, state)`) or 2 (`f(value, state)`). `value`
    is a column name, or None for the whole row as a `tidemill.rows.Row`, without the columns `_row` and `_metadata`. A
    state of one unnamed column is a scalar, otherwise a `Row`, or an instance of the dataclass `state_type`. Nested
    dataclasses are made if the annotations of `state_type` name them. `clock` is "batch" or "event".

    `late` is "drop", "quarantine" or "keep". With a timeout on the clock "event", the first two remove late rows in
    `prepare`. `on_error` is "fail" or "quarantine". With "quarantine", if a call for a key raises or returns a value
    that does not fit, the rows of the key are quarantined, and its state and deadline stay as they were.

    One map, `state`: key → state. The timeout is the deadline of the row.
    """

def groups_with_state(operator: Any, function: Callable[..., Any], emits: str, timeout: str) -> Operator:
    """Make the operator that calls `func(key, rows, state)` by the rules of Spark's Scala API.

    The function is called once for each key and pass, and once more for each key that timed out. `emits` is "one" (a
    call returns a row) or "many" (it returns rows, or None). `timeout` is one of Spark's three modes. Late rows are
    removed only with "EventTimeTimeout". Everything else is as in `map_with_state`.

    One map, `state`: key → state. With a timeout it has a last column `_exists`, because a key may have a timeout
    without a state. Spark fires a timeout strictly after its time, so the deadline is one millisecond later.
    """

def pandas_with_state(
    operator: Any,
    function: Callable[..., Any],
    frames: Callable[[pa.RecordBatch, pa.RecordBatch], Any],
    timeout: str,
) -> Operator:
    """Make the operator that calls `func(key, pdfs, state)` by PySpark's rules.

    The function is called once for each key and pass, and once more for each key that timed out. `frames` is called
    with the rows of a pass, grouped by key, and with the keys. It returns the object that calls the function
    (`tidemill.operators.pandas_frames.Frames`). A state is a plain tuple. Everything else is as in `groups_with_state`.
    """

@final
class KeyRows(Iterator[Any]):
    """Iterates once over the rows of one key in one pass, in plan order. Group functions are given it."""
    def __next__(self) -> Any: ...
    def __length_hint__(self) -> int: ...

@final
class GroupState:
    """The state and the timeout of one key inside a group function (Spark: `GroupState`, member for member).

    Values are copied in and out: changing an object that `get` returned, or that was passed to `update`, does not
    change the state. Using the object after its call has returned raises `InvalidInput` (a `ValueError`).

    >>> import tidemill as tm
    >>> def count(key, rows, state):
    ...     if state.hasTimedOut:
    ...         state.remove()
    ...         return (key, -1)
    ...     state.update((state.getOption or 0) + sum(1 for _ in rows))
    ...     state.setTimeoutDuration("10 minutes")
    ...     return (key, state.get)
    >>> p = tm.Pipeline("visits")
    >>> grouped = p.read(tm.Rows("user string")).groupBy("user")
    >>> counts = grouped.mapGroupsWithState(
    ...     count, outputSchema="user string, n bigint", stateSchema="bigint", timeoutConf="ProcessingTimeTimeout"
    ... )
    >>> tester = tm.testing.Tester(p)
    >>> tester.batch([("a",), ("a",)], batch_time_ms=0).outputs
    [('a', 2)]
    >>> tester.sweep(600_001).outputs
    [('a', -1)]
    """

    NO_TIMESTAMP: Final = -1
    """PySpark's value for the absence of a timestamp."""
    @property
    def exists(self) -> bool:
        """Whether the key has a state. False after `remove`, and for a key that has only a timeout."""
    @property
    def get(self) -> Any:
        """The state. Raises `StateNotSet` (a `LookupError`, and a `ValueError` as in PySpark) if there is none."""
    @property
    def getOption(self) -> Any:
        """The state, or None if there is none."""
    @property
    def hasTimedOut(self) -> bool:
        """Whether the function is called because the timeout of the key fired. Then there are no rows."""
    @property
    def oldTimeoutTimestamp(self) -> int:
        """Always -1. PySpark's class has this member and never shows a function another value."""
    def update(self, newValue: Any) -> None:
        """Set the state. Allowed after `remove`.

        Raises `InvalidInput` if the value does not fit the schema of the state, and `TypeError` for None.
        """
    def remove(self) -> None:
        """Remove the state."""
    def setTimeoutDuration(self, durationMs: int | str | timedelta) -> None:
        """Set the timeout to a duration from the batch time: ms, text such as "10 seconds", or a timedelta.

        The timeout fires when the batch time is later than that. Raises `RuntimeError` without
        timeoutConf="ProcessingTimeTimeout", and `ValueError` for less than 1 ms.
        """
    def setTimeoutTimestamp(
        self, timestampMs: int | datetime | date, additionalDuration: int | str | timedelta | None = None
    ) -> None:
        """Set the timeout to an event time (ms since the epoch, a datetime or a date), plus the duration if given.

        A date stands for its midnight; dates and naive datetimes are in the pipeline's time zone. The timeout fires
        when the watermark has passed the time. Raises `RuntimeError` without timeoutConf="EventTimeTimeout", and
        `ValueError` for a time before the watermark or before 1970.
        """
    def getCurrentWatermarkMs(self) -> int:
        """Return the watermark in ms since the epoch. Raises `RuntimeError` if the stream has no watermark."""
    def getCurrentProcessingTimeMs(self) -> int:
        """Return the batch time in ms since the epoch."""
    def json(self) -> str:
        """Return the clocks, the timeout and the changes made in this call as JSON, as PySpark does. The value is
        omitted."""

@final
class State:
    """The state of one key inside a `mapWithState` function (Spark: `org.apache.spark.streaming.State`).

    Values are copied in and out: changing an object that `get` returned, or that was passed to `update`, does not
    change the state. Using the object after its call has returned raises `InvalidInput` (a `ValueError`).

    >>> import tidemill as tm
    >>> def total(key, amount, state):
    ...     state.update((state.getOption or 0) + amount)
    ...     return (key, state.get)
    >>> p = tm.Pipeline("spend")
    >>> grouped = p.read(tm.Rows("user string, amount bigint")).groupBy("user")
    >>> spend = grouped.mapWithState(
    ...     tm.StateSpec.function(total), "bigint", "user string, total bigint", value="amount"
    ... )
    >>> tm.testing.Tester(p).batch([("a", 1), ("a", 5)]).outputs
    [('a', 1), ('a', 6)]
    """
    @property
    def exists(self) -> bool:
        """Whether the key has a state. False after `remove`."""
    @property
    def get(self) -> Any:
        """The state. Raises `StateNotSet` (a `LookupError`) if there is none."""
    @property
    def getOption(self) -> Any:
        """The state, or None if there is none."""
    @property
    def isTimingOut(self) -> bool:
        """Whether the key times out. Then this is its last call, and the state is removed afterwards."""
    def update(self, new: Any) -> None:
        """Set the state.

        Raises `InvalidInput` if `new` does not fit the schema of the state, and `ValueError` for None, after `remove`,
        and while the key times out.
        """
    def remove(self) -> None:
        """Remove the state. Raises `ValueError` if it was already removed, and while the key times out."""

def transform_with_state(
    operator: Any,
    processor: Any,
    variables: Sequence[Any],
    timers: Timers,
    initial: Any,
    frames: Callable[..., Any] | None,
) -> Operator:
    """Make the operator that calls a processor once for each key with its rows, and once for each timer that fires.

    The attributes of `operator` (`tidemill.operators.transform_with_state`) that are read: `name`, `input` (see
    `map_with_state`), `time_mode`, `output_schema`, `event_time` and `on_error`. `time_mode` is "None",
    "ProcessingTime" (batch time) or "EventTime" (the watermark; `prepare` removes late rows unless `late` is "keep").
    `event_time` is an output column that must not be late.

    `variables` are objects with `map` (the name of the variable's map), `sub_key` and `value` (its columns), `ttl_ms`,
    and `state`: the `ValueState`, `ListState` or `MapState` that the processor holds. These objects and `timers` belong
    to the operator afterwards, and always show the key of the current call.

    `initial` is None, or an object with `stored` (the columns of the initial state's map beside the key) and
    `shown` (the columns of the rows that `handleInitialState` is given in the first batch).

    `frames` is None, or a function of the rows and the keys of a visit that returns the object that makes pandas frames
    (`tidemill.operators.processor_frames`). With it the processor is given frames and returns frames.

    `on_error` is "fail" or "quarantine". With "quarantine", a key for which a call fails keeps its variables and timers
    as they were, emits nothing, and its rows are quarantined. An error in `handleInitialState` always fails the pass.

    One map for each variable, in their order; then `timers`: key, expiry_ms → nothing; then, with `initial`, a map
    `initial`: key, row → the stored columns. The sub-key of a list is a position, that of a map is the user's key. A
    deadline is the end of a row's time to live, or the time of a timer.
    """

@final
class ValueState:
    """One value for each key (Spark: `ValueState`).

    Usable only while the processor is called for a key; otherwise calls raise `CallRefused`. Values are tuples, copied
    in and out: changing an object that was passed or returned does not change the state.

    >>> import tidemill as tm
    >>> class Last(tm.StatefulProcessor):
    ...     def init(self, handle):
    ...         self.last = handle.getValueState("last", "n bigint")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         before = self.last.get()
    ...         for row in rows:
    ...             self.last.update((row.n,))
    ...         yield (*key, str(before), str(self.last.get()))
    >>> p = tm.Pipeline("values")
    >>> changes = p.read(tm.Rows("user string, n bigint")).groupBy("user").transformWithState(
    ...     Last(), "user string, before string, after string", "update", "None"
    ... )
    >>> tester = tm.testing.Tester(p)
    >>> tester.batch([("a", 1), ("a", 2)]).outputs, tester.batch([("a", 3)]).outputs
    ([('a', 'None', '(2,)')], [('a', '(2,)', '(3,)')])
    """
    def __new__(cls, operator: str, name: str, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Return whether the key has a value."""
    def get(self) -> Any:
        """Return the value as a tuple, or None if there is none."""
    def update(self, newValue: Any) -> None:
        """Set the value. Raises `InvalidInput` if it does not fit the schema."""
    def clear(self) -> None:
        """Remove the value."""

@final
class ListState:
    """Any number of values for each key, in the order in which they were appended (Spark: `ListState`).

    Usable only while the processor is called for a key; otherwise calls raise `CallRefused`.

    >>> import tidemill as tm
    >>> class Listed(tm.StatefulProcessor):
    ...     def init(self, handle):
    ...         self.seen = handle.getListState("seen", "n bigint")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         self.seen.appendList([(row.n,) for row in rows])
    ...         yield (*key, str([n for (n,) in self.seen.get()]))
    >>> p = tm.Pipeline("lists")
    >>> seen = p.read(tm.Rows("user string, n bigint")).groupBy("user").transformWithState(
    ...     Listed(), "user string, seen string", "update", "None"
    ... )
    >>> tm.testing.Tester(p).batch([("a", 1), ("a", 2)]).outputs
    [('a', '[1, 2]')]
    """
    def __new__(cls, operator: str, name: str, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Return whether the list has elements."""
    def get(self) -> Iterator[Any]:
        """Return an iterator over the current elements, as tuples. Later changes do not affect it."""
    def put(self, newState: Any) -> None:
        """Replace all elements. Raises `CallRefused` for an empty list, `InvalidInput` if an element does not fit."""
    def appendValue(self, newState: Any) -> None:
        """Append one element. Raises `InvalidInput` if it does not fit the schema."""
    def appendList(self, newState: Any) -> None:
        """Append all elements of a list, or none of them after an error.

        Raises `CallRefused` for an empty list, and `InvalidInput` if an element does not fit.
        """
    def clear(self) -> None:
        """Remove all elements."""

@final
class MapState:
    """Values by a key of your own within each grouping key (Spark: `MapState`).

    Usable only while the processor is called for a key; otherwise calls raise `CallRefused`. Iterators show the entries
    as they were when the iterator was made, in the order of your keys: numbers and times by value, texts by their UTF-8
    bytes, null first.

    >>> import tidemill as tm
    >>> class PerPage(tm.StatefulProcessor):
    ...     def init(self, handle):
    ...         self.pages = handle.getMapState("pages", "page string", "n bigint")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         for row in rows:
    ...             (n,) = self.pages.getValue((row.page,)) or (0,)
    ...             self.pages.updateValue((row.page,), (n + 1,))
    ...         yield (*key, str([(page, n) for (page,), (n,) in self.pages.iterator()]))
    >>> p = tm.Pipeline("maps")
    >>> pages = p.read(tm.Rows("user string, page string")).groupBy("user").transformWithState(
    ...     PerPage(), "user string, pages string", "update", "None"
    ... )
    >>> tm.testing.Tester(p).batch([("a", "home"), ("a", "cart"), ("a", "home")]).outputs
    [('a', "[('cart', 1), ('home', 2)]")]
    """
    def __new__(cls, operator: str, name: str, key: pa.Schema, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Return whether the map has entries."""
    def getValue(self, key: Any) -> Any:
        """Return the value of a key as a `tidemill.rows.Row`, as Spark does, or None. Iterators return tuples."""
    def containsKey(self, key: Any) -> bool:
        """Return whether the map has an entry for the key."""
    def updateValue(self, key: Any, value: Any) -> None:
        """Set the value of a key. Raises `InvalidInput` if the key or the value does not fit its schema."""
    def iterator(self) -> Iterator[Any]:
        """Return an iterator over (key, value) pairs of tuples."""
    def keys(self) -> Iterator[Any]:
        """Return an iterator over the keys, as tuples."""
    def values(self) -> Iterator[Any]:
        """Return an iterator over the values, as tuples, in the order of their keys."""
    def removeKey(self, key: Any) -> None:
        """Remove the entry of a key. An unknown key is not an error."""
    def clear(self) -> None:
        """Remove all entries."""

@final
class Timers:
    """The timers of a key, which the processor's handle uses. With `is_off` (the time mode is None) all calls raise
    `CallRefused`."""
    def __new__(cls, operator: str, is_off: bool) -> Self: ...
    def register(self, expiry_ms: int) -> None:
        """Register a timer at this time, ms since the epoch. An existing timer stays."""
    def delete(self, expiry_ms: int) -> None:
        """Delete the timer at this time. An unknown timer is not an error."""
    def list(self) -> Any:
        """Return the times of all timers in ascending order, including a timer that is firing."""

@final
class TimerValues:
    """The clocks that a call of a processor sees, in ms since the epoch.

    Both are −1 if the time mode is None. The watermark is 0 if there is none.
    """
    def getCurrentProcessingTimeInMs(self) -> int:
        """Return the batch time."""
    def getCurrentWatermarkInMs(self) -> int:
        """Return the watermark."""

@final
class ExpiredTimerInfo:
    """The timer for which `handleExpiredTimer` is called."""
    def getExpiryTimeInMs(self) -> int:
        """Return the time at which the timer expired, in ms since the epoch."""

# Readers of files. Their options are the dataclasses of `sources/text_format.py`.

class Unreadable(Exception):
    """A file is not what its format says. Its arguments are the reason, the line or None, and a hint or None."""

@final
class TextReader:
    """A file of CSV or JSON that is being read."""

    @property
    def header(self) -> str | None:
        """The header of a CSV file, unless it names the columns of the schema in order."""

    def next_block(self) -> tuple[pa.RecordBatch, list[tuple[int, int | None, str, str]]] | None:
        """Return the next rows, with their numbers in the last column `_row`, and the rejects among them.

        A reject is (line, place of the column or None, reason, text). None at the end of the file. Raises `Unreadable`,
        an `OSError`, or whatever a Python file raised.
        """

@final
class TextAhead:
    """A file that a thread of Rust reads. A process that ends does not wait for the thread."""

    def take(self) -> TextReader | None:
        """Wait for the file, and return its reader, once. None if it must be read now, whatever the reason."""

@final
class TextFiles:
    """Opens files of one format, whose rows have the columns of one schema."""

    def open(self, file: Any) -> TextReader:
        """Open a file: a path, bytes, or an object with `read(n)`. Raises `Unreadable` for a file of another format."""

    def read_ahead(self, files: list[tuple[str, int]], most_bytes: int) -> list[TextAhead]:
        """Begin to read local files in a thread, one after the other, given as paths and sizes.

        A file has no result if it is compressed, has another size or cannot be read. Of all files together about
        `most_bytes` of rows are read. The rest of the last one follows when it is asked for.
        """

    def read_small(self, files: list[bytes], most_bytes: int) -> tuple[pa.RecordBatch, list[int]] | None:
        """Return the rows of the first of some small files, and how many rows each of these has.

        It ends before a file that is not one block of good rows, and once the rows have `most_bytes`. None if the first
        file is not one block of good rows.
        """

def csv_files(schema: pa.Schema, format: Any, limits: Any, time_zone: str) -> TextFiles:
    """Return what opens CSV files: `format` is a `CsvFormat`, `limits` are `TextLimits`."""

def csv_names(file: Any, format: Any, limits: Any) -> list[str]:
    """Return the names of the columns of a CSV file, as Spark makes them: those of its header, or `_c0`, `_c1`, ….

    `file` is a path, bytes, or an object with `read(n)`; `format` and `limits` are those of `csv_files`.
    """

def json_files(schema: pa.Schema, format: Any, limits: Any, time_zone: str) -> TextFiles:
    """Return what opens files of JSON: `format` is a `JsonFormat`, `limits` are `TextLimits`."""

@final
class JsonShapes:
    """A file of JSON of which only the shape of its values is asked."""

    def next_shape(self) -> tuple[_JsonShape, int, list[tuple[int, int | None, str, str]]] | None:
        """Return the shape of the next records, how many they are, and the rejects among them; None at the end.

        A shape is what the values of one name are: kinds, numbers as they are written, strings without their escapes,
        the fields of objects with their shapes, and the shape of the elements of arrays. A reject is that of
        `TextReader`. Raises as `TextReader.next_block` does.
        """

_JsonShape: TypeAlias = tuple[list[str], list[str], list[str], list[tuple[str, "_JsonShape"]], "_JsonShape | None"]

def json_shapes(file: Any, format: Any, limits: Any) -> JsonShapes:
    """Open a file of JSON to learn the shape of its values; `limits` say how many records are one shape.

    `file`, `format` and `limits` are those of `csv_names` and `json_files`.
    """

def values_of_texts(
    texts: Sequence[str | None], schema: pa.Schema, formats: Any, time_zone: str
) -> tuple[pa.Array, list[int]]:
    """Return texts as an array of the only type in `schema`, and the places of those that do not fit, which are null.

    Without `formats` dates and times are in ISO forms.

    >>> import pyarrow as pa
    >>> from tidemill import _native
    >>> from tidemill.sources.text_format import Formats
    >>> schema = pa.schema([pa.field("day", pa.date32())])
    >>> values, misfits = _native.values_of_texts(["2024-02-29", "24-2-29", None], schema, Formats(), "UTC")
    >>> values.to_pylist(), misfits
    ([datetime.date(2024, 2, 29), None, None], [1])
    """

def check_time_pattern(pattern: str) -> None:
    """Raise `InvalidInput` if a pattern of dates and times has a letter that is not supported."""

def charset(name: str) -> str | None:
    """Return the name of an encoding, or None if it is unknown."""

@final
class ParquetFile:
    """A Parquet file that is open. Raises `Unreadable` for another file, and an `OSError` if it cannot be read.

    `file` is a path, bytes, or an object with `size` and `read_at(start, length)`. Times that Spark 2 wrote are in
    the calendar of `time_zone`.
    """

    def __new__(cls, file: Any, time_zone: str = "UTC") -> Self: ...
    @property
    def row_groups(self) -> list[tuple[int, int]]:
        """The number of rows and of compressed bytes of each row group."""

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The names and the types of the columns."""

    def rows(
        self, schema: pa.Schema, asked: pa.Schema, columns: Any, first: int, last: int, batch_rows: int
    ) -> ParquetRows:
        """Return the rows of row groups `first` to `last` in the columns of `asked`, at most `batch_rows` at once.

        `asked` are some of the columns of `schema`, which the file must have. `columns` is a `ColumnsByName`."""

@final
class ParquetRows:
    """Rows of a Parquet file."""

    def next_batch(self) -> pa.RecordBatch | None:
        """Return the next rows, or None at the end. Raises `Unreadable` if they cannot be decoded."""
