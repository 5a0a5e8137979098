"""The corrected rows that a user gives to `requeue`: a table, or the path of a file in the columns of an export.

INVARIANT: a row that is not among those of the version, or a column that the export does not have, is an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, StoreUnavailable
from ..protocol.records import Split
from ..repo.opened import Opened
from ..schema import checked_buffers, conform, in_backticks
from ..schema.kernels import pq
from ..sources.contract import ROW, ReadContext
from ..sources.files import Files
from ..spelling import unknown
from ..store import folder_store
from .export import FIXED, ROW_ID, VERSION_COLUMN, check_export, source_columns

WHAT = "corrected rows"
_CSV: dict[str, Any] = {"header": True, "escape": '"', "extraColumns": "fail", "missingColumns": "null"}
"""Exports double quotes in quotes, and leave out columns that no row has."""


def corrected(repo: Opened, rows: Any, version: int, sources: Sequence[str]) -> pa.Table:
    """Return the given rows with their ids and the columns of `sources` that they have, checked by name and type."""
    schema = pa.schema([*FIXED, *source_columns(repo.job, sources)])
    given = _given(rows, schema, repo.job.time_zone)
    for name in given.column_names:
        if name not in schema.names:
            raise unknown("column of corrected rows", name, schema.names)
    for name in (VERSION_COLUMN, ROW_ID):
        if name not in given.column_names:
            raise InvalidInput(
                f"requeue: the corrected rows have no column `{name}`, found {in_backticks(given.column_names)}",
                hint="correct the file that `tidemill quarantine --export` writes, and keep its columns",
            )
    kept = pa.schema([field for field in schema if field.name in given.column_names])
    table = conform(given, kept, "requeue: corrected rows")
    _check_ids(table, version)
    return table


def _check_ids(table: pa.Table, version: int) -> None:
    others = sorted({str(found) for found in table.column(VERSION_COLUMN).to_pylist() if found != version})
    if others:
        raise InvalidInput(
            f"requeue version {version}: found corrected rows of version {', '.join(others)}",
            hint="give the rows of one version at a time",
        )
    ids = Counter(table.column(ROW_ID).to_pylist())
    for row, count in ids.items():
        if row is None:
            raise InvalidInput(f"requeue version {version}: found a corrected row without `{ROW_ID}`")
        if count > 1:
            raise InvalidInput(f"requeue version {version}: row {row} is given {count} times")


def _given(rows: Any, schema: pa.Schema, time_zone: str) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return checked_buffers(rows, "requeue: corrected rows")
    if isinstance(rows, str | os.PathLike):
        return _read(Path(os.fspath(rows)), schema, time_zone)
    raise InvalidInput(
        f"requeue: rows={type(rows).__name__}, expected a pyarrow.Table or the path of a Parquet, CSV or JSON file"
    )


def _read(path: Path, schema: pa.Schema, time_zone: str) -> pa.Table:
    check_export(path)
    if not path.is_file():
        raise InvalidInput(f"requeue: there is no file `{path}` with corrected rows")
    ending = path.suffix.lower()
    if ending == ".parquet":
        try:
            return pq.ParquetFile(path).read(use_threads=False)
        except MemoryError:  # Arrow's is an error of Arrow, too
            raise
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StoreUnavailable(f"requeue: read the corrected rows in `{path}`: {error.strerror}") from error
            raise InvalidInput(f"requeue: read the corrected rows in `{path}`: {error}") from error
    if ending == ".csv":
        files = Files(str(path.parent), "csv", schema, **_CSV)
    else:
        files = Files(str(path.parent), "json", schema)
    try:
        return _decoded(path, files, time_zone)
    except InvalidInput as error:
        raise InvalidInput(f"requeue: {error.message}", hint="correct the file and run the command again") from error


def _decoded(path: Path, files: Files, time_zone: str) -> pa.Table:
    entry = folder_store(str(path.parent)).stat(path.name)
    if entry is None:
        raise InvalidInput(f"there is no file `{path}`")
    split = Split(WHAT, entry.name, entry.etag, entry.size, entry.modified_ms)
    blocks = [block.rows for block in files.read(split, 131_072, ReadContext(time_zone=time_zone))]
    rows = pa.Table.from_batches(blocks) if blocks else files.schema.empty_table()
    return rows.drop_columns([ROW]) if ROW in rows.column_names else rows
