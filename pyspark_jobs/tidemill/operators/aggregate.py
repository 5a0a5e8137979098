"""`.agg(…)`: running aggregates by key and window. Here: which functions there are, and their checks.

They are computed in Rust. State of a key is one row of partials; what leaves is one row for each key that a batch
touched ("update" mode), or for each window that is over ("append").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..schema import to_ddl
from ..state.columns import SYSTEM_COLUMNS, MapColumns
from .contract import Clock, Declared, Defaults, Handle, Input, column
from .window import START

Ends = Literal["never", "forgotten", "emitted"]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function over one column. Made by `tm.count`, `tm.sum`, …"""

    function: str
    column: str | None = None
    by: str | None = None


def count(column: str | None = None) -> Aggregate:
    """Rows of the key, or values of `column` that are not null. A bigint. Spark: `count`.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("clicks")
    >>> clicks = p.read(tm.Rows("page string, user string"))
    >>> clicks.groupBy("page").agg(views=tm.count(), known=tm.count("user")).schema.names
    ['page', 'views', 'known']
    """
    return Aggregate("count", column)


def sum(column: str) -> Aggregate:
    """The sum of a number column, nulls left out; null where there is no value. Spark: `sum` (ANSI).

    Of integers a bigint, of `decimal(p, s)` a `decimal(min(38, p + 10), s)`, else a double. Overflow fails the batch.
    Doubles are added in plan order, so that the result does not depend on the number of tasks.
    """
    return Aggregate("sum", column)


def min(column: str) -> Aggregate:
    """The least value of the column, nulls left out; NaN is greater than any number. Spark: `min`."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:
    """The greatest value of the column, nulls left out; NaN is greater than any number. Spark: `max`."""
    return Aggregate("max", column)


def mean(column: str) -> Aggregate:
    """The mean of a number column, nulls left out. Of decimals a decimal, else a double. Spark: `avg`."""
    return Aggregate("mean", column)


def first(column: str) -> Aggregate:
    """The column's value in the key's first row in plan order, also where it is null. Spark: `first`."""
    return Aggregate("first", column)


def last(column: str) -> Aggregate:
    """The column's value in the key's last row in plan order, also where it is null. Spark: `last`."""
    return Aggregate("last", column)


def min_by(column: str, by: str) -> Aggregate:
    """The value of `column` in the row in which `by` is least; of equal ones the last in plan order. Spark:
    `min_by`."""
    return Aggregate("min_by", column, by)


def max_by(column: str, by: str) -> Aggregate:
    """The value of `column` in the row in which `by` is greatest; of equal ones the last in plan order. Spark:
    `max_by`."""
    return Aggregate("max_by", column, by)


def var(column: str) -> Aggregate:
    """Variance of the values that are not null, as a sample; null for fewer than two. A double. Spark: `var_samp`."""
    return Aggregate("var", column)


def stddev(column: str) -> Aggregate:
    """Standard deviation of the values that are not null, as a sample; null for fewer than two. A double. Spark:
    `stddev_samp`."""
    return Aggregate("stddev", column)


@dataclass(frozen=True)
class AggregateOperator(Declared):
    """`.agg(total=tm.sum("x"), …)` as declared."""

    name: str
    functions: tuple[tuple[str, Aggregate], ...]
    output_mode: str = "update"

    @staticmethod
    def declare(name: str, functions: Mapping[str, Any], output_mode: str) -> AggregateOperator:
        """The operator, or `InvalidInput` for what is wrong already without its input."""
        if not functions:
            raise InvalidInput(f"operator `{name}`: `.agg()` needs at least one aggregate, such as `n=tm.count()`")
        for output, function in functions.items():
            if not isinstance(function, Aggregate):
                raise InvalidInput(
                    f"operator `{name}`: `{output}` is {function!r}, expected an aggregate such as `tm.count()`"
                )
        if output_mode not in ("update", "append"):
            raise InvalidInput(f"operator `{name}`: outputMode {output_mode!r}, expected 'update' or 'append'")
        return AggregateOperator(name, tuple(functions.items()), output_mode)

    @property
    def takes_windows(self) -> bool:
        """Yes."""
        return True

    def bind(self, given: Input) -> BoundAggregate:
        """Checks columns and types; the Rust engine says which types a function takes."""
        for output, aggregate in self.functions:
            if output in given.key:
                raise InvalidInput(f"operator `{self.name}`: the output column `{output}` is also a key column")
            for name in (aggregate.column, aggregate.by):
                if name is not None:
                    column(given.schema, name, f"operator `{self.name}`: `{output}`")
        bound = BoundAggregate(self.name, given, self.functions, self._ends(given))
        _ = bound.output_schema
        return bound

    def _ends(self, given: Input) -> Ends:
        """What the end of a window is: it needs a watermark over the windows' own column."""
        ending = given.window is not None and given.event_time == given.window[0].column
        if self.output_mode == "append" and not ending:
            what = "a window" if given.window is None else f"a watermark on `{given.window[0].column}`"
            raise InvalidInput(
                f"operator `{self.name}`: outputMode 'append' is not allowed without {what}: no row would be final",
                hint='group by tm.window(…) over the column of .withWatermark(…), or use outputMode="update"',
            )
        if ending and given.late == "keep":
            raise InvalidInput(
                f"operator `{self.name}`: windows cannot keep late rows: theirs are over; found "
                'withWatermark(…, late="keep"), expected "drop" or "quarantine"'
            )
        if not ending:
            return "never"
        return "emitted" if self.output_mode == "append" else "forgotten"


@dataclass(frozen=True)
class _Window:
    """The windows as the engine is told of them."""

    column: str
    size_ms: int
    slide_ms: int
    start_ms: int
    key: str
    place: int
    ends: str


@dataclass(frozen=True)
class BoundAggregate(Defaults):
    """Running aggregates over a known input."""

    name: str
    input: Input
    aggregates: tuple[tuple[str, Aggregate], ...]
    ends: Ends = "never"
    kind: str = "aggregate"

    def open(self) -> Handle:
        """The Rust operator."""
        functions = [(output, a.function, a.column) for output, a in self.aggregates]
        by = {output: a.by for output, a in self.aggregates if a.by is not None}
        return _native.aggregate(self.name, list(self.input.key), self.input.schema, functions, self._window(), by)

    def _window(self) -> _Window | None:
        if self.input.window is None:
            return None
        window, place = self.input.window
        return _Window(window.column, window.size_ms, window.slide_ms, window.start_ms, START, place, self.ends)

    @property
    def clock(self) -> Clock | None:
        """Event time, where windows end."""
        return None if self.ends == "never" else "event"

    @cached_property
    def _shapes(self) -> tuple[pa.Schema, tuple[MapColumns, ...]]:
        handle: Any = self.open()
        (partials,) = handle.map_schemas()
        columns = list(partials.columns)
        width = len(self.input.key) + (self.input.window is not None)
        key, value = pa.schema(columns[:width]), pa.schema(columns[width : -len(SYSTEM_COLUMNS)])
        return handle.output_schema(), (MapColumns(partials.name, key, pa.schema([]), value),)

    @property
    def output_schema(self) -> pa.Schema:
        """Key columns, then one column an aggregate."""
        return self._shapes[0]

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → partials."""
        return self._shapes[1]

    @property
    def rules(self) -> dict[str, str]:
        """Output column → function and column; the windows, and what their end is."""
        rules = {
            output: f"{a.function}({a.column or '*'}{f', {a.by}' if a.by else ''})" for output, a in self.aggregates
        }
        if self.input.window is not None:
            rules |= {"window": str(self.input.window[0]), "window ends": self.ends}
        return rules

    def __str__(self) -> str:
        return f"{self.name}: {to_ddl(self.output_schema)}"
