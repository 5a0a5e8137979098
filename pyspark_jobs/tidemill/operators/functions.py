"""The aggregate functions of `.agg(…)`: `tm.count`, `tm.sum`, … Each names a function over columns of the stream.

They are computed in Rust, which also says which types a function takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..state.columns import SYSTEM_COLUMNS, MapColumns


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function over one column. Made by `tm.count`, `tm.sum`, …"""

    function: str
    column: str | None = None
    by: str | None = None
    parameter: int | None = None
    """The precision of `approx_count_distinct`, the limit of `collect_set`."""

    def __str__(self) -> str:
        more = [str(one) for one in (self.by, self.parameter) if one is not None]
        return f"{self.function}({', '.join([self.column or '*', *more])})"


def count(column: str | None = None) -> Aggregate:
    """Rows of the key (also `"*"`), or values of `column` that are not null. A bigint. Spark: `count`.

    >>> import tidemill as tm
    >>> p = tm.Pipeline("clicks")
    >>> clicks = p.read(tm.Rows("page string, user string"))
    >>> clicks.groupBy("page").agg(views=tm.count(), known=tm.count("user")).schema.names
    ['page', 'views', 'known']
    """
    return Aggregate("count", None if column == "*" else column)


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


def approx_count_distinct(column: str, rsd: float = 0.05) -> Aggregate:
    """About how many different values there are, nulls left out; 0 where there is none. A bigint. Spark: the same.

    `rsd` is the relative standard deviation that the number may have, from 0.0022 to 0.39. HyperLogLog++ over the same
    hashes as in Spark: the same values give the same number. State is at most 2**p bytes a key (512 by default), and 4
    bytes a value while that is less.

    >>> str(approx_count_distinct("user"))
    'approx_count_distinct(user, 9)'
    """
    if isinstance(rsd, bool) or not isinstance(rsd, int | float) or not 0.0022 <= rsd <= 0.39:
        raise InvalidInput(f"tm.approx_count_distinct: rsd={rsd!r}, expected a number from 0.0022 to 0.39")
    precision = math.ceil(2 * math.log(1.106 / rsd) / math.log(2))
    return Aggregate("approx_count_distinct", column, parameter=precision)


def collect_set(column: str, limit: int) -> Aggregate:
    """The different values of the column, nulls left out, in plan order; of more than `limit` the first ones. An array;
    empty where there is no value. Spark: `collect_set`, which has no limit and no order.

    >>> str(collect_set("page", limit=100))
    'collect_set(page, 100)'
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 2**31:
        raise InvalidInput(f"tm.collect_set: limit={limit!r}, expected how many values are kept at most, such as 1000")
    return Aggregate("collect_set", column, parameter=limit)


def told(calls: Iterable[tuple[str, Aggregate]]) -> tuple[list[tuple[str, str, str | None]], dict[str, Any]]:
    """The aggregates by output column, as the engine is told of them."""
    named = list(calls)
    by = {output: one.by for output, one in named if one.by is not None}
    parameters = {output: one.parameter for output, one in named if one.parameter is not None}
    return [(output, one.function, one.column) for output, one in named], {"by": by, "parameters": parameters}


def shapes(handle: Any, key: int, sub_key: int = 0) -> tuple[pa.Schema, tuple[MapColumns, ...]]:
    """The columns that leave an engine's operator of aggregates, and its one map, which has so many key and sub-key
    columns."""
    (kept,) = handle.map_schemas()
    columns = list(kept.columns)
    value = columns[key + sub_key : -len(SYSTEM_COLUMNS)]
    parts = (pa.schema(part) for part in (columns[:key], columns[key : key + sub_key], value))
    return handle.output_schema(), (MapColumns(kept.name, *parts),)
