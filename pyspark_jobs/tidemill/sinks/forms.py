"""The forms in which the rows of sinks are stored in the repository, by extension: to files and back, exactly.

Committed files are read back without the code of their sink. INVARIANT: the same rows give the same bytes, and
`unstaged` returns exactly the rows that `staged` was given. A new form has an entry in `_FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from ..errors import CorruptState
from ..names import ADDED
from ..schema import conform, empty_table
from ..schema.kernels import pq
from ..state.versions import fetch
from ..values import dataclass
from . import json_text
from .contract import Change, SinkPlace, Staged
from .dictionaries import columns_with_dictionary
from .partitions import folder_values, parts, with_folders

PARQUET, JSON = ".parquet", ".json"


EXTENSIONS = (PARQUET, JSON)


@dataclass(frozen=True)
class _Form:
    """How rows become the bytes of a file, and bytes the rows of a schema."""

    write: Callable[[pa.Table], bytes]
    read: Callable[[bytes, pa.Schema], pa.Table]


def staged(rows: pa.Table, extension: str = PARQUET, partition_by: Sequence[str] = ()) -> list[Staged]:
    """Return one file, or one for each combination of partition values, ordered by folder."""
    write = _FORMS[extension].write
    return [Staged(suffix, extension, write(part), part.num_rows) for suffix, part in parts(rows, partition_by)]


def unstaged(files: Sequence[tuple[bytes, str]], schema: pa.Schema, extension: str, name: str) -> pa.Table:
    """Return the rows of files, given as (content, folder), in order; folder names give the partition columns.

    `name` is that of the first file, for errors. `CorruptState` for an unknown extension.
    """
    if extension not in _FORMS:
        raise CorruptState(
            f"read `{name}`: unknown file extension `{extension}`, expected one of {', '.join(_FORMS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    tables = [empty_table(schema)]
    for data, suffix in files:
        folders = folder_values(suffix)
        in_file = pa.schema([field for field in schema if field.name not in folders])
        tables.append(with_folders(_FORMS[extension].read(data, in_file), suffix, schema))
    return pa.concat_tables(tables)


def with_added(schema: Iterable[pa.Field], nullable: bool = True) -> pa.Schema:
    """Return the columns of a sink followed by those that Tidemill adds to its rows: `_batch_id` and `_seq`."""
    return pa.schema([*schema, *(pa.field(name, pa.int64(), nullable) for name in ADDED)])


def rows_of_change(change: Change, at: SinkPlace) -> pa.Table:
    """Return the rows that a change adds, in order, with `_batch_id` and `_seq`.

    They may be in files of any form, because another sink may have staged them. `CorruptState` if one is not as its
    commit says.
    """
    schema = with_added(change.schema, nullable=False)
    tables = [schema.empty_table()]
    for _, file in change.adds:
        content = fetch(at.store, file.name, file.checksum)
        tables.append(unstaged([(content, file.suffix)], schema, file.extension, file.name))
    return pa.concat_tables(tables)


def _parquet(rows: pa.Table) -> bytes:
    """Return the rows as Parquet. Chunks are combined first, so that their borders do not change the file."""
    sink, whole = pa.BufferOutputStream(), rows.combine_chunks()
    pq.write_table(whole, sink, compression="zstd", use_dictionary=columns_with_dictionary(whole))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _from_parquet(data: bytes, schema: pa.Schema) -> pa.Table:
    # One thread, because Arrow's threads release `data` after the result is returned. If a thread does that while the
    # interpreter shuts down, the whole process aborts (std::terminate).
    try:
        found = pq.ParquetFile(pa.BufferReader(data)).read(columns=schema.names, use_threads=False)
    except pa.ArrowException as error:
        raise CorruptState(f"read an output file that a commit names: not Parquet: {error}") from error
    return conform(found, schema, "read an output file")


_FORMS = {PARQUET: _Form(_parquet, _from_parquet), JSON: _Form(json_text.rows_to_json, json_text.rows_from_json)}
