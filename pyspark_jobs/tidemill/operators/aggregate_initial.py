"""The initial state of `.agg(…)`: partial values as they are, or finished values where they say enough.

INVARIANT: nothing is guessed. Where a finished value does not give the partial ones, the initial state is refused, and
the error names the missing columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import in_backticks
from ..schema.kernels import pc
from ..values import dataclass
from .aggregate_rules import AGGREGATES
from .functions import Aggregate
from .initial import Initial


@dataclass(frozen=True)
class AggregateInitial(Initial):
    """The initial state of aggregates. `state` are the partial columns, `output` the finished ones, without the key."""

    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    output: pa.Schema | None = None

    def table(self, data: Any, operator: str, time_zone: str) -> pa.Table:
        """Convert `data` (a table, or pairs) to a table of partial values. `InvalidInput` if it does not fit."""
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table) and set(self.state.names) <= set(data.column_names):
            return Initial(self.key, self.state).table(data, operator, time_zone)
        missing = list(self._missing())
        if missing:
            raise InvalidInput(
                f"the initial state of operator `{operator}` has finished values, which do not say enough: it lacks "
                f"{in_backticks(missing)}",
                hint=f"give the partial values, as r.state({operator!r}, partial=True) shows them",
            )
        assert self.output is not None
        rows = Initial(self.key, self.output).table(data, operator, time_zone)
        return pa.table([*rows.select(self.key.names).columns, *self._partial(rows)], schema=self.columns)

    def _of_each(self) -> list[tuple[str, Aggregate, Sequence[pa.Field]]]:
        """Return each aggregate with its partial columns."""
        found: list[tuple[str, Aggregate, Sequence[pa.Field]]] = []
        at = 0
        for output, aggregate in self.aggregates:
            count = len(AGGREGATES[aggregate.function].partials)
            found.append((output, aggregate, [self.state.field(place) for place in range(at, at + count)]))
            at += count
        return found

    def _missing(self) -> Sequence[str]:
        """Return the partial columns that finished values do not give."""
        found: list[str] = []
        for _, aggregate, fields in self._of_each():
            if AGGREGATES[aggregate.function].is_partial or aggregate.function in ("first", "last"):
                continue
            is_double = fields[0].type == pa.float64()
            if aggregate.function == "mean" and is_double and self._count_of(aggregate.column) is not None:
                continue
            known = ("min_by", "max_by")
            found += [field.name for field in (fields[1:] if aggregate.function in known else fields)]
        return found

    def _count_of(self, column: str | None) -> str | None:
        """Return the output that counts the values of a column."""
        counts = (output for output, one in self.aggregates if one.function == "count" and one.column == column)
        return next(counts, None)

    def _partial(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the partial columns of finished values."""
        made: list[Any] = []
        values: Mapping[str, Any] = {output: rows.column(len(self.key) + at) for at, (output, _) in
                                     enumerate(self.aggregates)}  # fmt: skip
        for output, aggregate, fields in self._of_each():
            value = values[output]
            if aggregate.function == "mean":
                counts = pc.fill_null(values[self._count_of(aggregate.column) or ""], 0)
                made += [pc.multiply(value, counts.cast(fields[0].type)), pc.if_else(value.is_null(), 0, counts)]
            elif aggregate.function in ("first", "last"):
                made += [value, pa.chunked_array([pa.array([True] * rows.num_rows, pa.bool_())])]
            else:
                made.append(value)
        return made
