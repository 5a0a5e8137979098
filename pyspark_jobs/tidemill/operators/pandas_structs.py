"""Converts lists that stand for structs in returned frames to tuples, so that cells go by position, as in PySpark.

Arrow would read such a list as pairs of names and values, and make every field without a pair null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

_Rewrite = Callable[[Any], Any]


def structs_by_position(kind: pa.DataType) -> _Rewrite | None:
    """Return a function that rewrites values of the type, or None if the type has no struct and no map.

    The function returns values of other types unchanged.
    """
    if pa.types.is_struct(kind):
        return _of_struct({field.name: structs_by_position(field.type) for field in kind})
    if pa.types.is_map(kind):
        return _of_map(structs_by_position(kind.key_type), structs_by_position(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_list(structs_by_position(kind.value_type))
    return None


def _of_struct(fields: dict[str, _Rewrite | None]) -> _Rewrite:
    inner = {name: rewrite for name, rewrite in fields.items() if rewrite is not None}
    places = [fields[name] for name in fields]

    def rewritten(value: Any) -> Any:
        if isinstance(value, list | np.ndarray):
            value = tuple(value)
        if not inner:
            return value
        if isinstance(value, tuple) and len(value) == len(places):
            return tuple(
                cell if rewrite is None else rewrite(cell) for rewrite, cell in zip(places, value, strict=True)
            )
        if isinstance(value, dict):
            return value | {name: rewrite(value[name]) for name, rewrite in inner.items() if name in value}
        return value

    return rewritten


def _of_map(key: _Rewrite | None, item: _Rewrite | None) -> _Rewrite:
    """Rewrite a dict, or a list of pairs that stands for one."""

    def pair(found: Any) -> Any:
        if found is None:
            return ()  # Arrow refuses an empty tuple, but None among pairs would crash the process
        if not isinstance(found, list | tuple | np.ndarray) or len(found) != 2:
            return found
        return (found[0] if key is None else key(found[0]), found[1] if item is None else item(found[1]))

    def rewritten(value: Any) -> Any:
        if isinstance(value, dict):
            return value if key is None and item is None else [pair(found) for found in value.items()]
        return [pair(found) for found in value] if isinstance(value, list | tuple | np.ndarray) else value

    return rewritten


def _of_list(item: _Rewrite | None) -> _Rewrite | None:
    if item is None:
        return None

    def rewritten(value: Any) -> Any:
        return [item(cell) for cell in value] if isinstance(value, list | tuple | np.ndarray) else value

    return rewritten
