"""The shapes that `schemas`, `sinks` and `sources` of a record must have.

Only shapes: records keep the JSON itself, because a newer writer may have added fields. INVARIANT: a description that
has its shape can be read without `KeyError`, and all its DDL parses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NewType

from ..schema import to_arrow
from ..values import dataclass

Ddl = NewType("Ddl", str)
"""Columns as DDL; empty for no columns."""
DdlType = NewType("DdlType", str)
"""A type as DDL, such as `int`."""


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
    inputs: dict[str, DdlType] = field(default_factory=dict)
    """Types of columns that the state depends on but does not show; absent if it shows all of them."""
    ports: list[str] = field(default_factory=list)
    """The names of its inputs, in their order; absent if it has one."""


@dataclass(frozen=True)
class DescribedSink:
    """A sink. `kind` and `path` are None if the stream has no sink and its rows stay in the repository.

    `uri` is that of the path, however it is spelled; None if there is none. `owner` is the uuid of the repository, once
    it was seen to have files there alone, or the caller agreed to share the place.
    """

    kind: str | None
    path: str | None
    schema: Ddl
    partitionBy: list[str] = field(default_factory=list)
    uri: str | None = None
    owner: str | None = None


def calls_function(described: Mapping[str, Any]) -> bool:
    """Whether a sink, as a commit describes it, is a function that is called for every batch: it has no place."""
    return described["kind"] is not None and described["path"] == ""


@dataclass(frozen=True)
class DescribedFiles:
    """Which objects of a folder are files of the source, as far as it differs from the default."""

    pattern: str | None = None
    recursive: bool = False
    after_ms: int | None = None


@dataclass(frozen=True)
class DescribedSource:
    """A source. `uri` is its folder, or None if it has none. `former` are folders that it had before.

    `by_position`: commits remember how far it was read; no ledger knows its files. `is_folder`: what is at `uri` can be
    listed as files.
    """

    uri: str | None
    former: list[str] = field(default_factory=list)
    files: DescribedFiles = field(default_factory=DescribedFiles)
    by_position: bool = False
    is_folder: bool = True


@functools.cache
def ddl_fault(text: str) -> str | None:
    """Return what is wrong with a DDL text, in one line, or None. Cached, because commits repeat the same few texts."""
    try:
        if text:
            to_arrow(text)
    except (ValueError, RecursionError) as error:  # InvalidInput is a ValueError
        return str(error).split("\n", 1)[0]
    return None


@functools.cache
def type_fault(text: str) -> str | None:
    """Return what is wrong with a type as DDL, in one line, or None.

    >>> type_fault("decimal(5,2)"), type_fault("int, b int")
    (None, 'found 2 columns, expected a type such as `int`')
    """
    fault = ddl_fault(f"value {text}") if text.strip() else "found no type, expected one such as `int`"
    if fault is None and len(found := to_arrow(f"value {text}")) > 1:
        return f"found {len(found)} columns, expected a type such as `int`"
    return fault
