"""Times after the year 9999 in text that a sink wrote. DuckDB reads them, the reader of users' files refuses them.

In files of users such a text is a mistake. INVARIANT: what DuckDB wrote, it reads as the same value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from ..schema import conform, quoted, to_duckdb
from ..sources import connections


def with_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text in place of times and dates, also within other types.

    >>> with_text(pa.list_(pa.date32()))
    ListType(list<item: string>)
    """
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return pa.string()
    if pt.is_struct(kind):
        return pa.struct([field.with_type(with_text(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(with_text(kind.key_type), with_text(kind.item_type))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_text(kind.value_type)))
    return kind


def times_from_text(rows: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return rows whose columns are as `with_text` says, in the columns of `schema`. None if a text is no time."""
    columns = (f"CAST({quoted(field.name)} AS {to_duckdb(field.type)}) AS {quoted(field.name)}" for field in schema)
    text = f"SELECT {', '.join(columns)} FROM given"
    try:
        found = connections.guarded(lambda: connections.query(connections.for_files(), text, given=rows))
    except connections.Refused:
        return None
    return conform(found, schema, "read times from text")
