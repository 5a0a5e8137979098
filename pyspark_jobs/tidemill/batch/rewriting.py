"""What a user's function makes of rows of state, checked: their columns, their keys and their times.

Rows are Arrow tables; nothing is read or stored here. INVARIANT: no key is lost or added unless the caller allows it,
and a row keeps its times unless the function returns others.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from .. import _native, names
from ..errors import InvalidInput
from ..operators.keys import KeyValues, cells_of, format_key, repeated
from ..schema import checked_buffers, conform, difference, in_backticks, normalise, one_batch
from ..schema.kernels import pc
from ..state.columns import MapColumns
from ..values import dataclass

Function = Callable[..., Any]
Deadlines = Literal["keep", "clear", "required"]
"""What happens to deadlines that the function does not return."""
TIME = pa.timestamp("ms", tz="UTC")
_EXISTS = "_exists"
"""The state column of operators with timeouts: whether a row has a state. True unless a function returns it."""
_TIMES = pa.schema([pa.field("updated_at", TIME), pa.field("deadline", TIME)])


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
        return pa.schema([*self.after.key, *self.after.sub_key, *self.after.value, *_TIMES])

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


def run_of(columns: MapColumns, rows: pa.Table) -> _native.Run:
    """Return rows, with `updated_at` and `deadline`, as a run."""
    schema = columns.engine()
    table = rows.append_column("deleted", pa.array([False] * rows.num_rows, pa.bool_()))
    return _native.Run.of_rows(schema, one_batch(table.cast(schema.columns), "migrate the state"))


def migrated(rewrite: Rewrite, rows: pa.Table) -> pa.Table:
    """Return what the user's function makes of live rows of the state, in the columns of `rewrite`.

    `InvalidInput` if rows do not fit, or if rows are lost or added and must not be.
    """
    given, times = rows.select(rewrite.before.names), rows.select(_TIMES.names)
    made = _called(rewrite, given, times)
    if not rewrite.drop_keys and made.num_rows != rows.num_rows:
        raise InvalidInput(
            f"{rewrite.what}: the function made {made.num_rows:,} rows of {rows.num_rows:,}, expected one for each",
            hint="return a row for every key; or allow keys to be dropped with drop_keys=True or --drop-keys",
        )
    return _fitting(rewrite, made, _sources(rewrite, made, rows), times)


def _called(rewrite: Rewrite, given: pa.Table, times: pa.Table) -> pa.Table:
    arguments = (given, times) if _wants_times(rewrite.function) else (given,)
    return _table(
        rewrite, _call(rewrite.what, rewrite.function, *arguments), rewrite.identity + rewrite.after.value.names
    )


def _call(what: str, function: Function, *arguments: pa.Table) -> Any:
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
    return len([one for one in parameters if one.default is inspect.Parameter.empty and one.kind in positional]) == 2


def _table(rewrite: Rewrite, made: Any, expected: Sequence[str]) -> pa.Table:
    """Return what a function returned as a table that has the expected columns, and maybe times."""
    if isinstance(made, pa.RecordBatch):
        made = pa.Table.from_batches([made])
    if not isinstance(made, pa.Table):
        raise InvalidInput(f"{rewrite.what}: the function returned a {type(made).__name__}, expected a pyarrow.Table")
    if _EXISTS in expected and _EXISTS not in rewrite.before.names and _EXISTS not in made.column_names:
        made = made.append_column(_EXISTS, pa.array([True] * made.num_rows, pa.bool_()))
    columns = [name for name in made.column_names if name not in _TIMES.names or name in expected]
    if sorted(columns) != sorted(expected):
        found = normalise(made.select(columns).schema) if len(set(columns)) == len(columns) else None
        wanted = pa.schema([rewrite.columns.field(name) for name in expected])
        detail = "a column twice" if found is None else difference(wanted, found)
        raise InvalidInput(
            f"{rewrite.what}: the function returned the columns {in_backticks(columns)}, "
            f"expected {in_backticks(expected)}; {detail}"
        )
    return checked_buffers(made, rewrite.what)


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
        key = format_key(cells_of(keys, number))
        raise InvalidInput(
            f"{rewrite.what}: the function returned the key {key}, which the state does not have",
            hint="keep the keys as they are; or allow keys to change with drop_keys=True or merge=",
        )
    for twice, count in repeated(pa.Table.from_batches([keys])):
        raise InvalidInput(
            f"{rewrite.what}: the function returned the key {format_key(twice)} in {count} rows, expected one"
        )
    return found


def _fitting(rewrite: Rewrite, made: pa.Table, sources: pa.Array | None, times: pa.Table) -> pa.Table:
    """Return migrated rows in their columns, with the times of the rows that they were, unless they have their own."""
    given = set(made.column_names) - set(rewrite.after.names)
    columns = {name: made.column(name) for name in rewrite.after.names}
    for name in _TIMES.names:
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
                hint="return `updated_at` and `deadline`; a function of two arguments gets them as its second table",
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
            f"{rewrite.what}: {count} rows get the key {format_key(key)}, expected one",
            hint="give a function that merges them: merge= or --merge",
        )
    keys = one_batch(rows.select(rewrite.identity), rewrite.what)
    repeats = KeyValues(keys, pa.array(range(rows.num_rows), pa.int64())).of(keys)  # the last row of each key
    counts = pa.table(pc.value_counts(repeats).flatten(), names=["row", "count"])
    several = pc.is_in(repeats, counts.filter(pc.greater(counts.column("count"), 1)).column("row").combine_chunks())
    given = rows.filter(several)
    made = _table(rewrite, _call(rewrite.what, rewrite.merge, given), rewrite.after.names)
    merged = conform(_with_newest_times(rewrite, made, given), rewrite.columns, rewrite.what)
    _check_merged(rewrite, merged, given)
    return pa.concat_tables([rows.filter(pc.invert(several)), merged])


def _with_newest_times(rewrite: Rewrite, made: pa.Table, given: pa.Table) -> pa.Table:
    """Add times that `merge` did not return: those of the row of the key that was updated last, its last such row."""
    missing = [name for name in _TIMES.names if name not in made.column_names]
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
            key = format_key(cells_of(keys, pc.index(missing, True).as_py()))
            raise InvalidInput(
                f"{rewrite.what}: `merge` returned {what} for the key {key}, expected one row for each key"
            )
    for twice, count in repeated(merged.select(rewrite.identity)):
        raise InvalidInput(
            f"{rewrite.what}: `merge` returned {count} rows for the key {format_key(twice)}, expected one"
        )
