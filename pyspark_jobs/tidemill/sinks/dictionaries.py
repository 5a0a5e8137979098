"""Which columns of a Parquet file are written with a dictionary: those that repeat themselves.

A dictionary of values most of which are different ones is larger than the values, and costs more time than the rest of
the file. INVARIANT: what is chosen is a function of the rows alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ..schema import int64_array

SMALL_ROWS = 10_000
"""Up to so many rows every column has a dictionary, as Arrow and Spark write them."""
SAMPLE_ROWS = 2048
"""Values that are looked at side by side, and as many spread over all rows."""
_RANDOM = random.Random(2048)
_POSITIONS = [(number + _RANDOM.random()) / SAMPLE_ROWS for number in range(SAMPLE_ROWS)]
"""Where those lie, in parts of all: one in each stretch, at no fixed distance, so that what comes in turn shows."""


def columns_with_dictionary(rows: pa.Table) -> bool | list[str]:
    """What `use_dictionary` of Arrow's writer takes: True, or the paths of the leaves."""
    if rows.num_rows <= SMALL_ROWS:
        return True
    spread = int64_array([int(part * rows.num_rows) for part in _POSITIONS])
    chosen = [field for field, column in zip(rows.schema, rows.columns, strict=True) if _repeats(column, spread)]
    return True if len(chosen) == rows.num_columns else [path for field in chosen for path in _leaves(field)]


def _repeats(column: pa.ChunkedArray, spread: pa.Array) -> bool:
    """Whether a value comes twice or more on the average. Of nested columns it is taken for granted.

    Either those that lie side by side say so, half of which or fewer are different ones; or those that are spread over
    all rows: of m drawn from n rows, where each value has two, some m² / 2n are there again. (Of millions of rows that
    is one or none: there chance decides about values that come a few times, far apart.)
    """
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return True
    if _distinct_count(column[:SAMPLE_ROWS]) * 2 <= SAMPLE_ROWS:
        return True
    again = len(spread) - _distinct_count(column.take(spread))
    return again * 2 * len(column) >= len(spread) ** 2


def _distinct_count(values: pa.ChunkedArray) -> int:
    return len(pc.unique(values))


def _leaves(field: pa.Field, above: str = "") -> Iterator[str]:
    """The paths of a field's leaves in the file, as Arrow's writer names them."""
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
