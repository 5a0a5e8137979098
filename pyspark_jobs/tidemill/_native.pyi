"""The Rust engine, as Python sees it. Checked against the binary by `tests/unit/test_stub.py`.

Arrow data goes in by the Arrow PyCapsule interface (anything with `__arrow_c_array__`) and comes back as
`pyarrow` objects; nothing is copied. Long calls release the GIL, except while a user function runs.
Errors are the classes of `tidemill.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, Self, final

import pyarrow as pa

__version__: str

def key_order(columns: pa.RecordBatch) -> pa.UInt32Array:
    """The row numbers in the order of (hash, key bytes); rows of one key keep the order they had."""

def key_hashes(columns: pa.RecordBatch) -> pa.UInt64Array:
    """XXH3-64 of the canonical bytes of each row, columns chained by seed (docs/format.md)."""

def text_hash(text: str) -> int:
    """The key hash of one string."""

def names_apart(key: Sequence[str], sub_key: Sequence[str], value: Sequence[str]) -> list[list[str]]:
    """The names of an operator's columns in its map (key, sub-key, value), each once: one that the map itself
    (`updated_at`, `deadline`, `deleted`) or a column before it has, in whatever letters, is `key.…`, `sub_key.…` or
    `value.…` there."""

def partition(rows: pa.RecordBatch, key: Sequence[str], bounds: Sequence[int]) -> list[pa.RecordBatch]:
    """`rows` split by key hash, one batch a range, in the order they had.

    `bounds` are the inclusive upper ends of the ranges, ascending, the last one 2**64 - 1. An empty `key`
    is one key (of no columns).
    """

def time_bounds_ms(column: pa.Array) -> tuple[int, int] | None:
    """(least, greatest) time of a timestamp or date column in ms since the epoch, floored; None if all are null."""

def merge_count(rows: Sequence[int]) -> int:
    """How many of the newest runs to merge, given the rows of each run, oldest first. 1: none; len(rows): all."""

@final
class MapSchema:
    """The columns of a state map: (key, sub-key) → (value, updated_at, deadline)."""
    def __new__(cls, name: str, key: pa.Schema, sub_key: pa.Schema, value: pa.Schema) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> pa.Schema:
        """key…, sub-key…, value…, `updated_at` timestamp[ms, UTC] not null, `deadline` timestamp[ms, UTC],
        `deleted` bool not null."""

@final
class Codec:
    """Python objects as keys and states of a map, and its rows as Python objects.

    One unnamed column is a scalar, else keys and states are `Row`s (tuples are taken too).
    """
    def __new__(cls, schema: MapSchema, key_unnamed: bool, state_unnamed: bool, time_zone: str) -> Self: ...
    def rows(self, rows: pa.RecordBatch) -> list[tuple[Any, Any, int, int | None]]:
        """(key, state, updated_ms, deadline_ms) of each row of `StateMap.scan` and its like."""

@final
class Run:
    """An immutable sorted run: rows sorted by (hash of the key, key bytes, sub-key bytes), one row a (key, sub-key)."""
    @staticmethod
    def read(schema: MapSchema, data: bytes, name: str) -> Run:
        """The run that a segment's bytes hold; `CorruptState` naming `name` for anything else (bad Parquet, other
        columns, a checksum or order that does not hold)."""
    @staticmethod
    def map(schema: MapSchema, descriptor: int, key: str, verify: bool) -> Run:
        """The run that `keep` wrote, mapped: nothing is read that is not looked at. `verify` checks every byte;
        without it the file must be as it was when it was checked. `CorruptState` for anything else, `OSError`.
        The descriptor stays the caller's, who may close it."""
    def keep(self, descriptor: int, key: str) -> None:
        """Writes the run, uncompressed and with its index, for `map`, to an open file; `key` is its segment's checksum.
        `OSError` leaves a part of the file."""
    @staticmethod
    def merge(runs: Sequence[Run], lo: int, hi: int, drop: str, most: int) -> list[tuple[int, int, Run]]:
        """(lo, hi, run) of the rows of `runs` (oldest first) with a hash in lo..hi; the newest row of a key wins.
        One run, or where a column of it would hold more than `most` bytes of text or items of lists, runs of ranges
        side by side. `drop`: "tombstones" (only where the oldest run of the range is among them) or "nothing"."""
    def within(self, lo: int, hi: int) -> Run:
        """The rows with a hash in lo..hi (inclusive). Shares everything with this run."""
    def write(self) -> bytes:
        """The run as a segment: Parquet, zstd 1, BYTE_STREAM_SPLIT for numbers, no dictionary; hash bounds and a
        checksum for each row group in the footer. The same run gives the same bytes."""
    def rows(self) -> pa.RecordBatch:
        """All its rows in `MapSchema.columns`, tombstones too."""
    def __len__(self) -> int: ...
    @property
    def schema(self) -> MapSchema: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def first_due(self) -> tuple[int, int] | None:
        """Deadline and key hash of the row that is due first, by these two; None: no row has a deadline."""
    def with_due_from(self, deadline_ms: int, hash: int) -> Run:
        """The same rows, told that newer runs hide those whose (deadline, key hash) lies below this one: searches for
        deadlines begin here. For `StateMap.open` alone, with those newer runs."""

@final
class StateMap:
    """One key range of one version of a state map, and the changes made to it since it was opened."""
    @staticmethod
    def open(schema: MapSchema, runs: Sequence[Run], lo: int, hi: int) -> StateMap:
        """Runs oldest first; rows with a hash outside lo..hi are not seen."""
    def copy(self) -> StateMap:
        """A fork: neither sees what is done to the other."""
    def next_version(self) -> StateMap:
        """A version over this one: what was changed so far is one run of it, and no change."""
    def base(self) -> Run:
        """All live rows in one run, without tombstones."""
    def compact(self) -> None:
        """Makes one base of its runs, in place; what it holds does not change."""
    def runs(self) -> list[Run]:
        """Its runs, oldest first."""
    def deltas(self) -> int:
        """How many layers lie over the oldest: those that it was opened with, and the changes since then as one."""
    def updated_before(self, threshold_ms: int) -> pa.RecordBatch:
        """The live rows updated strictly before `threshold_ms`, in the columns of `scan`. Looks at every row."""
    def scan(self) -> pa.RecordBatch:
        """The live rows (no tombstones), sorted, in `MapSchema.columns` without `deleted`."""
    def count_parts(self, rows: int) -> int:
        """Into how many parts to cut it so that one has about `rows` rows."""
    def part(self, number: int, count: int) -> StateMap:
        """Part `number` of `count` as a map of its own: one after the other they hold what this one does."""
    def get_many(self, keys: pa.RecordBatch) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """For each row of `keys` (key columns, then sub-key columns): was it found; value columns, `updated_at` and
        `deadline`, null where not found."""
    def put_many(
        self, keys: pa.RecordBatch, values: pa.RecordBatch, updated_ms: int, deadlines_ms: pa.Int64Array | None = None
    ) -> None:
        """Sets (key, sub-key) → value. Of equal keys in one call the last one holds."""
    def remove_many(self, keys: pa.RecordBatch) -> None: ...
    def get_due(self, now_ms: int) -> pa.RecordBatch:
        """The live rows with deadline <= now_ms, sorted, in the columns of `scan`."""
    def next_deadline(self) -> int | None:
        """The least deadline of a live row; None: none has one."""
    def due_places(self) -> list[tuple[int, int]]:
        """For each run with rows that the map was opened with (deadline, key hash): all its rows below it are hidden by
        newer ones, changes too. (2**63 - 1, 2**64 - 1): all that it has."""
    def spent_runs(self) -> int:
        """How many of the oldest runs with rows that the map was opened with show none any more, as far as deadlines
        tell: without them it holds the same."""
    def delta(self) -> Run | None:
        """What was changed since `open`, tombstones included; None if nothing was."""
    def live_change(self) -> int:
        """Live rows now less live rows at `open`. Looks up the changed keys alone: the cost follows the changes."""
    def __len__(self) -> int:
        """Live rows, counted: the cost grows with the map."""

@final
class SingleKeys:
    """Puts and gets of one key at a time, before a map without sub-keys. What is put waits here, seen by `get`, until
    `sealed` adds all of it to the map at once; while keys wait, the map by itself does not show them. Where 16,384 keys
    or `most_bytes` wait, they are sealed as well."""
    def __new__(cls, codec: Codec, map: StateMap, most_bytes: int = 1 << 26) -> Self: ...
    def get(self, key: Any) -> Any:
        """The state of a key; None if it has none."""
    def contains(self, key: Any) -> bool:
        """Whether a key has a state."""
    def put(self, key: Any, state: Any, updated_ms: int, deadline_ms: int | None = None) -> None:
        """Sets the state of a key; without a deadline it has none. `InvalidInput` for None as a state."""
    def remove(self, key: Any) -> None:
        """Takes a key out; an unknown one is no error."""
    def sealed(self) -> StateMap:
        """The map, with everything that waited."""

@final
class Pass:
    """One pass of a batch. `kind` is "data" or "due".

    `late_ms`: rows at or before it are late (W(N-1)); None where there is no watermark. `watermark_ms`: what user
    functions see and what event-time deadlines are compared with: W(N-1) in the data pass, W(N) in the due pass.
    """
    def __new__(cls, kind: str, batch_time_ms: int, late_ms: int | None, watermark_ms: int | None) -> Self: ...
    def beginning(self) -> Pass:
        """The same pass for an operator whose maps hold an initial state that no batch has handled."""
    @property
    def kind(self) -> str: ...
    @property
    def batch_time_ms(self) -> int: ...
    @property
    def watermark_ms(self) -> int | None: ...
    @property
    def begins(self) -> bool:
        """Whether this is the operator's first batch over an initial state."""

@final
class Prepared:
    """What an operator sends through the exchange for one block."""
    @property
    def rows(self) -> pa.RecordBatch: ...
    @property
    def late(self) -> pa.BooleanArray | None:
        """Which rows of the block were late; None: none was."""

@final
class Operator:
    """A keyed operator at work. One object serves one task: `prepare` before the exchange, else `open`, `apply`…,
    `finish`."""
    def map_schemas(self) -> list[MapSchema]: ...
    def output_schema(self) -> pa.Schema: ...
    def prepared_schema(self) -> pa.Schema:
        """The columns of `Prepared.rows`: key columns first."""
    def prepare(self, rows: pa.RecordBatch, pass_: Pass, combine: bool = True) -> Prepared:
        """Takes late rows out, and combines what can be combined: `rows` are the next block of a split then, and may be
        kept back until `rest`. Without `combine` (a further stage, fed by an operator's outputs) each row stays by
        itself, so that rows are folded one by one. Columns are found by name; others than the operator's own are
        ignored."""
    def rest(self) -> pa.RecordBatch | None:
        """What `prepare` has kept back, asked for at the end of a split; None where there is nothing."""
    def open(self, maps: Sequence[StateMap]) -> None:
        """Takes forks of the maps, which are of `map_schemas()` in this order."""
    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: Pass) -> pa.RecordBatch:
        """Folds the prepared rows of a pass (chunks in plan order), then fires what is due. Returns the outputs,
        sorted by (key hash, key bytes, emission number). Batch-time timeouts fire in the "data" pass only, also where
        there are no chunks (a sweep). After an error the operator is spent, and the maps it was given are unchanged.

        Where the user's function raises: `InvalidInput` with its traceback, `__cause__`, and attributes `operator`,
        `key` (its repr) and `chunk` (the index of the row's chunk; None when timing out). Interrupts pass untouched."""
    def put_aside(self) -> list[tuple[int, pa.RecordBatch, list[str]]]:
        """What was not applied since the last time, because the user's function failed for its key: by number of the
        chunk in its `apply`, the prepared rows in their order, and why, in one line each. Taken once."""
    def finish(self) -> list[StateMap]:
        """The maps with everything applied; the operator is spent."""
    def close(self) -> None:
        """Nothing: it holds nothing that would have to be given back."""
    def metrics(self) -> dict[str, int | str]:
        """So far: `rows` given to `prepare` (but for late ones) and to `apply`; `rows_updated`, `rows_removed` state
        rows written and deleted, those that timed out among them; `timed_out` keys; `failed` keys,
        and as `failure` why one of them did, in one line."""

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
    """Running aggregates. `functions`: (output column, function, input column or None for count of rows). `by`: output
    column → the column that its value is chosen by, for min_by and max_by.

    Functions now: count, sum, min, max, mean, first, last, min_by, max_by, var, stddev, approx_count_distinct and
    collect_set; `parameters` has the precision (4 to 18) or the limit of the last two. Result types and null, NaN and
    overflow rules are Spark's (ANSI): sum of integers is bigint, of decimal(p, s) is decimal(min(38, p+10), s), mean of
    numbers is double, of decimal(p, s) decimal(min(38, p+4), min(38, s+4)), var and stddev are double. Output: key
    columns, then one column a function, one row for each key that the pass touched ("update" mode). Input columns may
    be of any supported type for count, first, last, min_by and max_by, of any that has an order for min, max, and for
    what is chosen by. Rows are combined within a split, then partials folded, state first, in the order of the splits.

    `window`: an object with `column` (a timestamp, or windows, which count by their last microsecond), `cut_ms` (size,
    slide and start; None: the windows that the column holds), `key` (the names of the key columns that hold a window's
    start and, where it is given, its end), `place` (where they stand among the key columns), `output` (the column of
    the output that holds `struct<start, end>`, at that place), `ends`: "never" (there is no watermark over the column),
    "forgotten" or "emitted" (when the watermark has passed the end). Rows that fall into no open window, and rows
    without a time, are late.

    `key_time`: the key column that is the event time, and what the end of a key is ("forgotten" or "emitted", when the
    watermark has reached it); windows then never end. Rows whose key is over are late, one without a time never is.

    One map, `partials`: key → one column a function of its output's name, but `x.sum` and `x.count` for a mean, `x` and
    `x.set` (bool) for first and last, `x` and `x.by` for min_by, max_by and earliest, `x.count`, `x.mean` and `x.m2`
    (doubles) for var and stddev.
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
    """Aggregates by session: `functions`, `by` and `parameters` as for `aggregate`, and `earliest`, the value in the
    first of the rows whose other column is least.

    Rows of a key whose times in `column` (a timestamp, or windows, which count by their last microsecond) lie no more
    than `gap_ms` apart are one session. Rows whose own session, from their time to `gap_ms` later, is over at the
    watermark, and rows without a time, are late. A session is emitted and forgotten when the watermark has reached its
    end, those of a key by their start. The output has `session_window struct<start, end>` at `place` among the key
    columns. Partials are combined within a block, then folded state first, in block order.

    One map, `sessions`: key, `session_start` → `session_end`, and the partials of `aggregate`.
    """

def deduplicate(
    name: str,
    key: Sequence[str],
    input_schema: pa.Schema,
    event_time: str | None,
    forget: Literal["never", "at_event_time", "after"],
    delay_ms: int | None,
) -> Operator:
    """The first row of each key. Its output has the columns of its input; one map, `seen`: key → nothing.

    `event_time`: the column by which rows are late (at or before the watermark); None: no row is. A key is forgotten
    never, when the watermark reaches the event time in the key (`"at_event_time"`; never for a null), or when it
    reaches the event time of the key's first row plus `delay_ms` (`"after"`; a null counts as the epoch).
    """

def map_with_state(
    operator: Any, function: Callable[..., Any], arguments: int, value: str | None, timeout_ms: int | None, clock: str
) -> Operator:
    """`mapWithState` over a Python function, of a bound operator (`tidemill.operators.map_with_state`).

    Of `operator`, as of those below, these are read: `name`, `input` (`schema`, `key`, `event_time`, `late`,
    `time_zone`), `state` and `output_schema` (schemas), `state_unnamed`, `state_type`, `output_unnamed`, `on_error`.

    `arguments` is 4 (`f(batchTime, key, value, state)`), 3 (`f(key, value, state)`) or 2 (`f(value, state)`). `value`:
    a column, else the whole row as a `tidemill.rows.Row` type made by `tidemill.rows.row_type(names)`. One state column
    that has no name of the user's is a scalar, else a Row; with `state_type` (a dataclass) that class. `clock` is
    "batch" or "event"; `late` is "drop", "quarantine" (both take late rows out in `prepare` where there is a timeout
    on the clock "event") or "keep".

    One map, `state`: key → state; a timeout is the deadline of its row. Columns of the input called `_row` and
    `_metadata` are not part of the whole row. Nested dataclasses are made where the annotations of `state_type` say so.

    `on_error` is "fail" or "quarantine": there the rows of a key whose calls raised, or gave what does not fit, are put
    aside, and its state and deadline stay as they were.
    """

def groups_with_state(operator: Any, function: Callable[..., Any], emits: str, timeout: str) -> Operator:
    """`func(key, rows, state)` once a key and pass, and again for each key that timed out, by Spark's Scala rules.

    `emits` is "one" (the call returns a row) or "many" (it returns rows, or None); `timeout` is one of Spark's three
    modes; the rest is as in `map_with_state`. Only with "EventTimeTimeout" are late rows taken out.

    One map, `state`: key → state; with a timeout it has a last column `_exists`, because a key may have a timeout and
    no state. Timeouts fire strictly below their clock: the deadline is the ms after.
    """

def pandas_with_state(
    operator: Any,
    function: Callable[..., Any],
    frames: Callable[[pa.RecordBatch, pa.RecordBatch], Any],
    timeout: str,
) -> Operator:
    """`func(key, pdfs, state)` once a key and pass, and again for each key that timed out, by PySpark's rules.

    `frames` is called with the rows of a pass, key by key, and with its keys, and gives what calls `function`
    (`tidemill.operators.pandas_frames.Frames`). A state is a plain tuple. The rest is as in `groups_with_state`.
    """

@final
class KeyRows(Iterator[Any]):
    """The rows of one key in one pass, in plan order: what a group function iterates over, once."""
    def __next__(self) -> Any: ...
    def __length_hint__(self) -> int: ...

@final
class GroupState:
    """The state and the timeout of one key inside a group function (Spark: `GroupState`, member for member).

    Values in, values out: changing an object that `get` gave, or that `update` was given, changes no state. Beyond its
    call a GroupState raises `InvalidInput` (a `ValueError`).
    """

    NO_TIMESTAMP: Final = -1
    """What stands for no timestamp in PySpark."""
    @property
    def exists(self) -> bool:
        """Whether there is a state. False after `remove`, and for a key that has a timeout alone."""
    @property
    def get(self) -> Any:
        """The state; `StateNotSet` (a `LookupError`, and a `ValueError` as in PySpark) where there is none."""
    @property
    def getOption(self) -> Any:
        """The state, or None."""
    @property
    def hasTimedOut(self) -> bool:
        """Whether this call is for the timeout of the key: it has no rows."""
    @property
    def oldTimeoutTimestamp(self) -> int:
        """-1. PySpark's class has this member, and shows a function nothing else in it, whatever was armed before."""
    def update(self, newValue: Any) -> None:
        """Sets the state, also after `remove`. `InvalidInput` where it does not fit the state's schema; `TypeError` for
        None."""
    def remove(self) -> None:
        """Removes the state."""
    def setTimeoutDuration(self, durationMs: int | str | timedelta) -> None:
        """The key times out when batch time is more than this much later; ms, "10 seconds" or a timedelta.

        `RuntimeError` without timeoutConf="ProcessingTimeTimeout", `ValueError` for less than 1 ms."""
    def setTimeoutTimestamp(
        self, timestampMs: int | datetime | date, additionalDuration: int | str | timedelta | None = None
    ) -> None:
        """The key times out when the watermark has passed this time (of a date its midnight), plus the duration.

        `RuntimeError` without timeoutConf="EventTimeTimeout", `ValueError` for a time before the watermark, or before
        1970."""
    def getCurrentWatermarkMs(self) -> int:
        """The watermark that this call lives by; `RuntimeError` where the stream has none."""
    def getCurrentProcessingTimeMs(self) -> int:
        """The batch time."""
    def json(self) -> str:
        """Clocks, timeout, and what this call has done so far, as PySpark writes them; without the value."""

@final
class State:
    """The state of one key inside a `mapWithState` function (Spark: `org.apache.spark.streaming.State`).

    Values in, values out: changing an object that `get` gave, or that `update` was given, changes no state. Beyond its
    call a State raises `InvalidInput` (a `ValueError`).
    """
    @property
    def exists(self) -> bool:
        """Whether there is a state. False after `remove`."""
    @property
    def get(self) -> Any:
        """The state; `StateNotSet` (a `LookupError`) where there is none."""
    @property
    def getOption(self) -> Any:
        """The state, or None."""
    @property
    def isTimingOut(self) -> bool:
        """Whether the key times out: this is its last call, and the state goes afterwards."""
    def update(self, new: Any) -> None:
        """Sets the state. `InvalidInput` where `new` does not fit the state's schema; `ValueError` for None, after
        `remove`, and when timing out."""
    def remove(self) -> None:
        """Removes the state. `ValueError` when it has been removed already, and when timing out."""

def transform_with_state(
    operator: Any,
    processor: Any,
    variables: Sequence[Any],
    timers: Timers,
    initial: Any,
    frames: Callable[..., Any] | None,
) -> Operator:
    """A processor called once a key with its rows, and once a timer (`tidemill.operators.transform_with_state`).

    `variables`: objects with `map` (the name of the variable's map), `sub_key` and `value` (its columns), `ttl_ms`, and
    `state`, the `ValueState`, `ListState` or `MapState` that the processor holds; they and `timers` follow the calls
    from now on. Of `operator` are read: `name`, `input` (as by `map_with_state`), `time_mode`, `output_schema`,
    `event_time`, `on_error`. `time_mode` is "None", "ProcessingTime" (batch time) or "EventTime" (the watermark; late
    rows are taken out in `prepare` unless `late` is "keep"). `event_time`: an output column that may not be late.

    `initial`: None, or an object with `stored` (what the map of the initial state keeps beside the key) and `shown`
    (the columns of the rows that `handleInitialState` is given, in the first batch).

    `frames`: None, or a function of the rows and the keys of a visit that gives what makes pandas frames of them
    (`tidemill.operators.processor_frames`); the processor is given frames then, and gives frames back.

    `on_error`: "fail", or "quarantine": a key for whose rows or timers a call fails keeps its variables and timers as
    they were, emits nothing, and its rows are put aside. `handleInitialState` fails the pass in either case.

    One map a variable, in their order, then `timers`: key, expiry_ms → nothing, then, with `initial`, `initial`: key,
    row → what is stored. A list's sub-key is a position, a map's the user's key; a deadline is when a row has lived its
    time, or a timer is due.
    """

@final
class ValueState:
    """One value a key (Spark: `ValueState`). Usable while the processor is called for a key, else `CallRefused`.

    Values in and out are tuples; changing an object that was given or got changes no state.
    """
    def __new__(cls, operator: str, name: str, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Whether there is a value."""
    def get(self) -> Any:
        """The value as a tuple; None where there is none."""
    def update(self, newValue: Any) -> None:
        """Sets the value; `InvalidInput` where it does not fit."""
    def clear(self) -> None:
        """Removes the value."""

@final
class ListState:
    """Any number of values a key, in the order in which they were appended (Spark: `ListState`)."""
    def __new__(cls, operator: str, name: str, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Whether there are elements."""
    def get(self) -> Iterator[Any]:
        """The elements as they are now, as tuples."""
    def put(self, newState: Any) -> None:
        """These elements in place of those that are there; `CallRefused` for none."""
    def appendValue(self, newState: Any) -> None:
        """One element more, at the end; `InvalidInput` where it does not fit."""
    def appendList(self, newState: Any) -> None:
        """These elements more, at the end; `CallRefused` for none."""
    def clear(self) -> None:
        """Removes all elements."""

@final
class MapState:
    """Values by a key of the user's within the grouping key (Spark: `MapState`). Iterators show the entries as they are
    when made, in the order of the user's keys: numbers and times by value, texts by their UTF-8 bytes, null first."""
    def __new__(cls, operator: str, name: str, key: pa.Schema, value: pa.Schema, time_zone: str) -> Self: ...
    def exists(self) -> bool:
        """Whether there is an entry."""
    def getValue(self, key: Any) -> Any:
        """The value as a `tidemill.rows.Row`, as Spark does (iterators give tuples); None where there is none."""
    def containsKey(self, key: Any) -> bool:
        """Whether there is an entry of this key."""
    def updateValue(self, key: Any, value: Any) -> None:
        """Sets the value of this key; `InvalidInput` where either does not fit."""
    def iterator(self) -> Iterator[Any]:
        """(key, value) pairs of tuples."""
    def keys(self) -> Iterator[Any]:
        """The keys, as tuples."""
    def values(self) -> Iterator[Any]:
        """The values, as tuples, in the order of their keys."""
    def removeKey(self, key: Any) -> None:
        """Removes the entry of this key; nothing where there is none."""
    def clear(self) -> None:
        """Removes all entries."""

@final
class Timers:
    """The timers of a key, behind the processor's handle. `is_off`: the time mode is None, and all is `CallRefused`."""
    def __new__(cls, operator: str, is_off: bool) -> Self: ...
    def register(self, expiry_ms: int) -> None:
        """A timer at this time, ms since the epoch; nothing where there is one."""
    def delete(self, expiry_ms: int) -> None:
        """Removes the timer at this time; nothing where there is none."""
    def list(self) -> Any:
        """Ascending; one that is firing is among them."""

@final
class TimerValues:
    """The clocks that a processor's call sees, ms since the epoch: both −1 where the time mode is None; the watermark
    is 0 where there is none."""
    def getCurrentProcessingTimeInMs(self) -> int:
        """The batch time."""
    def getCurrentWatermarkInMs(self) -> int:
        """The watermark that this call lives by."""

@final
class ExpiredTimerInfo:
    """The timer that a call is about."""
    def getExpiryTimeInMs(self) -> int:
        """When it expired, ms since the epoch."""
