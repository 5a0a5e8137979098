"""Which columns of a Parquet file get a dictionary: those whose values repeat.

If most values are distinct, the dictionary is larger than the values and takes longer than the rest of the file.
INVARIANT: the choice depends only on the rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa

from ..schema import int64_array
from ..schema.kernels import call

DICTIONARY_ROWS = 10_000
"""Up to so many rows, every column gets a dictionary, as Arrow and Spark write them."""
SAMPLE_ROWS = 2048
"""How many values are sampled from the start of a column, and again from all rows."""
_RANDOM = random.Random(2048)
_POSITIONS = [(number + _RANDOM.random()) / SAMPLE_ROWS for number in range(SAMPLE_ROWS)]
"""Where the second sample is taken, as fractions of all rows: one random place in each equal part.

A fixed distance would miss repetitions in values that alternate."""


def columns_with_dictionary(rows: pa.Table) -> bool | list[str]:
    """Return the value of `use_dictionary` for Arrow's writer: True, or the paths of leaf columns."""
    if rows.num_rows <= DICTIONARY_ROWS:
        return True
    spread = int64_array([int(part * rows.num_rows) for part in _POSITIONS])
    chosen = [field for field, column in zip(rows.schema, rows.columns, strict=True) if _repeats(column, spread)]
    return True if len(chosen) == rows.num_columns else [path for field in chosen for path in _leaves(field)]


def _repeats(column: pa.ChunkedArray, spread: pa.Array) -> bool:
    """Return whether a value occurs at least twice on average. Nested columns are assumed to repeat.

    That is so if at most half of the adjacent values are distinct. Otherwise the spread sample decides: if every value
    occurred twice in n rows, m samples would contain about m² / 2n repetitions. In millions of rows that is one or
    none, so the result is random for values that repeat a few times, far apart.
    """
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return True
    if _distinct_count(column[:SAMPLE_ROWS]) * 2 <= SAMPLE_ROWS:
        return True
    again = len(spread) - _distinct_count(call("take", column, spread))
    return again * 2 * len(column) >= len(spread) ** 2


def _distinct_count(values: pa.ChunkedArray) -> int:
    return len(call("unique", values))


def _leaves(field: pa.Field, above: str = "") -> Iterator[str]:
    """Yield the paths of a field's leaf columns in the file, as Arrow's writer names them."""
    path, kind = f"{above}{field.name}", field.type
    if pa.types.is_struct(kind):
        inner = [(f"{path}.", one) for one in kind]
    elif pa.types.is_map(kind):
        inner = [
            (f"{path}.key_value.", pa.field("key", kind.key_type)),
            (f"{path}.key_value.", pa.field("value", kind.item_type)),
        ]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = [(f"{path}.list.", pa.field("element", kind.value_type))]
    else:
        yield path
        return
    for prefix, one in inner:
        yield from _leaves(one, prefix)
