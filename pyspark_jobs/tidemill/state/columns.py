"""`MapColumns`: the columns of a state map, as Arrow schemas, as DDL in commits, and as the engine's `MapSchema`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import _native
from ..schema import to_arrow, to_ddl
from ..values import dataclass

NO_COLUMNS = pa.schema([])
"""The schema of a key, sub-key or value without columns."""
SYSTEM_COLUMNS = ("updated_at", "deadline", "deleted")
"""The columns that the engine adds to those of a map."""


@dataclass(frozen=True)
class MapColumns:
    """The columns of one state map, which maps (key, sub-key) to a value."""

    name: str
    key: pa.Schema
    sub_key: pa.Schema
    value: pa.Schema

    @staticmethod
    def apart(name: str, key: pa.Schema, sub_key: pa.Schema = NO_COLUMNS, value: pa.Schema = NO_COLUMNS) -> MapColumns:
        """Return the columns of an operator's map with unique names.

        Users may give columns any names. A column whose name is reserved, or is that of an earlier column, is stored as
        `key.…`, `sub_key.…` or `value.…`.
        """
        names = _native.distinct_names(key.names, sub_key.names, value.names)
        return MapColumns(name, *map(_with_names, (key, sub_key, value), names))

    @property
    def names(self) -> list[str]:
        """The names of the key, sub-key and value columns."""
        return [*self.key.names, *self.sub_key.names, *self.value.names]

    def describe(self) -> dict[str, str]:
        """Return names and types as DDL, as commits record them."""
        return {"key": to_ddl(self.key), "sub_key": to_ddl(self.sub_key), "value": to_ddl(self.value)}

    @staticmethod
    def described(name: str, record: dict[str, Any]) -> MapColumns:
        """Return the columns that a commit records."""
        key, sub_key, value = (
            to_arrow(record[part]) if record[part] else pa.schema([]) for part in ("key", "sub_key", "value")
        )
        return MapColumns(name, key, sub_key, value)

    def engine(self) -> _native.MapSchema:
        """Return the columns in the engine's form."""
        return _native.MapSchema(self.name, self.key, self.sub_key, self.value)


def _with_names(columns: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([field.with_name(name) for field, name in zip(columns, names, strict=True)])
