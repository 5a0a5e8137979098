"""Schemas: the only mapping between DDL text and the types of Spark, Python, Arrow and DuckDB.

Inside Tidemill a schema is a `pyarrow.Schema` in the canonical types of `to_arrow`. `types` has those types, `ddl`
text, `spark` a `StructType`, `python` dataclasses. `casts` converts data; `widening` reads data of an older schema;
`cells` and `plain` hold Python values.
INVARIANT: nothing here imports pyspark.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from .casts import checked_buffers, conform, difference, matching, one_batch
from .cells import array_of, cell_array, shown_cells
from .ddl import parse_ddl, to_ddl, type_ddl
from .differs import as_bits, differs
from .duckdb_types import literal, quoted, to_duckdb
from .plain import (
    binary_array,
    empty_batch,
    empty_table,
    int64_array,
    int64_scalar,
    one_array,
    records_batch,
    string_array,
)
from .python import from_dataclass
from .spark import from_spark, spark_json
from .types import TIMESTAMP, TIMESTAMP_NTZ, check_column_names, check_depth, has_within, in_backticks, normalise
from .widening import FieldChange, field_changes, shared_columns, widened

__all__ = [
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "FieldChange",
    "array_of",
    "as_bits",
    "binary_array",
    "cell_array",
    "check_column_names",
    "checked_buffers",
    "conform",
    "difference",
    "differs",
    "empty_batch",
    "empty_table",
    "field_changes",
    "has_within",
    "in_backticks",
    "int64_array",
    "int64_scalar",
    "is_unnamed",
    "literal",
    "matching",
    "normalise",
    "one_array",
    "one_batch",
    "quoted",
    "records_batch",
    "shared_columns",
    "shown_cells",
    "spark_json",
    "string_array",
    "to_arrow",
    "to_ddl",
    "to_duckdb",
    "type_ddl",
    "widened",
]


def to_arrow(schema: Any, *, unnamed: str | None = None) -> pa.Schema:
    """Return the canonical schema of DDL text, a `pyarrow.Schema`, a Spark `StructType` or a dataclass.

    A bare type (`"double"`, `pyarrow.float64()`, Spark's `DoubleType()`) becomes one field named `unnamed`. It raises
    `InvalidInput` if `unnamed` is None.
    """
    fields = _fields(schema)
    if isinstance(fields, pa.DataType):
        check_depth([pa.field("", fields)])
        if unnamed is None:
            raise InvalidInput(
                f"read schema {_shown(schema)}: found a type without a column name, expected columns such as `a int`"
            )
        fields = [pa.field(unnamed, fields)]
    if not fields:
        raise InvalidInput(f"read schema {_shown(schema)}: it has no columns, expected for example `a int, b string`")
    check_depth(fields)
    check_column_names([field.name for field in fields], f"schema {_shown(schema)}")
    return normalise(pa.schema(fields))


def is_unnamed(schema: Any) -> bool:
    """Return whether `schema` is a bare type such as `"double"`, without a column name."""
    return isinstance(_fields(schema), pa.DataType)


def _fields(schema: Any) -> list[pa.Field] | pa.DataType:
    """Return the columns of a user's schema, or its type if that has no column name. A struct means its columns."""
    try:
        return _read(schema)
    except RecursionError as error:
        raise InvalidInput(
            f"read a schema of {type(schema).__name__}: its types are nested infinitely or too deep",
            hint="store deeper levels as a string or binary column",
        ) from error


def _read(schema: Any) -> list[pa.Field] | pa.DataType:
    if isinstance(schema, str):
        return parse_ddl(schema)
    if isinstance(schema, pa.Schema):
        return list(schema)
    if isinstance(schema, pa.DataType):
        kind = schema
    elif dataclasses.is_dataclass(schema) and isinstance(schema, type):
        kind = from_dataclass(schema)
    elif callable(getattr(schema, "json", None)) and callable(getattr(schema, "simpleString", None)):
        kind = from_spark(schema.json())
    else:
        raise InvalidInput(
            f"read schema {schema!r}: found {type(schema).__name__}, "
            "expected DDL text, a pyarrow.Schema, a Spark StructType or a dataclass"
        )
    return list(kind) if pa.types.is_struct(kind) else kind


def _shown(schema: Any) -> str:
    if isinstance(schema, str):
        return f"`{schema}`"
    return f"`{schema.__name__}`" if isinstance(schema, type) else f"`{' '.join(str(schema).split())}`"
