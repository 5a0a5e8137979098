"""Python values as a column, for tests and initial states, and cells of a column for display.

INVARIANT: a value that does not fit is an error that names the column and its type; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from ..errors import InvalidInput
from .ddl import type_ddl


def array_of(values: Sequence[Any], field: pa.Field, zone: ZoneInfo, what: str) -> pa.Array:
    """Return `values` as a column with the type of `field`. Datetimes and ISO text without a zone are in `zone`.

    Raises `InvalidInput` for a value that does not fit; `what` names the values.
    """
    try:
        # Copy lists first, because a user's `tzinfo` could change a list while pyarrow converts it.
        values = [_own(value) for value in values]
        if pa.types.is_timestamp(field.type):
            values = [datetime.fromisoformat(v) if isinstance(v, str) else v for v in values]
            if field.type.tz is not None:
                values = [v.replace(tzinfo=zone) if isinstance(v, datetime) and v.tzinfo is None else v for v in values]
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type_ddl(field.type)
        raise InvalidInput(f"{what}: column `{field.name}` is {kind}: {error}") from error


def _own(value: Any) -> Any:
    """Return `value` with lists, tuples and dicts copied at any depth."""
    if isinstance(value, list):
        return [_own(one) for one in value]
    if isinstance(value, dict):
        return {key: _own(one) for key, one in value.items()}
    return tuple(map(_own, value)) if type(value) is tuple else value


def shown_cells(column: pa.Array) -> list[Any]:
    """Return the cells of a column for display: Python values, or Arrow's text if Python has none (a year 10000)."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        pass
    try:
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException:
        return [f"a {column.type} that cannot be shown" if is_there else None for is_there in column.is_valid()]
