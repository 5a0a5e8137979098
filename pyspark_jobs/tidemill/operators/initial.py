"""The initial state of an operator: converts what `init` is given to a table that is checked by name and type.

An operator declares its columns with `Initial`, and converts the table to rows of its maps with `seed`. `repo/init.py`
writes them as version -1 of the state.
INVARIANT: each key occurs once, unless the operator accepts several rows for a key.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import array_of, checked_buffers, matching
from ..state.columns import MapColumns
from ..values import dataclass
from .keys import cells, format_key, repeated


def check_kind(data: Any, what: str) -> None:
    """Raise `InvalidInput` if `data` cannot be an initial state. `what` begins the message."""
    if isinstance(data, pa.Table | pa.RecordBatch | str | os.PathLike):
        return
    if not isinstance(data, Sequence) or isinstance(data, bytes):
        raise InvalidInput(
            f"{what} is a {type(data).__name__}, expected an Arrow table, a list of (key, state) pairs or the "
            "path of a Parquet file"
        )


@dataclass(frozen=True)
class Initial:
    """The initial state that an operator accepts.

    `data` is the initial state in the pipeline's code: an Arrow table, a list of (key, state) pairs, the path of a
    Parquet file or folder, or None. `unnamed`: the state is one column without a name, which must not be null.
    `repeats`: a key may occur in several rows.
    """

    key: pa.Schema
    state: pa.Schema
    unnamed: bool = False
    data: Any = None
    repeats: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The key columns, then the state columns. A state column with the name of a key column is `value.…`."""
        columns = list(self.key)
        for field in self.state:
            name = field.name
            while name in (column.name for column in columns):
                name = f"value.{name}"
            columns.append(field.with_name(name))
        return pa.schema(columns)

    def table(self, data: Any, operator: str, time_zone: str) -> pa.Table:
        """Convert `data` (a table, or pairs) to a table with these columns. `InvalidInput` if it does not fit."""
        what = f"the initial state of operator `{operator}`"
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        rows = self._of_table(data, what) if isinstance(data, pa.Table) else self._of_pairs(data, what, time_zone)
        if self.unnamed and rows.column(len(self.key)).null_count:
            raise InvalidInput(f"{what}: the state of a key is null", hint="omit keys that have no state")
        return rows if self.repeats else self._once(rows, what)

    def _of_table(self, table: pa.Table, what: str) -> pa.Table:
        return matching(checked_buffers(self._as_declared(table), what), self.columns, what).combine_chunks()

    def _as_declared(self, table: pa.Table) -> pa.Table:
        """Rename columns that have their names in the state map to the declared names."""
        declared = self.columns.names
        kept = MapColumns.apart("state", self.key, value=self.state).names
        if declared == kept or set(declared) <= set(table.column_names):
            return table
        names = dict(zip(kept, declared, strict=True))
        return table.rename_columns([names.get(name, name) for name in table.column_names])

    def _of_pairs(self, pairs: Any, what: str, time_zone: str) -> pa.Table:
        check_kind(pairs, what)
        rows = [self._cells(pair, number, what) for number, pair in enumerate(pairs)]
        zone = ZoneInfo(time_zone)
        columns = [array_of([row[i] for row in rows], field, zone, what) for i, field in enumerate(self.columns)]
        return pa.Table.from_arrays(columns, schema=self.columns)

    def _cells(self, pair: Any, number: int, what: str) -> list[Any]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(f"{what}: pair {number} is {pair!r}, expected (key, state)")
        key, state = pair
        keys = cells(key, self.key)
        if len(keys) != len(self.key):
            raise InvalidInput(
                f"{what}: pair {number} has the key {key!r}, expected {len(self.key)} values "
                f"({', '.join(self.key.names)})"
            )
        states = [state] if self.unnamed else _fields(state, self.state.names)
        if states is None:
            raise InvalidInput(
                f"{what}: the key {key!r} has the state {state!r}, expected {len(self.state)} values "
                f"({', '.join(self.state.names)})"
            )
        return [*keys, *states]

    def _once(self, rows: pa.Table, what: str) -> pa.Table:
        for key, count in repeated(rows.select(self.key.names)):
            raise InvalidInput(f"{what} has the key {format_key(key)} in {count} rows, expected each key once")
        return rows


def _fields(state: Any, names: Sequence[str]) -> list[Any] | None:
    """Return the fields of a state of several columns, in the forms that `update` accepts; None for any other object.

    The forms are a dict, a dataclass, a tuple, a Row and a list.
    """
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        state = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    named = getattr(state, "__fields__", None)
    if isinstance(state, tuple) and named and len(named) == len(state):
        state = dict(zip(named, state, strict=True))
    if isinstance(state, Mapping):
        return [state[name] for name in names] if set(state) == set(names) else None
    if isinstance(state, tuple | list):
        return list(state) if len(state) == len(names) else None
    return [state] if len(names) == 1 else None
