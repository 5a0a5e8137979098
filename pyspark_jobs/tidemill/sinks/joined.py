"""Rows of published files in fewer files, or only those of some versions. One pair of functions for each extension.

INVARIANT: rows keep all columns, values and their order. A file of an extension that is not in `_FORMS` stays as it is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from ..errors import CorruptState, InvalidInput
from ..names import BATCH_ID
from ..schema import int64_array, to_ddl
from ..schema.kernels import pc, pq
from ..values import dataclass
from .dictionaries import columns_with_dictionary

GROUP_BYTES = 64 << 20
"""About how much of a Parquet file is in memory before it is written as a row group."""


@dataclass(frozen=True)
class _Form:
    """How files of one extension are joined, and how the rows of some versions are selected."""

    join: Callable[[Iterable[bytes]], bytes]
    only: Callable[[bytes, Collection[int]], tuple[bytes, int]]
    batch_ids: Callable[[bytes], set[int]]


def can_join(extension: str) -> bool:
    """Whether files of an extension can be joined."""
    return extension in _FORMS


def joined(extension: str, contents: Iterable[bytes]) -> bytes:
    """Return one file with the rows of all, in order. They are read one after the other.

    `InvalidInput` if they have different columns.
    """
    return _FORMS[extension].join(contents)


def only_versions(extension: str, data: bytes, versions: Collection[int]) -> tuple[bytes, int]:
    """Return a file with the rows of some versions, and their number. It is the same file if it has no others."""
    return _FORMS[extension].only(data, versions)


def batch_ids_in(extension: str, data: bytes) -> set[int]:
    """Return the versions whose rows a file has. `CorruptState` if it cannot be read."""
    return _FORMS[extension].batch_ids(data)


def _read(data: bytes) -> pa.Table:
    try:
        return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)  # see `forms`
    except pa.ArrowException as error:
        raise CorruptState(f"read a published file: not Parquet: {error}") from error


def _join_parquet(contents: Iterable[bytes]) -> bytes:
    return _write(_read(data) for data in contents)


def _write(tables: Iterable[pa.Table]) -> bytes:
    """Return tables as one Parquet file, written as the sink writes it. INVARIANT: small tables share a row group."""
    sink = pa.BufferOutputStream()
    writer = None
    for group in _groups(tables):
        if writer is None:
            writer = pq.ParquetWriter(
                sink, group.schema, compression="zstd", use_dictionary=columns_with_dictionary(group)
            )
        writer.write_table(group)
    if writer is not None:
        writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables, combined into groups of about `GROUP_BYTES`."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        waiting.append(_like(table, waiting[0].schema) if waiting else table)
        size += table.nbytes
        if size >= GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, size = [waiting[0].slice(0, 0)], 0  # keeps the columns to compare with
    if sum(one.num_rows for one in waiting):
        yield pa.concat_tables(waiting).combine_chunks()


def _like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table in the columns of the first one. A column may differ in whether nulls are allowed."""
    if table.schema.equals(schema):
        return table
    if [(one.name, one.type) for one in table.schema] == [(one.name, one.type) for one in schema]:
        with contextlib.suppress(pa.ArrowException, ValueError):
            return table.cast(schema)
    raise InvalidInput(f"join published files: columns `{to_ddl(table.schema)}` follow `{to_ddl(schema)}`")


def _only_parquet(data: bytes, versions: Collection[int]) -> tuple[bytes, int]:
    table = _read(data)
    left = table.filter(pc.is_in(table.column(BATCH_ID), int64_array(sorted(versions))))
    return (data if left.num_rows == table.num_rows else _write([left])), left.num_rows


def _lines(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _join_json(contents: Iterable[bytes]) -> bytes:
    return b"".join(data if data.endswith(b"\n") else data + b"\n" for data in contents if data)


def _only_json(data: bytes, versions: Collection[int]) -> tuple[bytes, int]:
    lines = _lines(data)
    left = [line for line in lines if json.loads(line).get(BATCH_ID) in versions]
    return (data if len(left) == len(lines) else b"".join(line + b"\n" for line in left)), len(left)


def _ids_in_parquet(data: bytes) -> set[int]:
    table = _read(data)
    if BATCH_ID not in table.column_names:
        raise CorruptState(f"read a published file: it has no column `{BATCH_ID}`")
    return set(pc.unique(table.column(BATCH_ID)).to_pylist())


def _ids_in_json(data: bytes) -> set[int]:
    try:
        return {json.loads(line)[BATCH_ID] for line in _lines(data)}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptState(f"read a published file: a line is no row with `{BATCH_ID}`: {error}") from error


_FORMS = {
    ".parquet": _Form(_join_parquet, _only_parquet, _ids_in_parquet),
    ".json": _Form(_join_json, _only_json, _ids_in_json),
}
