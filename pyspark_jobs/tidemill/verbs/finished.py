"""`finished`: the state of aggregates as `state` shows it, with finished values in place of the partial ones.

INVARIANT: the columns are those that the version's own code had. Aggregates that were added later are left out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..operators.contract import BoundOperator, describe
from ..pipeline.job import Job
from ..protocol.compatible import PARTIAL_KINDS, fits
from ..schema import one_batch, to_arrow, widened
from ..state.columns import MapColumns

_TIMES = ("updated_at", "deadline")


def finished(job: Job, name: str, recorded: dict[str, Any], table: pa.Table) -> pa.Table:
    """Return rows of an operator's first map with finished values. State without partial values stays as it is.

    `recorded` is the operator's description in the version. `InvalidInput` if the code cannot finish its values.
    """
    if recorded["kind"] not in PARTIAL_KINDS:
        return table
    placed = job.operators.get(name)
    if placed is None or not fits(name, recorded, describe(placed.operator)):
        raise InvalidInput(
            f"state: this code does not declare the operator `{name}` as it is recorded, so its partial values cannot "
            "be finished",
            hint="read them as they are with partial=True or --partial",
        )
    values = placed.operator.finished(_newer(table, placed.operator.maps[0]))
    if values is None:
        return table
    shown = _as_recorded(values, placed.operator, recorded)
    for column in _TIMES:
        shown = shown.append_column(table.schema.field(column), table.column(column))
    return shown


def key_width(job: Job, name: str, recorded: dict[str, Any], partial: bool) -> int | None:
    """Return how many of the first columns that `finished` gives are those of the key; None if it changes nothing."""
    placed = job.operators.get(name)
    if partial or recorded["kind"] not in PARTIAL_KINDS or placed is None:
        return None
    key = {*placed.operator.input.key, *placed.operator.windows}
    return sum(column in key for column in to_arrow(recorded["output"]).names)


def _newer(table: pa.Table, columns: MapColumns) -> pa.Table:
    """Return the rows in the columns that the code has now."""
    wanted = pa.schema([*columns.key, *columns.sub_key, *columns.value, *(table.schema.field(one) for one in _TIMES)])
    return table if table.schema == wanted else pa.Table.from_batches([widened(one_batch(table, "state"), wanted)])


def _as_recorded(values: pa.Table, operator: BoundOperator, recorded: dict[str, Any]) -> pa.Table:
    """Return the outputs of an operator in the columns that the version had: key columns first, names unique."""
    output = to_arrow(recorded["output"])
    made = [name for name in values.column_names if name in output.names]
    in_key = [name for name in made if name in operator.input.key or name in operator.windows]
    others = [name for name in made if name not in in_key]
    chosen = values.select([*in_key, *others])
    chosen = chosen.cast(pa.schema([_typed(field, output) for field in chosen.schema]))
    named, _, rest = _native.distinct_names(in_key, [], others)
    return chosen.rename_columns(named + rest)


def _typed(field: pa.Field, output: pa.Schema) -> pa.Field:
    """Return a column with the type that it had. Types only become wider, so every value fits."""
    return field.with_type(output.field(field.name).type)
