"""`finished`: the state of aggregates as `state` shows it, with finished values in place of the partial ones.

INVARIANT: the columns are those that the version's own code had. They and the functions come from the commit, so the
code at hand does not matter, and need not be there.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..operators.contract import BoundOperator
from ..operators.recorded import recorded_aggregates
from ..protocol.compatible import PARTIAL_KINDS
from ..schema import one_batch, to_arrow, widened
from ..state.columns import MapColumns

_TIMES = ("updated_at", "deadline")


def finished(name: str, recorded: dict[str, Any], table: pa.Table) -> pa.Table:
    """Return rows of an operator's first map with finished values. State without partial values stays as it is.

    `recorded` is the operator's description in the version. `InvalidInput` if it does not say enough.
    """
    if recorded["kind"] not in PARTIAL_KINDS:
        return table
    operator = recorded_aggregates(name, recorded)
    values = None if operator is None else operator.finished(_declared(table, operator.maps[0]))
    if operator is None or values is None:
        raise InvalidInput(
            f"state: this version of Tidemill does not know the aggregates that are recorded of operator `{name}`, so "
            "their partial values cannot be finished",
            hint="read them as they are with partial=True or --partial",
        )
    shown = _as_recorded(values, operator, recorded)
    for column in _TIMES:
        shown = shown.append_column(table.schema.field(column), table.column(column))
    return shown


def key_columns(name: str, recorded: dict[str, Any], partial: bool) -> list[str] | None:
    """Return the columns that `finished` gives first, those of the key and the window; None if it changes nothing."""
    operator = None if partial else recorded_aggregates(name, recorded)
    return None if operator is None else _in_key(operator, to_arrow(recorded["output"]).names)


def _in_key(operator: BoundOperator, names: list[str]) -> list[str]:
    key = operator.inputs[0].key
    return [name for name in names if name in key or name in operator.windows]


def _declared(table: pa.Table, columns: MapColumns) -> pa.Table:
    """Return the rows in the columns that the operator declares."""
    wanted = pa.schema([*columns.key, *columns.sub_key, *columns.value, *(table.schema.field(one) for one in _TIMES)])
    return table if table.schema == wanted else pa.Table.from_batches([widened(one_batch(table, "state"), wanted)])


def _as_recorded(values: pa.Table, operator: BoundOperator, recorded: dict[str, Any]) -> pa.Table:
    """Return the outputs of an operator in the recorded columns: key columns first, names unique."""
    in_key = _in_key(operator, values.column_names)
    others = [name for name in values.column_names if name not in in_key]
    output = to_arrow(recorded["output"])
    chosen = values.select([*in_key, *others]).cast(pa.schema([output.field(name) for name in (*in_key, *others)]))
    named, _, rest = _native.distinct_names(in_key, [], others)
    return chosen.rename_columns(named + rest)
