"""What `schemas` and `sinks` of a record say of operators and sinks: the shape that a reader expects of them.

Shapes only: records keep the JSON as it is, because a newer writer may have added to it. INVARIANT: what has this
shape can be read without `KeyError` and without DDL that does not parse.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NewType

from ..schema import to_arrow

Ddl = NewType("Ddl", str)
"""Columns as DDL; empty where there are none."""


@dataclass(frozen=True)
class DescribedMap:
    """The columns of a state map's segments."""

    key: Ddl
    sub_key: Ddl
    value: Ddl


@dataclass(frozen=True)
class DescribedOperator:
    """An operator, as `operators.contract.describe` writes it."""

    kind: str
    key: list[str]
    maps: dict[str, DescribedMap]
    output: Ddl
    rules: dict[str, str]


@dataclass(frozen=True)
class DescribedSink:
    """A sink; kind and path are None where the stream is kept."""

    kind: str | None
    path: str | None
    schema: Ddl


@functools.cache
def ddl_fault(text: str) -> str | None:
    """What is wrong with columns as DDL, in one line; None: nothing. Cached: all commits have the same few texts."""
    try:
        if text:
            to_arrow(text)
    except (ValueError, RecursionError) as error:  # InvalidInput is a ValueError
        return str(error).split("\n", 1)[0]
    return None
