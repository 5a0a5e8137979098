"""The tasks of a migration: each reads a key range of an operator's state, calls the user's function, and stores segments.

If keys change, there are two levels. The first stores the migrated rows of each range as a temporary segment, with
their places as a sub-key, so that no row is lost; the second reads its new range from all of them. So a task holds one
range in memory, on every engine. CRASH: segments carry the migration's attempt and count only once a commit names them.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from .. import _native, names
from ..errors import InternalError, InvalidInput, TidemillError
from ..operators.keys import KeyValues, repeated, shown
from ..protocol import codec
from ..protocol.records import Receipt, Segment
from ..schema import checked, conform, difference, listed, normalise, one_batch
from ..settings import Settings
from ..state.cache import RunCache, process_cache
from ..state.columns import NO_COLUMNS, MapColumns
from ..state.versions import LARGEST_COLUMN, open_map, store_run
from ..store import Store, open_store
from . import wire
from .batch import task_attempt
from .ranges import cut
from .work import Item

Function = Callable[..., Any]
Deadlines = Literal["keep", "clear", "required"]
"""What becomes of deadlines that the function does not return."""
TIME = pa.timestamp("ms", tz="UTC")
EXISTS = "_exists"
"""The state column of operators with timeouts that says whether a row has a state; true unless a function returns it."""
TIMES = pa.schema([pa.field("updated_at", TIME), pa.field("deadline", TIME)])


@dataclass(frozen=True)
class Place:
    """Where a task finds the repository, and the names of what it stores."""

    root: str
    pipeline: str
    storage_options: Mapping[str, Mapping[str, Any]]
    settings: Settings
    branch: str
    number: int
    attempt: str

    @cached_property
    def store(self) -> Store:
        """The repository's store in this process."""
        return open_store(self.root, self.storage_options.get("root")).at(self.pipeline)

    @property
    def cache(self) -> RunCache:
        """The cache of opened segments of this process."""
        return process_cache(self.settings)

    def segment(self, operator: str, map_name: str, range_index: int) -> str:
        """Return a new name for a segment."""
        stem = names.stem(self.number, self.attempt, range_index, task_attempt())
        return names.segment(operator, map_name, self.branch, stem)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "store"}


@dataclass(frozen=True)
class Rewrite:
    """One map of an operator, and how its rows change.

    `moves`: rows may get other keys. `merge` makes one row of all rows that get the same key. `drop_keys`: rows may be
    lost or added. `not_null`: the only state column has no name, so a null would be no state.
    """

    operator: str
    before: MapColumns
    after: MapColumns
    function: Function
    moves: bool
    deadlines: Deadlines
    drop_keys: bool = False
    merge: Function | None = None
    not_null: bool = False

    @property
    def what(self) -> str:
        """What messages begin with."""
        variable = names.variable_name(self.after.name)
        of = f", variable `{variable}`" if variable != self.after.name else ""
        return f"migrate operator `{self.operator}`{of}"

    @property
    def columns(self) -> pa.Schema:
        """The columns of a migrated row."""
        return pa.schema([*self.after.key, *self.after.sub_key, *self.after.value, *TIMES])

    @property
    def identity(self) -> list[str]:
        """The columns that identify a migrated row."""
        return [*self.after.key.names, *self.after.sub_key.names]

    @property
    def spilled(self) -> MapColumns:
        """The columns of temporary segments: those of the map, with the place of a row as the last sub-key column."""
        place = "place"
        while place in (name.lower() for name in self.after.names):
            place = f"{place}_"
        sub_key = pa.schema([*self.after.sub_key, pa.field(place, pa.int64())])
        return MapColumns(self.after.name, self.after.key, sub_key, self.after.value)


@dataclass(frozen=True)
class MigrateWork:
    """The rewriting of one map, for any engine."""

    place: Place
    rewrite: Rewrite
    segments: list[Segment]
    ranges: int
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def scatter_tasks(self) -> int:
        """0, because nothing is read but state."""
        return 0

    @property
    def levels(self) -> int:
        """Two if rows may get other keys."""
        return 2 if self.rewrite.moves else 1

    @property
    def sequence(self) -> int:
        """The sequence of the new segments: above all that they replace."""
        return 1 + max((segment.sequence for segment in self.segments), default=0)

    def scatter(self, task: int) -> Iterator[Item]:
        """Never called."""
        raise InternalError(f"a migration has no scatter task {task}")

    def apply(self, level: int, range_index: int, items: Iterable[bytes]) -> Iterator[Item]:
        """Run a task. If it fails, the error goes to all ranges of the next level."""
        is_last = level == self.levels - 1
        try:
            lo, hi = cut(self.ranges)[range_index]
            if level == 0:
                record = self._read(range_index, lo, hi)
            else:
                record = self._gather(range_index, lo, hi, [_receipt(item) for item in items])
            message = wire.receipt(codec.encode(record))
        except TidemillError as error:
            message = wire.failure(error)
        for target in range(1 if is_last else self.ranges):
            yield Item(target, message)

    def _read(self, index: int, lo: int, hi: int) -> Receipt:
        """Migrate the rows of a range."""
        rewrite, place = self.rewrite, self.place
        opened = open_map(place.store, place.cache, rewrite.before.engine(), self.segments, lo, hi)
        rows = pa.Table.from_batches([opened.map.scan()])
        made = migrated(rewrite, rows) if rows.num_rows else pa.table({f.name: pa.nulls(0, f.type) for f in rewrite.columns})
        if not rewrite.moves:
            return self._stored(index, lo, hi, made)
        columns = rewrite.spilled
        numbers = pa.array(range(index << 40, (index << 40) + made.num_rows), pa.int64())
        spilled = made.add_column(len(rewrite.identity), columns.sub_key.names[-1], numbers)
        run = run_of(columns, spilled)
        name = place.segment(rewrite.operator, rewrite.after.name, index)
        segments = store_run(place.store, place.cache, run, (index, place.number), name)
        return self._record(lo, hi, segments, rows.num_rows)

    def _gather(self, index: int, lo: int, hi: int, sent: Sequence[Receipt]) -> Receipt:
        """Collect the migrated rows of a new range, and merge those that have the same key."""
        rewrite, place = self.rewrite, self.place
        spilled = [one for receipt in sent for one in receipt.state[rewrite.operator][rewrite.after.name]]
        columns = rewrite.spilled
        opened = open_map(place.store, place.cache, columns.engine(), spilled, lo, hi)
        rows = pa.Table.from_batches([opened.map.scan()])
        at = columns.sub_key.names[-1]
        rows = rows.sort_by(at).drop_columns([at]) if rows.num_rows else rows.drop_columns([at])
        return self._stored(index, lo, hi, one_row_each(rewrite, rows))

    def _stored(self, index: int, lo: int, hi: int, rows: pa.Table) -> Receipt:
        rewrite, place = self.rewrite, self.place
        run = run_of(rewrite.after, rows)
        parts = _native.Run.merge([run], lo, hi, "nothing", LARGEST_COLUMN)
        first = place.segment(rewrite.operator, rewrite.after.name, index)
        segments: list[Segment] = []
        for number, (low, high, part) in enumerate(parts):
            age = (self.sequence, place.number)
            segments += store_run(place.store, place.cache, part, age, names.part_of(first, number), low, high)
        return self._record(lo, hi, segments, len(run))

    def _record(self, lo: int, hi: int, segments: list[Segment], rows: int) -> Receipt:
        operator, map_name = self.rewrite.operator, self.rewrite.after.name
        return Receipt(
            level=0, lo=lo, hi=hi, splits={}, state={operator: {map_name: segments}},
            rows={operator: {map_name: rows}}, outputs={}, quarantine=[], operators={}, watermarks={}, next_deadline={},
        )  # fmt: skip


def _receipt(data: bytes) -> Receipt:
    message = wire.decode(data)
    if isinstance(message, wire.Failure):
        raise message.error()
    if not isinstance(message, wire.Receipt):
        raise InternalError(f"a task of a migration received a {type(message).__name__}, expected a receipt")
    return codec.decode(Receipt, message.record, "a receipt")


def run_of(columns: MapColumns, rows: pa.Table) -> _native.Run:
    """Return rows, with `updated_at` and `deadline`, as a run."""
    schema = columns.engine()
    table = rows.append_column("deleted", pa.array([False] * rows.num_rows, pa.bool_()))
    return _native.Run.of_rows(schema, one_batch(table.cast(schema.columns), "migrate the state"))


def migrated(rewrite: Rewrite, rows: pa.Table) -> pa.Table:
    """Return what the user's function makes of live rows of the state, in the columns of `rewrite`.

    `InvalidInput` if rows do not fit, or if rows are lost or added and must not be.
    """
    given, times = rows.select(rewrite.before.names), rows.select(TIMES.names)
    made = _called(rewrite, given, times)
    if not rewrite.drop_keys and made.num_rows != rows.num_rows:
        raise InvalidInput(
            f"{rewrite.what}: the function made {made.num_rows:,} rows of {rows.num_rows:,}, expected one for each",
            hint="return a row for every key; or allow keys to be dropped with drop_keys=True or --drop-keys",
        )
    return _fitting(rewrite, made, _sources(rewrite, made, rows), times)


def _called(rewrite: Rewrite, given: pa.Table, times: pa.Table) -> pa.Table:
    arguments = (given, times) if _wants_times(rewrite.function) else (given,)
    return _table(rewrite, call(rewrite.what, rewrite.function, *arguments), rewrite.identity + rewrite.after.value.names)


def call(what: str, function: Function, *arguments: pa.Table) -> Any:
    """Call a user's function. If it raises, the error is `InvalidInput` with its traceback."""
    try:
        return function(*arguments)
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        line = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
        raise InvalidInput(
            f"{what}: the function `{name}` raised {line}\n{''.join(traceback.format_exception(error)).rstrip()}",
            hint="nothing was changed; correct the function and migrate again",
        ) from error


def _wants_times(function: Function) -> bool:
    """Whether a function takes a second argument: `updated_at` and `deadline` of the rows."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([one for one in parameters if one.default is one.empty and one.kind in positional]) == 2


def _table(rewrite: Rewrite, made: Any, expected: Sequence[str]) -> pa.Table:
    """Return what a function returned as a table that has the expected columns, and maybe times."""
    if isinstance(made, pa.RecordBatch):
        made = pa.Table.from_batches([made])
    if not isinstance(made, pa.Table):
        raise InvalidInput(f"{rewrite.what}: the function returned a {type(made).__name__}, expected a pyarrow.Table")
    if EXISTS in expected and EXISTS not in rewrite.before.names and EXISTS not in made.column_names:
        made = made.append_column(EXISTS, pa.array([True] * made.num_rows, pa.bool_()))
    columns = [name for name in made.column_names if name not in TIMES.names or name in expected]
    if sorted(columns) != sorted(expected):
        found = normalise(made.select(columns).schema) if len(set(columns)) == len(columns) else None
        wanted = pa.schema([rewrite.columns.field(name) for name in expected])
        detail = "a column twice" if found is None else difference(wanted, found)
        raise InvalidInput(
            f"{rewrite.what}: the function returned the columns {listed(columns)}, expected {listed(expected)}; {detail}"
        )
    return checked(made, rewrite.what)


def _sources(rewrite: Rewrite, made: pa.Table, rows: pa.Table) -> pa.Array | None:
    """Return for each migrated row the number of the row that it was; None if that is not known.

    If the keys must stay, they are compared. `InvalidInput` if a key is missing, new, or there twice.
    """
    before = [*rewrite.before.key.names, *rewrite.before.sub_key.names]
    places = pa.array(range(rows.num_rows), pa.int64())
    if rewrite.moves and (len(before) != len(rewrite.identity) or made.num_rows == rows.num_rows):
        return places if made.num_rows == rows.num_rows else None
    identity = pa.schema([rewrite.columns.field(name) for name in rewrite.identity])
    keys = one_batch(conform(made, identity, rewrite.what), rewrite.what)
    known = one_batch(rows.select(before).rename_columns(rewrite.identity), rewrite.what)
    if rewrite.moves:
        if known.schema.types != identity.types:
            return None
        found = KeyValues(known, places).of(keys)
        return found if not found.null_count else None
    found = KeyValues(one_batch(pa.Table.from_batches([known]).cast(identity), rewrite.what), places).of(keys)
    if found.null_count:
        number = pc.index(found.is_null(), True).as_py()
        key = shown(tuple(keys.slice(number, 1).to_pylist()[0].values()))
        raise InvalidInput(
            f"{rewrite.what}: the function returned the key {key}, which the state does not have",
            hint="keep the keys as they are; or allow keys to change with drop_keys=True or merge=",
        )
    for key, count in repeated(pa.Table.from_batches([keys])):
        raise InvalidInput(f"{rewrite.what}: the function returned the key {shown(key)} in {count} rows, expected one")
    return found


def _fitting(rewrite: Rewrite, made: pa.Table, sources: pa.Array | None, times: pa.Table) -> pa.Table:
    """Return migrated rows in their columns, with the times of the rows that they were, unless they have their own."""
    given = set(made.column_names) - set(rewrite.after.names)
    columns = {name: made.column(name) for name in rewrite.after.names}
    for name in TIMES.names:
        if name in given:
            columns[name] = made.column(name)
        elif name == "deadline" and rewrite.deadlines == "clear":
            columns[name] = pa.nulls(made.num_rows, TIME)
        elif name == "deadline" and rewrite.deadlines == "required":
            raise InvalidInput(
                f"{rewrite.what}: timeouts follow other rules now, but the function returned no column `deadline`",
                hint="return `deadline`, a timestamp in UTC, null for a row without a timeout",
            )
        elif sources is None:
            raise InvalidInput(
                f"{rewrite.what}: the function made {made.num_rows:,} rows with other keys of {times.num_rows:,}, so "
                f"their `{name}` is not known",
                hint="return the columns `updated_at` and `deadline`; a function of two arguments gets them as the second",
            )
        else:
            columns[name] = times.column(name).take(sources)
    fitting = conform(pa.table(columns), rewrite.columns, rewrite.what)
    if fitting.column("updated_at").null_count:
        raise InvalidInput(f"{rewrite.what}: the function returned a null in `updated_at`")
    if rewrite.not_null and fitting.column(rewrite.after.value.names[0]).null_count:
        raise InvalidInput(
            f"{rewrite.what}: the state of a key is null", hint="leave out keys without a state, with drop_keys=True"
        )
    return fitting


def one_row_each(rewrite: Rewrite, rows: pa.Table) -> pa.Table:
    """Return the rows with one row for each key. `InvalidInput` if several rows have one, and there is no `merge`."""
    twice = list(repeated(rows.select(rewrite.identity))) if rows.num_rows else []
    if not twice:
        return rows
    if rewrite.merge is None:
        key, count = twice[0]
        raise InvalidInput(
            f"{rewrite.what}: {count} rows get the key {shown(key)}, expected one",
            hint="give a function that merges them: merge= or --merge",
        )
    keys = one_batch(rows.select(rewrite.identity), rewrite.what)
    repeats = KeyValues(keys, pa.array(range(rows.num_rows), pa.int64())).of(keys)  # the last row of each key
    counts = pa.table(pc.value_counts(repeats).flatten(), names=["row", "count"])
    several = pc.is_in(repeats, counts.filter(pc.greater(counts.column("count"), 1)).column("row").combine_chunks())
    given = rows.filter(several)
    made = _table(rewrite, call(rewrite.what, rewrite.merge, given), rewrite.after.names)
    merged = conform(_with_newest_times(rewrite, made, given), rewrite.columns, rewrite.what)
    _check_merged(rewrite, merged, given)
    return pa.concat_tables([rows.filter(pc.invert(several)), merged])


def _with_newest_times(rewrite: Rewrite, made: pa.Table, given: pa.Table) -> pa.Table:
    """Add times that `merge` did not return: those of the row of the key that was updated last, its last such row."""
    missing = [name for name in TIMES.names if name not in made.column_names]
    if not missing:
        return made
    keys = one_batch(given.select(rewrite.identity), rewrite.what)
    order = pc.sort_indices(given.column("updated_at").combine_chunks())
    newest = KeyValues(keys.take(order), order.cast(pa.int64()))
    identity = pa.schema([rewrite.columns.field(name) for name in rewrite.identity])
    places = newest.of(one_batch(conform(made, identity, rewrite.what), rewrite.what))
    for name in missing:
        made = made.append_column(name, given.column(name).take(places))
    return made


def _check_merged(rewrite: Rewrite, merged: pa.Table, given: pa.Table) -> None:
    """Raise `InvalidInput` unless `merge` returned one row for each key that it was given."""
    ones = [KeyValues(one_batch(t.select(rewrite.identity), rewrite.what), pa.array([0] * t.num_rows, pa.int64()))
            for t in (merged, given)]  # fmt: skip
    for found, table, what in ((ones[0], given, "no row"), (ones[1], merged, "a row that no row had")):
        keys = one_batch(table.select(rewrite.identity), rewrite.what)
        missing = found.of(keys).is_null()
        if pc.any(missing).as_py():
            key = shown(tuple(keys.slice(pc.index(missing, True).as_py(), 1).to_pylist()[0].values()))
            raise InvalidInput(f"{rewrite.what}: `merge` returned {what} for the key {key}, expected one row for each key")
    for key, count in repeated(merged.select(rewrite.identity)):
        raise InvalidInput(f"{rewrite.what}: `merge` returned {count} rows for the key {shown(key)}, expected one")
