"""The initial state of a processor: rows in the pipeline's code, which `handleInitialState` gets in the first batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import checked_buffers, normalise
from ..values import dataclass


@dataclass(frozen=True)
class InitialColumns:
    """The columns of the initial state, as an argument of the engine.

    `stored` are the columns of its map beside the key, `shown` those of the rows that the processor is given. `places`
    has the position of each shown column among the key columns and the stored columns.
    """

    stored: pa.Schema
    shown: pa.Schema
    places: Sequence[int]


@dataclass(frozen=True)
class InitialRows:
    """The initial state in the pipeline's code. Its rows are not sent to workers, which need only the columns.

    `order` has the names of all columns, including the key, in the order in which the user gave them.
    """

    state: pa.Schema
    order: tuple[str, ...]
    table: pa.Table | None

    @staticmethod
    def of(data: Any, key: pa.Schema, what: str) -> InitialRows:
        """Read an Arrow table with the key columns, or fetch the rows of Spark's grouped data."""
        to_arrow = getattr(getattr(data, "_df", None), "toArrow", None)
        table = data if to_arrow is None else to_arrow()
        if not isinstance(table, pa.Table):
            raise InvalidInput(
                f"{what}: initialState is a {type(data).__name__}, expected an Arrow table with the key columns, or "
                "Spark's grouped data"
            )
        table = checked_buffers(table, f"{what}: initialState")
        for name in key.names:
            if name not in table.column_names:
                found = ", ".join(f"`{one}`" for one in table.column_names)
                raise InvalidInput(f"{what}: initialState has no key column `{name}`, it has {found}")
        names = [name for name in table.column_names if name not in key.names]
        return InitialRows(normalise(table.select(names).schema), tuple(table.column_names), table)

    def columns(self, key: pa.Schema, stored: pa.Schema) -> InitialColumns:
        """Return the argument of the engine. `stored` are the columns of the map beside the key."""
        given = pa.schema([*key, *self.state])
        places = [given.get_field_index(name) for name in self.order]
        return InitialColumns(stored, pa.schema([given.field(place) for place in places]), places)

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self.state, "order": self.order, "table": None}
