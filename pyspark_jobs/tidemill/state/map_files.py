"""Files of a `tm.StateMap`: segments by path, what columns they have, and the errors of what is none."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import CorruptState, InvalidInput, StoreUnavailable, repr_of
from ..store.local import sync_folder
from .columns import SYSTEM_COLUMNS

KEY, STATE = "key", "state"
"""What an unnamed key or state column is called."""


def columns_of(path: Path, data: bytes) -> tuple[tuple[pa.Schema, bool], tuple[pa.Schema, bool]]:
    """Key and state columns of a segment, and whether each is one unnamed column."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        schema, metadata = file.schema_arrow, file.metadata.metadata or {}
        width = int(metadata[b"tidemill.key_columns"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise no_segment(path, error) from error
    fields = [field.with_nullable(True) for field in schema]
    key = pa.schema(fields[:width])
    state = pa.schema(fields[width : len(fields) - len(SYSTEM_COLUMNS)])
    return (key, _is_bare(key, KEY)), (state, _is_bare(state, STATE))


def path_of(path: Any) -> Path:
    """A path as a user gives it; `InvalidInput` for what is none."""
    try:
        found = os.fspath(path)
    except TypeError:
        found = None
    if not isinstance(found, str) or "\0" in found:
        raise InvalidInput(f"StateMap: {repr_of(path)} is no path, expected text or a pathlib.Path")
    return Path(found)


def read_file(path: Path) -> bytes:
    """The content; `CorruptState` where there is no such file, `StoreUnavailable` where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CorruptState(f"read a state map: {path} is not there", hint="restore the file") from error
    except IsADirectoryError as error:
        raise CorruptState(f"read a state map: {path} is a folder, expected a file", hint="restore the file") from error
    except OSError as error:
        raise StoreUnavailable(f"read a state map: {path}: {error}") from error


def write_file(path: Path, data: bytes) -> None:
    """Under another name first: a reader sees all of a file or none of it."""
    hidden = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with hidden.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            hidden.unlink()
        raise StoreUnavailable(f"write a state map: {path}: {error}") from error


def no_segment(path: Path, error: Exception) -> CorruptState:
    """The error for a file that is none of ours."""
    return CorruptState(f"read a state map: {path} is no segment: {error}", hint="restore the file")


def _is_bare(columns: pa.Schema, name: str) -> bool:
    """Whether it is one column without a name of the user's. A struct by itself is its columns, so it had a name."""
    return columns.names == [name] and not pa.types.is_struct(columns.field(0).type)
