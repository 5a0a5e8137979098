"""`MapColumns`: what a state map keeps, in Python's words, and the engine's form of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .._native import MapSchema
from ..schema import to_arrow, to_ddl

SYSTEM_COLUMNS = ("updated_at", "deadline", "deleted")
"""What the engine adds to a map's own columns."""


@dataclass(frozen=True)
class MapColumns:
    """The columns of one state map: (key, sub-key) → value."""

    name: str
    key: pa.Schema
    sub_key: pa.Schema
    value: pa.Schema

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
