"""The initial state of a processor: rows that its code gives, handed to `handleInitialState` in the first batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import checked, normalise


@dataclass(frozen=True)
class InitialColumns:
    """The initial state, as the engine is told of it: what its map keeps, and what the processor is shown.

    `places`: where each column that is shown lies in the key columns and those that are stored.
    """

    stored: pa.Schema
    shown: pa.Schema
    places: Sequence[int]


@dataclass(frozen=True)
class InitialRows:
    """The initial state that the code gives. Its rows stay where they are: workers need their columns alone.

    `order`: the names of all columns, those of the key among them, as they were given and are shown.
    """

    state: pa.Schema
    order: tuple[str, ...]
    table: pa.Table | None

    @staticmethod
    def of(data: Any, key: pa.Schema, what: str) -> InitialRows:
        """An Arrow table with the key columns, or Spark's grouped data, whose rows are fetched."""
        to_arrow = getattr(getattr(data, "_df", None), "toArrow", None)
        table = data if to_arrow is None else to_arrow()
        if not isinstance(table, pa.Table):
            raise InvalidInput(
                f"{what}: initialState is a {type(data).__name__}, expected an Arrow table with the key columns, or "
                "Spark's grouped data"
            )
        table = checked(table, f"{what}: initialState")
        for name in key.names:
            if name not in table.column_names:
                found = ", ".join(f"`{one}`" for one in table.column_names)
                raise InvalidInput(f"{what}: initialState has no key column `{name}`, it has {found}")
        names = [name for name in table.column_names if name not in key.names]
        return InitialRows(normalise(table.select(names).schema), tuple(table.column_names), table)

    def columns(self, key: pa.Schema, stored: pa.Schema) -> InitialColumns:
        """What the engine is told of them; `stored`: the columns of their map beside the key."""
        given = pa.schema([*key, *self.state])
        places = [given.get_field_index(name) for name in self.order]
        return InitialColumns(stored, pa.schema([given.field(place) for place in places]), places)

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self.state, "order": self.order, "table": None}
