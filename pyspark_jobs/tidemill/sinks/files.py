"""`Parquet` and `Json`: sinks that write rows as files, in partition folders if the user asks for them.

`json_text` writes JSON, `partitions` names folders. INVARIANT: the same rows give the same bytes, and `decode`
returns exactly the rows that `encode` was given.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import CorruptState, InvalidInput
from ..protocol.records import PublishedFile
from ..schema import conform, empty_table, type_ddl
from ..spelling import unknown
from ..store import Entry, ObjectMissing, Store, folder_store, folder_uri
from . import json_text
from .contract import Encoded, Options, Present, Publication
from .dictionaries import columns_with_dictionary
from .partitions import folder_values, parts, with_folders
from .publish import compared_files, listed_files, present_files, publish_files, withdraw_files


class Parquet:
    """A sink that writes a folder of Parquet files, compressed with zstd. Spark: `format("parquet")`.

    `path` is a folder or an `s3://` URI. Each row also has the columns `_batch_id`, the version that wrote it,
    and `_seq`, its place in this version.
    `partitionBy` names one column or several, whose values become folders `column=value/` instead of columns of the
    files. As in Spark, an empty string in such a column is read back as null.

    The files of a batch appear after its commit, each once, so that no row appears twice. You may move or delete them:
    only `publish` on request makes them appear again. The folder belongs to one repository: files that another one
    published for the same pipeline and sink stop a run. Raises `InvalidInput` for an empty path, and for a partition
    column that is named twice, unknown, nested or binary.

    >>> import tidemill as tm
    >>> tm.Parquet("out/orders", partitionBy=["country"])
    Parquet('out/orders', partitionBy=['country'])
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

    @property
    def uri(self) -> str:
        """The URI of the folder, with symbolic links resolved. A relative path is below the working folder."""
        return folder_uri(self.path)

    def describe(self) -> dict[str, Any]:
        """Return kind, path and partition columns, for commits."""
        return {"kind": self.kind, "path": self.path, "partitionBy": list(self.partitionBy)}

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` if rows of this schema cannot be written.

        A partition column must exist and have a simple type, and at least one other column must remain."""
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
        """Return one file, or one for each combination of partition values, ordered by folder."""
        return [
            Encoded(suffix, self.extension, self._bytes(part), part.num_rows)
            for suffix, part in parts(rows, self.partitionBy)
        ]

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """Return the rows of files, given as (content, folder), in order; folder names give the partition columns."""
        tables = [empty_table(schema)]
        for data, suffix in files:
            folders = folder_values(suffix)
            in_file = pa.schema([field for field in schema if field.name not in folders])
            tables.append(with_folders(self._rows(data, in_file), suffix, schema))
        return pa.concat_tables(tables)

    def at(self, path: str) -> Parquet:
        """Return the same sink at another place."""
        moved = copy.copy(self)
        moved.path = path
        return moved

    def check_place(self, options: Options) -> None:
        """Raise `InvalidInput` if the path cannot be a folder. Touches nothing."""
        folder_store(self.path, options)

    def publish(self, publication: Publication) -> list[PublishedFile]:
        """Copy the files into the folder, and return their names there."""
        return publish_files(self._folder(publication), publication)

    def refuse_withdrawal(self) -> None:
        """Accept: files can be deleted."""

    def listed(self, publication: Publication) -> Mapping[str, Entry]:
        """Return which files of the version are in the folder."""
        return listed_files(self._folder(publication), publication)

    def withdraw(self, publication: Publication, names: Sequence[str]) -> None:
        """Delete the files from the folder."""
        withdraw_files(self._folder(publication), publication.identity, names)

    def fetch(self, publication: Publication, name: str) -> bytes | None:
        """Return the content of a published file, or None if it is not in the folder any more."""
        try:
            return self._folder(publication).get(name)
        except ObjectMissing:
            return None

    def present(self, publication: Publication, after: int = -1) -> Iterator[Present]:
        """Yield the files in the folder that any repository published for this pipeline and sink after a version."""
        return present_files(self._folder(publication), publication.identity, after, bool(self.partitionBy))

    def lists_whole(self, options: Options) -> bool:
        """Whether all partition folders must be listed on S3 to find the files of later versions."""
        return bool(self.partitionBy) and folder_store(self.path, options).lists_after

    def compare(
        self, publication: Publication, files: Mapping[str, PublishedFile], deep: bool
    ) -> Iterator[tuple[str, str | None]]:
        """Yield which published files are still in the folder, each with what is wrong with it, or None."""
        return compared_files(self._folder(publication), files, deep)

    def _folder(self, publication: Publication) -> Store:
        return folder_store(self.path, publication.options)

    def _bytes(self, rows: pa.Table) -> bytes:
        """Return the rows as Parquet. Chunks are combined first, so that their borders do not change the file."""
        sink, whole = pa.BufferOutputStream(), rows.combine_chunks()
        pq.write_table(whole, sink, compression="zstd", use_dictionary=columns_with_dictionary(whole))
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _rows(self, data: bytes, schema: pa.Schema) -> pa.Table:
        # One thread, because Arrow's threads release `data` after the result is returned. If a thread does that while
        # the interpreter shuts down, the whole process aborts (std::terminate).
        try:
            found = pq.ParquetFile(pa.BufferReader(data)).read(columns=schema.names, use_threads=False)
        except pa.ArrowException as error:
            raise CorruptState(f"read an output file that a commit names: not Parquet: {error}") from error
        return conform(found, schema, "read an output file")

    def __repr__(self) -> str:
        by = f", partitionBy={list(self.partitionBy)!r}" if self.partitionBy else ""
        return f"{type(self).__name__}({self.path!r}{by})"


class Json(Parquet):
    """A sink that writes a folder of JSON lines, one row a line. Spark: `format("json")`.

    `path`, `partitionBy`, added columns and publishing are as in `Parquet`. Values are written as Spark writes them:

    - Nulls are omitted.
    - Times are ISO 8601 in UTC, with milliseconds, or microseconds if the value has them.
    - Decimals are numbers with all their digits, and binary values are base64.
    - NaN and infinities are the strings `NaN`, `Infinity` and `-Infinity`.

    Raises `InvalidInput` for maps whose keys are not strings, numbers or times.

    >>> import tidemill as tm
    >>> tm.Json("out/orders")
    Json('out/orders')
    """

    kind = "json"
    extension = ".json"

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` as `Parquet.check`, and for maps whose keys are not strings, numbers or times."""
        super().check(schema)
        for field in schema:
            json_text.check_keys(field.type, field.name)

    def _bytes(self, rows: pa.Table) -> bytes:
        return json_text.encode(rows)

    def _rows(self, data: bytes, schema: pa.Schema) -> pa.Table:
        return json_text.decode(data, schema)


__all__ = ["Json", "Parquet"]
