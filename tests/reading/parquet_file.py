"""A Parquet file that pyarrow or Spark writes, and values that many of them have."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class ArrowFile:
    """A table that pyarrow writes, with the options of the writer, and the schemas to read the file with."""

    table: pa.Table
    reads: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    """What Spark writes into the footer, without `org.apache.spark.`."""


@dataclass(frozen=True)
class SparkFile:
    """A query whose rows Spark writes, with settings of the session, and the schemas to read the file with."""

    query: str
    reads: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)


INTS = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*INTS, "float", "double", "decimal(3,0)", "decimal(10,0)", "decimal(20,0)", "decimal(12,2)", "string")
TIMES = ("timestamp", "timestamp_ntz", "date", "bigint")
TEXTS = ("string", "binary", "int")
DAYS = [
    date(1, 1, 1),
    date(1582, 10, 14),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(9999, 12, 31),
]
MOMENTS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 15),
    datetime(1893, 3, 31, 23, 59, 59, 999000),
    datetime(1969, 12, 31, 23, 59, 59, 1000),
    datetime(2024, 10, 27, 1, 30),
    datetime(9999, 12, 31, 23, 59, 59, 999000),
]
NEAR = [datetime(1677, 9, 22), datetime(1900, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1), datetime(2262, 4, 11)]
"""Times that 64 bits of nanoseconds hold."""


def v(values: list[Any], kind: pa.DataType | None = None, nullable: bool = True) -> pa.Table:
    """Return a table of one column `v`, with a null at the end if it may have nulls."""
    cells = pa.array([*values, None] if nullable else values, kind)
    return pa.table([cells], schema=pa.schema([pa.field("v", cells.type, nullable=nullable)]))


def as_v(*kinds: str) -> tuple[str, ...]:
    """Return the schemas of a column `v` of each type."""
    return tuple(f"v {kind}" for kind in kinds)
