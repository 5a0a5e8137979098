"""Files of a `tm.StateMap`: reading and writing segments by path, and the columns that a segment has.

INVARIANT: a file appears under its name only when it is complete.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import CorruptState, InvalidInput, StoreUnavailable, repr_of
from ..schema.kernels import pq
from ..state.columns import SYSTEM_COLUMNS
from ..store import full
from ..store.local_files import sync_folder

KEY, STATE = "key", "state"
"""The names that unnamed key and state columns have in files."""


def columns_of(path: Path, data: bytes) -> tuple[tuple[pa.Schema, bool], tuple[pa.Schema, bool]]:
    """Return the key columns and the state columns of a segment, each with whether it is one unnamed column."""
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
    """Return the path that a user gave; `InvalidInput` if it is not a path."""
    try:
        found = os.fspath(path)
    except TypeError:
        found = None
    if not isinstance(found, str) or "\0" in found:
        raise InvalidInput(f"StateMap: {repr_of(path)} is not a valid path, expected a str or a pathlib.Path")
    return Path(found)


def read_file(path: Path) -> bytes:
    """Return the content of a file. `CorruptState` if it is missing, `StoreUnavailable` if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CorruptState(f"read a state map: `{path}` is missing", hint="restore the file") from error
    except IsADirectoryError as error:
        raise CorruptState(f"read a state map: `{path}` is a folder, not a file", hint="restore the file") from error
    except OSError as error:
        raise StoreUnavailable(f"read a state map: `{path}`: {error}") from error


def write_file(path: Path, data: bytes) -> None:
    """Write a file under a hidden name and rename it.

    CRASH: a crash leaves the hidden file or the whole file. A reader never sees a part of a file.
    """
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
        advice = full.advice(error.errno)
        if advice is None:
            raise StoreUnavailable(f"write a state map: `{path}`: {error}") from error
        reason = f"{error.strerror}{full.space(error.errno, str(path), len(data))}"
        raise StoreUnavailable(f"write a state map: `{path}`: {reason}", hint=advice) from error


def no_segment(path: Path, error: Exception) -> CorruptState:
    """Return the error for a file that is not a segment."""
    return CorruptState(f"read a state map: `{path}` is not a segment: {error}", hint="restore the file")


def _is_bare(columns: pa.Schema, name: str) -> bool:
    """Whether `columns` is one unnamed column. An unnamed struct becomes its fields, so a struct column has a name."""
    return columns.names == [name] and not pa.types.is_struct(columns.field(0).type)
