"""`Parquet` and `Json`: rows as files of one form, in folders by partition columns where the user asks for that.

How JSON is written stands in `json_text`, how folders are named in `partitions`. INVARIANT: the same rows give the
same bytes, and `decode` gives the rows back that `encode` was given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import CorruptState, InvalidInput
from ..protocol.records import OutputFile
from ..schema import conform, empty_table, type_ddl
from ..spelling import unknown
from ..store import Store, folder_store
from . import json_text
from .contract import Encoded, Options, Publication
from .dictionaries import columns_with_dictionary
from .partitions import folder_values, parts, with_folders
from .publish import are_published, publish_files


class Parquet:
    """A folder of Parquet files (zstd), readable by anything; each row carries `_batch_id`. Spark: `format("parquet")`.

    `partitionBy`: columns that become folders `column=value/` and leave the files, as in Spark; there, too, an empty
    text comes back as null. Files must stay in the folder: what of the newest version is not there, the next run
    publishes (again).
    """

    kind = "parquet"
    extension = ".parquet"
    every_batch = False

    def __init__(self, path: str | os.PathLike[str], partitionBy: str | Sequence[str] = ()) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidInput(f"a sink's path is {path!r}, expected a folder or an s3:// URI")
        self.path = os.fspath(path)
        self.partitionBy = (partitionBy,) if isinstance(partitionBy, str) else tuple(partitionBy)
        if len(set(self.partitionBy)) < len(self.partitionBy):
            raise InvalidInput(f"sink {self.path}: partitionBy names a column twice: {', '.join(self.partitionBy)}")

    def check(self, schema: pa.Schema) -> None:
        """`InvalidInput` where rows of this schema cannot be written: a partition column that is not there or has no
        text, or no other column left."""
        for name in self.partitionBy:
            if name not in schema.names:
                raise unknown(f"partition column of the sink {self.path}", str(name), schema.names)
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                raise InvalidInput(
                    f"sink {self.path}: the partition column `{name}` is {type_ddl(kind)}, "
                    "which cannot be a folder name"
                )
        if self.partitionBy and set(self.partitionBy) >= set(schema.names):
            raise InvalidInput(f"sink {self.path}: partitionBy names every column, but at least one must remain")

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """One file, or one for each combination of partition values, in the order of their folders."""
        return [
            Encoded(suffix, self.extension, self._bytes(part), part.num_rows)
            for suffix, part in parts(rows, self.partitionBy)
        ]

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """The rows of files (content, folder), in their order; partition columns come back from the folders' names."""
        tables = [empty_table(schema)]
        for data, suffix in files:
            folders = folder_values(suffix)
            in_file = pa.schema([field for field in schema if field.name not in folders])
            tables.append(with_folders(self._rows(data, in_file), suffix, schema))
        return pa.concat_tables(tables)

    def check_place(self, options: Options) -> None:
        """`InvalidInput` where the path can be no folder."""
        folder_store(self.path, options)

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Copies the files that are not there yet into the folder."""
        return publish_files(store, folder_store(self.path, options), files, whose)

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Whether all files are in the folder."""
        del store
        return are_published(folder_store(self.path, options), files, whose)

    def _bytes(self, rows: pa.Table) -> bytes:
        """Chunks are put together first: where they end must not show in the file."""
        sink, whole = pa.BufferOutputStream(), rows.combine_chunks()
        pq.write_table(whole, sink, compression="zstd", use_dictionary=columns_with_dictionary(whole))
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _rows(self, data: bytes, schema: pa.Schema) -> pa.Table:
        # One thread: Arrow's own would let go of `data` after the answer, and one that does so while the interpreter
        # ends takes the whole process down with it (std::terminate).
        try:
            found = pq.ParquetFile(pa.BufferReader(data)).read(columns=schema.names, use_threads=False)
        except pa.ArrowException as error:
            raise CorruptState(f"read an output file that a commit names: not Parquet: {error}") from error
        return conform(found, schema, "read an output file")

    def __repr__(self) -> str:
        by = f", partitionBy={list(self.partitionBy)!r}" if self.partitionBy else ""
        return f"{type(self).__name__}({self.path!r}{by})"


class Json(Parquet):
    """A folder of JSON lines, a row a line; each row carries `_batch_id`. Spark: `format("json")`.

    As Spark writes them: nulls are left out, times are ISO 8601 (in UTC, to the microsecond where a millisecond is
    not enough), decimals are numbers with all their digits, binary is base64, NaN and infinities are the strings
    `NaN`, `Infinity`, `-Infinity`.
    """

    kind = "json"
    extension = ".json"

    def check(self, schema: pa.Schema) -> None:
        """As `Parquet.check`; also `InvalidInput` for maps whose keys are no text, number or time."""
        super().check(schema)
        for field in schema:
            json_text.check_keys(field.type, field.name)

    def _bytes(self, rows: pa.Table) -> bytes:
        return json_text.encode(rows)

    def _rows(self, data: bytes, schema: pa.Schema) -> pa.Table:
        return json_text.decode(data, schema)


__all__ = ["Json", "Parquet"]
