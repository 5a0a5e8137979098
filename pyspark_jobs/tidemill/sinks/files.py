"""`Parquet` and `Json`: sinks that write rows as files of a folder, in partition folders if the user asks for them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import type_ddl
from ..secret_names import check_no_secrets
from ..spelling import unknown
from ..store import folder_store, folder_uri
from . import forms, json_text
from .contract import Applied, Change, Options, Seen, SinkPlace, Staged
from .folder import Folder


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
    extension = forms.PARQUET

    def __init__(self, path: str | os.PathLike[str], partitionBy: str | Sequence[str] = ()) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidInput(f"a sink's path is {path!r}, expected a folder or an s3:// URI")
        self.path = os.fspath(path)
        check_no_secrets(self.path, "a sink's path")
        self.partitionBy = (partitionBy,) if isinstance(partitionBy, str) else tuple(partitionBy)
        if len(set(self.partitionBy)) < len(self.partitionBy):
            raise InvalidInput(f"sink {self.path}: partitionBy names a column twice: {', '.join(self.partitionBy)}")

    @property
    def uri(self) -> str:
        """The URI of the folder, with symbolic links resolved. A relative path is below the working folder."""
        return folder_uri(self.path)

    @property
    def folder(self) -> Folder:
        """The folder, and all that can be done with its files."""
        return Folder(self.path, self.extension, self.partitionBy)

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

    def stage(self, rows: pa.Table) -> list[Staged]:
        """Return one file, or one for each combination of partition values, ordered by folder."""
        return forms.staged(rows, self.extension, self.partitionBy)

    def at(self, path: str) -> Self:
        """Return the same sink at another place."""
        moved = copy.copy(self)
        moved.path = path
        return moved

    def check_place(self, options: Options) -> None:
        """Raise `InvalidInput` if the path cannot be a folder. Touches nothing."""
        folder_store(self.path, options)

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        """Copy the files of a version into the folder, then delete those of versions that are withdrawn."""
        return self.folder.apply(change, at)

    def seen(self, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
        """Yield the files in the folder that any repository published for this pipeline and sink after a version."""
        return self.folder.seen(at, since)

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
    extension = forms.JSON

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` as `Parquet.check`, and for maps whose keys are not strings, numbers or times."""
        super().check(schema)
        for field in schema:
            json_text.check_map_keys(field.type, field.name)


__all__ = ["Json", "Parquet"]
