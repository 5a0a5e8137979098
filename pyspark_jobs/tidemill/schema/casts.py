"""Data converted to a schema (`conform`, `matching`), and the differences between two schemas.

INVARIANT: data is never cast with loss.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput
from .ddl import type_ddl
from .kernels import pc
from .plain import empty_batch, int64_array
from .types import has_within, in_backticks, normalise

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
_Data = TypeVar("_Data", pa.RecordBatch, pa.Table, pa.Array, pa.ChunkedArray)


def checked_buffers(data: _Data, what: str) -> _Data:
    """Return `data` if its buffers match its type: offsets within buffers, text in UTF-8.

    Raises `InvalidInput` otherwise; `what` names the data. Use it for data from a user's code, because all later code
    trusts buffers.
    """
    try:
        data.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"{what}: the Arrow data is invalid: {error}", hint="correct the code that produced it"
        ) from error
    return data


def difference(expected: pa.Schema, found: pa.Schema) -> str | None:
    """Return text that names each difference in names, types or order of columns, or None if there is none.

    Nullability is not compared.
    """
    wanted = {field.name: _all_nullable(field.type) for field in expected}
    there = {field.name: _all_nullable(field.type) for field in found}
    said = [
        f"column `{name}` is {type_ddl(there[name])}, expected {type_ddl(kind)}"
        for name, kind in wanted.items()
        if name in there and there[name] != kind
    ]
    said += [f"missing column `{name} {type_ddl(kind)}`" for name, kind in wanted.items() if name not in there]
    said += [f"unexpected column `{name} {type_ddl(kind)}`" for name, kind in there.items() if name not in wanted]
    if not said and list(wanted) != list(there):
        said = [f"the columns are in the order {in_backticks(there)}, expected {in_backticks(wanted)}"]
    return "; ".join(said) or None


def conform(rows: _Rows, schema: pa.Schema, what: str) -> _Rows:
    """Return `rows` with the columns of `schema`, matched by name, in its order, and cast without loss.

    Raises `InvalidInput` for a column that is missing or whose values do not fit; `what` names the rows.
    """
    columns = []
    for field in schema:
        index = rows.schema.get_field_index(field.name)
        if index < 0:
            why = "appears twice" if field.name in rows.schema.names else "is missing"
            raise InvalidInput(
                f"{what}: column `{field.name}` {why}; found {in_backticks(rows.schema.names)}, "
                f"expected {in_backticks(schema.names)}"
            )
        columns.append(_cast(rows.column(index), field, what))
    made: _Rows = type(rows).from_arrays(columns, schema=schema)
    return made


def matching(rows: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """Return `rows` in the order and types of `schema`, if they have the same columns by name and type in any order.

    Raises `InvalidInput` that names every different column with both types; `what` names the rows.
    """
    found = normalise(rows.schema)
    known = [found.field(name) for name in schema.names if name in found.names]
    fault = difference(schema, pa.schema([*known, *(field for field in found if field.name not in schema.names)]))
    if fault is not None:
        raise InvalidInput(f"{what}: {fault}")
    return conform(rows, schema, what)


def one_batch(table: pa.Table, what: str) -> pa.RecordBatch:
    """Return the rows as one batch, without a copy if they are one chunk already.

    Raises `InvalidInput` if a column holds more text than an Arrow array can; `what` names the rows.
    """
    try:
        batches = table.combine_chunks().to_batches()
    except pa.ArrowInvalid as error:  # Arrow cannot split lists, nor text in lists and structs
        raise _too_much(table.num_rows, what) from error
    return _only(batches, table.schema, what)


def _only(batches: list[pa.RecordBatch], schema: pa.Schema, what: str) -> pa.RecordBatch:
    if (
        len(batches) > 1
    ):  # INVARIANT: Arrow split a column that is too large; a part must not be mistaken for the whole.
        raise _too_much(sum(batch.num_rows for batch in batches), what)
    return batches[0] if batches else empty_batch(schema)


def _too_much(rows: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: one column of {rows:,} rows holds more than 2 GiB of text or list items",
        hint="process fewer rows at once: lower `tidemill.block_rows`, or use more tasks",
    )


def _without_list_views(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return list views as lists. PyArrow 26 casts list views with nulls to lists without offsets."""
    if not has_within(column.type, _is_list_view):
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not _is_list_view(column.type):
        raise TypeError("list views nested in other types are not supported; cast them to lists first")
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([int64_array([0]), ends])
    values = _without_list_views(column.flatten())
    return pa.LargeListArray.from_arrays(offsets, values, mask=column.is_null())


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pt.is_list_view(kind) or pt.is_large_list_view(kind))


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field, what: str) -> pa.Array | pa.ChunkedArray:
    if not field.nullable and column.null_count:
        count = f"{column.null_count:,} null{'' if column.null_count == 1 else 's'}"
        raise InvalidInput(f"{what}: column `{field.name}` is declared `not null`, but holds {count}")
    if column.type == field.type and _exactly(column.type, field.type):
        return column
    try:
        return _without_list_views(column).cast(field.type)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{what}: column `{field.name}` is {type_ddl(column.type)}, expected {type_ddl(field.type)}: {error}"
        ) from error


def _exactly(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether types are equal including names of inner fields, which Arrow's `==` ignores in lists."""
    return not pt.is_nested(found) or str(found) == str(expected)


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([pa.field(field.name, _all_nullable(field.type)) for field in kind])
    if pt.is_list(kind):
        return pa.list_(_all_nullable(kind.value_type))
    if pt.is_map(kind):
        return pa.map_(_all_nullable(kind.key_type), _all_nullable(kind.item_type))
    return kind
