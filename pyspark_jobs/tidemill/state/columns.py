"""`MapColumns`: what a state map keeps, in Python's words, and the engine's form of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .._native import MapSchema, names_apart
from ..schema import to_arrow, to_ddl

NO_COLUMNS = pa.schema([])
"""Of a map whose key or value has none, or whose keys have no sub-keys."""
SYSTEM_COLUMNS = ("updated_at", "deadline", "deleted")
"""What the engine adds to a map's own columns."""


@dataclass(frozen=True)
class MapColumns:
    """The columns of one state map: (key, sub-key) → value."""

    name: str
    key: pa.Schema
    sub_key: pa.Schema
    value: pa.Schema

    @staticmethod
    def apart(name: str, key: pa.Schema, sub_key: pa.Schema = NO_COLUMNS, value: pa.Schema = NO_COLUMNS) -> MapColumns:
        """Those of an operator's map, which users name as they like: one whose name the map or a column before it has
        is kept as `key.…`, `sub_key.…` or `value.…`."""
        names = names_apart(key.names, sub_key.names, value.names)
        return MapColumns(name, *map(_with_names, (key, sub_key, value), names))

    @property
    def names(self) -> list[str]:
        """Of key, sub-key and value columns."""
        return [*self.key.names, *self.sub_key.names, *self.value.names]

    def describe(self) -> dict[str, str]:
        """Names and types as DDL, as commits record them."""
        return {"key": to_ddl(self.key), "sub_key": to_ddl(self.sub_key), "value": to_ddl(self.value)}

    @staticmethod
    def described(name: str, record: dict[str, Any]) -> MapColumns:
        """The columns that a commit records."""
        key, sub_key, value = (
            to_arrow(record[part]) if record[part] else pa.schema([]) for part in ("key", "sub_key", "value")
        )
        return MapColumns(name, key, sub_key, value)

    def engine(self) -> MapSchema:
        """The engine's form."""
        return MapSchema(self.name, self.key, self.sub_key, self.value)


def _with_names(columns: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([field.with_name(name) for field, name in zip(columns, names, strict=True)])
