"""Segments with older columns: rows that were written before an operator's state gained columns or wider types.

A segment keeps its columns for ever; Parquet names them in the file. It is read through them, then converted to the
columns that the reader asks for. Segments that were merged later have newer columns than older versions, whose rows
they hold. INVARIANT: conversion changes no key, no value, no time and no tombstone.
"""

from __future__ import annotations

import io

import pyarrow as pa

from .. import _native
from ..errors import CorruptState, InvalidInput
from ..protocol.records import digest
from ..schema import field_changes, normalise, widened
from ..schema.kernels import pq
from .columns import SYSTEM_COLUMNS

_KEY_COLUMNS, _SUB_KEY_COLUMNS = b"tidemill.key_columns", b"tidemill.sub_key_columns"


def read_run(schema: _native.MapSchema, data: bytes, name: str) -> _native.Run:
    """Return the run that a segment holds, in the columns of `schema`. `CorruptState` if it has other columns.

    Columns that the segment lacks are null, and narrower types are widened. Columns that `schema` lacks must be null,
    and values of wider types must fit. If the columns are those of `schema`, this costs nothing.
    """
    run, own = _as_stored(schema, data, name)
    if own is schema:
        return run
    if not _is_wider(own, schema):
        return converted(run, schema)
    try:
        narrow = converted(run, schema)
        if converted(narrow, own).write() == run.write():
            return narrow
    except (pa.ArrowException, InvalidInput):
        pass
    raise CorruptState(
        f"read segment `{name}` of state map `{schema.name}`: it has newer columns, and values that do not fit into "
        "those of this version",
        hint="restore the commit and its segments from one backup",
    )


def read_own(schema: _native.MapSchema, data: bytes, name: str) -> _native.Run:
    """Return the run that a segment holds, in its own columns, so that a copy of it is read by all that read it."""
    return _as_stored(schema, data, name)[0]


def _as_stored(schema: _native.MapSchema, data: bytes, name: str) -> tuple[_native.Run, _native.MapSchema]:
    """Return a run and its columns: those of `schema`, or those that the segment says it has."""
    try:
        return _native.Run.read(schema, data, name), schema
    except CorruptState:
        own = _own_schema(schema, data)
        if own is None:
            raise
    return _native.Run.read(own, data, name), own


def converted(run: _native.Run, schema: _native.MapSchema) -> _native.Run:
    """Return the rows of a run in other columns, by name."""
    return _native.Run.of_rows(schema, widened(run.rows(), schema.columns))


def cache_key(checksum: str, columns: str) -> str:
    """Return the key by which a run is cached: a segment may be open in its own columns and in newer ones."""
    return digest(f"{checksum} {columns}".encode())


def columns_key(schema: _native.MapSchema) -> str:
    """Return text that differs between any two lists of columns."""
    return str(schema.columns.to_string(show_field_metadata=False, show_schema_metadata=False))


def _own_schema(schema: _native.MapSchema, data: bytes) -> _native.MapSchema | None:
    """Return the columns that a segment says it has, if they are older or newer than those of `schema`."""
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        entries = file.metadata.metadata or {}
        widths = int(entries[_KEY_COLUMNS]), int(entries[_SUB_KEY_COLUMNS])
        own = list(file.schema_arrow)[: -len(SYSTEM_COLUMNS)]
        wanted = list(schema.columns)[: -len(SYSTEM_COLUMNS)]
        own = [_canonical(field, {one.name: one for one in wanted}) for field in own]
    except (pa.ArrowException, KeyError, ValueError, OSError):  # InvalidInput is a ValueError
        return None
    key, both = widths[0], sum(widths)
    if widths != schema.widths or both > len(own):
        return None
    found = _native.MapSchema(schema.name, pa.schema(own[:key]), pa.schema(own[key:both]), pa.schema(own[both:]))
    return found if _is_wider(schema, found) or _is_wider(found, schema) else None


def _is_wider(schema: _native.MapSchema, other: _native.MapSchema) -> bool:
    """Whether rows in the columns of `other` can be read through `schema`."""
    keys, rows = sum(schema.widths), list(schema.columns)[: -len(SYSTEM_COLUMNS)]
    others = list(other.columns)[: -len(SYSTEM_COLUMNS)]
    changes = field_changes(pa.schema(others[:keys]), pa.schema(rows[:keys]), grows=False)
    changes += field_changes(pa.schema(others[keys:]), pa.schema(rows[keys:]), grows=True)
    return all(change.is_accepted for change in changes)


def _canonical(field: pa.Field, wanted: dict[str, pa.Field]) -> pa.Field:
    """Return a column of a file in the type that the engine has for it. Names within lists have no meaning."""
    known = wanted.get(field.name)
    return known if known is not None and known.type == field.type else normalise(pa.schema([field])).field(0)
