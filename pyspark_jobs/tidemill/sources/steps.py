"""Stateless steps: `Select`, `Drop`, `Sql`, `MapBatches`. Each is checked when the pipeline is built.

`output` gives a step's columns and `apply` its rows. INVARIANT: hidden columns (`_metadata`, `_row`) come out last and
unchanged, unless a function changed the number of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import (
    check_column_names,
    checked_buffers,
    conform,
    difference,
    empty_table,
    normalise,
    one_batch,
    to_arrow,
)
from ..spelling import unknown
from ..values import dataclass
from . import connections, sql
from .contract import HIDDEN, METADATA, METADATA_TYPE, ROW


class _Plain:
    """Defaults of a step: no user functions, no metadata, columns keep their names."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this step: none."""
        return ()

    @property
    def needs_metadata(self) -> bool:
        """Whether the step reads `_metadata`: no."""
        return False

    def carried(self, given: pa.Schema, made: pa.Schema, names: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return those of `names` that the result still has."""
        return [name for name in names if name in made.names]


@dataclass(frozen=True)
class Select(_Plain):
    """Keeps only these columns, in this order; `_metadata.file_path` becomes the column `file_path`."""

    columns: tuple[str, ...]

    @property
    def needs_metadata(self) -> bool:
        """Whether a field of `_metadata` is selected."""
        return any(str(name).startswith(METADATA) for name in self.columns)

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Return the selected columns. Raises `InvalidInput` for an unknown column, naming the nearest one."""
        if not self.columns:
            raise InvalidInput("select needs at least one column")
        fields = [self._field(schema, name) for name in self.columns]
        check_column_names([field.name for field in fields], "select")
        return pa.schema(fields)

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:  # noqa: ARG002
        """Return the selected columns of `rows`."""
        arrays, fields = [], []
        for name in self.columns:
            field = self._field(rows.schema, name)
            fields.append(field)
            arrays.append(
                rows.column(METADATA).field(field.name) if name not in rows.schema.names else rows.column(name)
            )
        return _with_hidden(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), rows)

    def _field(self, schema: pa.Schema, name: str) -> pa.Field:
        if not isinstance(name, str):
            raise InvalidInput(f"select: expected column names, found {name!r}", hint="compute with .sql")
        if name == "*" and name not in schema.names:
            raise InvalidInput("select takes column names, found `*`", hint='.sql("SELECT *, … FROM rows")')
        if name in schema.names and name not in HIDDEN:
            return schema.field(name)
        head, _, inner = name.partition(".")
        if head == METADATA:
            if METADATA_TYPE.get_field_index(inner) < 0:
                raise unknown("column", name, [f"{METADATA}.{f.name}" for f in METADATA_TYPE])
            return METADATA_TYPE.field(inner)
        raise unknown("column", name, _visible(schema))


@dataclass(frozen=True)
class Drop(_Plain):
    """Removes these columns."""

    columns: tuple[str, ...]

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Return the other columns. Raises `InvalidInput` for an unknown column, or if no column remains."""
        for name in self.columns:
            if name not in schema.names:
                raise unknown("column", str(name), _visible(schema))
        left = [field for field in schema if field.name not in self.columns]
        if not left:
            raise InvalidInput("drop removes every column, expected at least one to remain")
        return pa.schema(left)

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:  # noqa: ARG002
        """Return the other columns of `rows`."""
        return rows.select([name for name in rows.schema.names if name not in self.columns])


@dataclass(frozen=True)
class Sql(_Plain):
    """Runs one row-wise SELECT in DuckDB's SQL over the stream, which is called `rows`; see `sources/sql.py`."""

    text: str

    @property
    def needs_metadata(self) -> bool:
        """Whether the statement mentions `_metadata`."""
        return METADATA in self.text

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Return the statement's columns. Raises `InvalidInput` if it is not row-wise, or if DuckDB refuses it."""
        sql.check_row_wise(self.text, [*schema.names, *HIDDEN])
        hidden = [pa.field(ROW, pa.int64())]
        if self.needs_metadata:
            hidden.insert(0, pa.field(METADATA, METADATA_TYPE))
        made = self._run(empty_table(pa.schema([*schema, *hidden])), "UTC").schema
        visible = [field for field in made if not field.name.startswith(sql.ALIAS)]
        for field in visible:
            if field.name in HIDDEN:
                raise sql.sql_error(self.text, f"the column `{field.name}` is hidden: select its fields, or rename it")
        if not visible:
            raise sql.sql_error(self.text, "it selects no columns")
        check_column_names([field.name for field in visible], f"sql `{self.text}`")
        try:
            return normalise(pa.schema([pa.field(field.name, field.type) for field in visible]))
        except InvalidInput as error:
            raise sql.sql_error(self.text, error.message, error.hint) from error

    def carried(self, given: pa.Schema, made: pa.Schema, names: Sequence[str]) -> list[str]:
        """Return the names under which the column passes the statement, including those given by `AS`."""
        found = (one for name in names for one in sql.carried(self.text, given.names, name))
        return [name for name in dict.fromkeys(found) if name in made.names]

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:
        """Return the statement's result for `rows`; its times are in `time_zone`."""
        made = self._run(pa.Table.from_batches([rows]), time_zone)
        fields = []
        columns = []
        for name, column in zip(made.schema.names, made.columns, strict=True):
            if name not in HIDDEN:
                fields.append(pa.field(name.removeprefix(sql.ALIAS), column.type))
                columns.append(column)
        table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
        return one_batch(conform(table, normalise(table.schema), "sql"), "sql")

    def _run(self, rows: pa.Table, time_zone: str) -> pa.Table:
        hidden = tuple(name for name in HIDDEN if name in rows.schema.names)
        try:
            text = sql.with_hidden(self.text, hidden)
            return connections.guarded(lambda: connections.query(connections.for_user_sql(time_zone), text, rows=rows))
        except connections.Refused as error:
            message = str(error).strip().partition("\n\nLINE ")[0]
            raise sql.sql_error(self.text, message) from error


@dataclass(frozen=True)
class MapBatches(_Plain):
    """Calls a user's function with each block; `schema` declares the columns that it returns.

    With `row_by_row`, blocks depend on the number of tasks, so the function must return one row for each row.
    """

    fn: Callable[[pa.RecordBatch], pa.RecordBatch]
    schema: Any
    row_by_row: bool = False
    _made: pa.Schema = dataclasses.field(init=False, repr=False, compare=False)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's function."""
        return (self.fn,)

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise InvalidInput(f"map_batches: expected a function of a pyarrow.RecordBatch, found {self.fn!r}")
        object.__setattr__(self, "_made", to_arrow(self.schema))

    def output(self, schema: pa.Schema) -> pa.Schema:  # noqa: ARG002
        """Return the declared columns."""
        return self._made

    def carried(self, given: pa.Schema, made: pa.Schema, names: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return the first name if the result has it as a column of times or dates.

        Tidemill assumes that the function kept that column; nothing is known of the others."""
        first = names[0]
        return [first] if first in made.names and _is_time(made.field(first).type) else []

    def apply(self, rows: pa.RecordBatch, time_zone: str) -> pa.RecordBatch:  # noqa: ARG002
        """Return the function's result for `rows`. Raises `InvalidInput` if it differs from the declared columns."""
        given = rows.select(_visible(rows.schema))
        made = self.fn(given)
        name = getattr(self.fn, "__qualname__", repr(self.fn))
        if isinstance(made, pa.Table | pa.RecordBatch):
            made = checked_buffers(made, f"map_batches: `{name}` returned")
        if isinstance(made, pa.Table):
            made = one_batch(made, f"map_batches: `{name}`")
        if not isinstance(made, pa.RecordBatch):
            raise InvalidInput(f"map_batches: `{name}` returned {type(made).__name__}, expected a pyarrow.RecordBatch")
        differs = difference(self._made, normalise(made.schema))
        if differs is not None and sorted(made.schema.names) != sorted(self._made.names):
            raise InvalidInput(f"map_batches: `{name}` did not return the declared columns: {differs}")
        made = conform(made, self._made, f"map_batches: `{name}`")
        if self.row_by_row and made.num_rows != rows.num_rows:
            raise InvalidInput(
                f"map_batches: `{name}` returned {made.num_rows:,} rows for {rows.num_rows:,} rows, expected one "
                "for each, because behind an operator the rows of a call depend on the number of tasks",
                hint="filter with .sql, or call map_batches before .groupBy",
            )
        return _with_hidden(made, rows) if made.num_rows == rows.num_rows else made


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _visible(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in HIDDEN]


def _with_hidden(made: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return `made` with the hidden columns of `rows`, which has as many rows."""
    hidden = [name for name in HIDDEN if name in rows.schema.names]
    schema = pa.schema([*made.schema, *(rows.schema.field(name) for name in hidden)])
    return pa.RecordBatch.from_arrays([*made.columns, *(rows.column(name) for name in hidden)], schema=schema)
