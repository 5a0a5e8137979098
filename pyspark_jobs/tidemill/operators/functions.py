"""The aggregate functions of `.agg(…)`: `tm.count`, `tm.sum` and so on.

Here they are only declared. The Rust engine computes them, and decides which column types a function accepts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, repr_of
from ..protocol.tied import is_recorded
from ..schema import type_ddl
from ..state.columns import SYSTEM_COLUMNS, MapColumns
from ..values import dataclass


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function over one column, as `tm.count`, `tm.sum` and so on return it."""

    function: str
    column: str | None = None
    by: str | None = None
    parameter: int | None = None
    """The precision of `approx_count_distinct`, or the limit of `collect_set`."""

    def __str__(self) -> str:
        more = [str(argument) for argument in (self.by, self.parameter) if argument is not None]
        return f"{self.function}({', '.join([self.column or '*', *more])})"

    def alias(self, name: str) -> NamedAggregate:
        """Name the column, for `.agg(tm.sum("v").alias("total"))`. Spark: `Column.alias`."""
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"alias of {self}: found {name!r}, expected the name of a column")
        return NamedAggregate(name, self)


@dataclass(frozen=True)
class NamedAggregate:
    """An aggregate with the name of its column, as `alias` returns it."""

    name: str
    aggregate: Aggregate


def by_output(columns: Iterable[object], functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `.agg` by the names of their columns, those with an alias first."""
    found: dict[str, Any] = {}
    for one in columns:
        if not isinstance(one, NamedAggregate):
            raise InvalidInput(
                f"agg: found {repr_of(one)}, expected aggregates that have a name",
                hint='name each column: .agg(n=tm.count(), total=tm.sum("x")), or .agg(tm.sum("x").alias("total"))',
            )
        if one.name in found or one.name in functions:
            raise InvalidInput(f"agg: two columns have the name `{one.name}`", hint="give each its own name")
        found[one.name] = one.aggregate
    return found | dict(functions)


def tied_inputs(calls: Iterable[tuple[str, Aggregate]], schema: pa.Schema) -> dict[str, str]:
    """Return the type of the column of each aggregate whose state depends on it but does not show it."""
    return {
        output: type_ddl(schema.field(call.column).type)
        for output, call in calls
        if call.column is not None and is_recorded(call.function)
    }


def count(column: str | None = None) -> Aggregate:
    """Count the rows of the key, or with `column` the values that are not null. Spark: `count`.

    The result is a bigint. `"*"` counts rows, too.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("clicks")
    >>> clicks = p.read(tm.Rows("page string, user string"))
    >>> clicks.groupBy("page").agg(views=tm.count(), known=tm.count("user")).schema.names
    ['page', 'views', 'known']
    """
    return Aggregate("count", None if column == "*" else column)


def sum(column: str) -> Aggregate:
    """Add up a numeric column, ignoring nulls. Null if there are no values. Spark: `sum` (ANSI).

    The sum of integers is a bigint, that of a `decimal(p, s)` a `decimal(min(38, p + 10), s)`, any other a double.
    Overflow fails the batch with `InvalidInput`. Doubles are added in plan order, so that the result does not depend on
    the number of tasks.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("spend")
    >>> spend = p.read(tm.Rows("user string, amount int")).groupBy("user").agg(total=tm.sum("amount"))
    >>> tm.testing.Tester(p).batch([("a", 1), ("a", 5)]).outputs
    [('a', 6)]
    """
    return Aggregate("sum", column)


def min(column: str) -> Aggregate:
    """Keep the least value of a column, ignoring nulls. NaN is greater than any number. Spark: `min`."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:
    """Keep the greatest value of a column, ignoring nulls. NaN is greater than any number. Spark: `max`."""
    return Aggregate("max", column)


def mean(column: str) -> Aggregate:
    """Compute the mean of a numeric column, ignoring nulls. Null if there are no values. Spark: `avg`.

    The mean of a `decimal(p, s)` is a `decimal(min(38, p + 4), min(38, s + 4))`, any other a double.
    """
    return Aggregate("mean", column)


def first(column: str) -> Aggregate:
    """Keep the value of `column` in the key's first row in plan order, even if it is null. Spark: `first`.

    With `tm.session_window` the first row is the one with the least event time.
    """
    return Aggregate("first", column)


def last(column: str) -> Aggregate:
    """Keep the value of `column` in the key's last row in plan order, even if it is null. Spark: `last`.

    With `tm.session_window` the last row is the one with the greatest event time.
    """
    return Aggregate("last", column)


def min_by(column: str, by: str) -> Aggregate:
    """Keep the value of `column` in the row with the least `by`. Ties: the last row in plan order. Spark: `min_by`."""
    return Aggregate("min_by", column, by)


def max_by(column: str, by: str) -> Aggregate:
    """Keep the value of `column` in the row with the greatest `by`. Ties: the last row in plan order. Spark: `max_by`.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("pages")
    >>> latest = p.read(tm.Rows("user string, page string, at int")).groupBy("user").agg(page=tm.max_by("page", "at"))
    >>> tm.testing.Tester(p).batch([("a", "cart", 2), ("a", "home", 1)]).outputs
    [('a', 'cart')]
    """
    return Aggregate("max_by", column, by)


def var(column: str) -> Aggregate:
    """Compute the sample variance of a numeric column, ignoring nulls, as a double. Spark: `var_samp`.

    Null if there are fewer than two values.
    """
    return Aggregate("var", column)


def stddev(column: str) -> Aggregate:
    """Compute the sample standard deviation of a numeric column, ignoring nulls, as a double. Spark: `stddev_samp`.

    Null if there are fewer than two values.
    """
    return Aggregate("stddev", column)


def approx_count_distinct(column: str, rsd: float = 0.05) -> Aggregate:
    """Estimate the number of distinct values, ignoring nulls, as a bigint. Spark: `approx_count_distinct`.

    `rsd` is the greatest relative standard deviation of the estimate, from 0.0022 to 0.39; `InvalidInput` otherwise. It
    gives the precision p. The algorithm is HyperLogLog++ over the same hashes as in Spark, so the same values give the
    same estimate. The state of a key takes at most 2**p bytes (512 by default), and 4 bytes for each value while that
    is less. Without values the estimate is 0.

    >>> str(approx_count_distinct("user"))
    'approx_count_distinct(user, 9)'
    """
    if isinstance(rsd, bool) or not isinstance(rsd, int | float) or not 0.0022 <= rsd <= 0.39:
        raise InvalidInput(f"tm.approx_count_distinct: rsd={rsd!r}, expected a number from 0.0022 to 0.39")
    precision = math.ceil(2 * math.log(1.106 / rsd) / math.log(2))
    return Aggregate("approx_count_distinct", column, parameter=precision)


def collect_set(column: str, limit: int) -> Aggregate:
    """Collect the distinct values of a column into an array, ignoring nulls. Spark: `collect_set`.

    The values are in plan order, and only the first `limit` distinct values are kept (Spark has no limit and no order).
    The array is empty if there are no values. `InvalidInput` if `limit` is not a whole number from 1 to 2**31 - 1.

    >>> str(collect_set("page", limit=100))
    'collect_set(page, 100)'
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 2**31:
        raise InvalidInput(f"tm.collect_set: limit={limit!r}, expected the most values to keep, such as 1000")
    return Aggregate("collect_set", column, parameter=limit)


def engine_arguments(
    aggregates: Iterable[tuple[str, Aggregate]],
) -> tuple[list[tuple[str, str, str | None]], dict[str, Any]]:
    """Return the aggregates as arguments of the engine: `functions`, and by name `by` and `parameters`."""
    named = list(aggregates)
    by = {output: aggregate.by for output, aggregate in named if aggregate.by is not None}
    parameters = {output: aggregate.parameter for output, aggregate in named if aggregate.parameter is not None}
    functions = [(output, aggregate.function, aggregate.column) for output, aggregate in named]
    return functions, {"by": by, "parameters": parameters}


def output_and_map(handle: Any, key: int, sub_key: int = 0) -> tuple[pa.Schema, tuple[MapColumns, ...]]:
    """Return the output schema of an engine's operator of aggregates, and its only map.

    `key` and `sub_key` are the numbers of key and sub-key columns of the map.
    """
    (kept,) = handle.map_schemas()
    columns = list(kept.columns)
    value = columns[key + sub_key : -len(SYSTEM_COLUMNS)]
    parts = (pa.schema(part) for part in (columns[:key], columns[key : key + sub_key], value))
    return handle.output_schema(), (MapColumns(kept.name, *parts),)
