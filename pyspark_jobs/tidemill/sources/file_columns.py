"""Where each column of a block of a file comes from: the file, the names of its folders, or Tidemill.

INVARIANT: every block of a source has the same columns, whatever the folders of its files are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..protocol.records import Split
from ..schema import type_ddl
from ..store import Store
from .contract import METADATA, METADATA_TYPE, ROW
from .listing import NULL_PARTITION


class FileColumns:
    """Says where each column of a block comes from: the file, the names of its folders, or Tidemill.

    `in_file` are the columns that the file must have. `asked` are those of them that are read, at least one, so that
    rows can be counted. `elsewhere` are the columns whose values come from the folders.
    """

    def __init__(
        self,
        schema: pa.Schema,
        folders: Sequence[tuple[str, str | None]],
        metadata: pa.Scalar | None,
        asked: frozenset[str] | None,
    ) -> None:
        columns = {name.lower(): name for name in schema.names}
        self._found = [(name, value) for name, value in folders if name.lower() in columns]
        self._folders = {columns[name.lower()]: value for name, value in self._found}
        self.elsewhere = tuple(self._folders)
        self._schema, self._metadata = schema, metadata
        self._constants: dict[str, pa.Scalar] = {}
        self.in_file = pa.schema([field for field in schema if field.name not in self._folders])
        wanted = [field for field in schema if asked is None or field.name in asked]
        of_file = [field for field in wanted if field.name not in self._folders]
        self.asked = pa.schema(of_file or list(self.in_file)[:1])
        hidden = [pa.field(METADATA, METADATA_TYPE)] if metadata is not None else []
        self.schema = pa.schema([*wanted, *hidden, pa.field(ROW, pa.int64())])

    def resolve(self, time_zone: str) -> str | None:
        """Parse the values of the folders. Return why one does not fit its column, or None if all fit.

        Two folders that name the same column do not fit, even with equal values.
        """
        first: dict[str, str] = {}
        for name, text in self._found:
            folder = f"{name}={NULL_PARTITION if text is None else text}"
            if name.lower() in first:
                return f"folder `{folder}`: folder `{first[name.lower()]}` of the path names the same column"
            first[name.lower()] = folder
        for name, text in self._folders.items():
            field = self._schema.field(name)
            value = text_value(text, field.type, time_zone)
            if text is None and not field.nullable:
                return f"folder `{name}={NULL_PARTITION}`: found no value, expected {type_ddl(field.type)} not null"
            if value is None:
                return f"folder `{name}={text}`: found `{text}`, expected {type_ddl(field.type)}"
            self._constants[name] = value
        return None

    def finish(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a block, given those of the file and `_row`, which is the last."""
        if not self._constants and self._metadata is None and rows.schema.names == self.schema.names:
            return rows
        arrays = []
        for field in self.schema:
            if field.name == METADATA and self._metadata is not None:
                arrays.append(pa.repeat(self._metadata, rows.num_rows))
            elif field.name in self._constants:
                arrays.append(pa.repeat(self._constants[field.name], rows.num_rows))
            else:
                arrays.append(rows.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@functools.lru_cache(maxsize=256)
def columns_of_files(schema: pa.Schema, asked: frozenset[str] | None) -> FileColumns:
    """Return where the columns come from if no folder has any: they are the same for all files."""
    return FileColumns(schema, [], None, asked)


def text_value(text: str | None, kind: pa.DataType, time_zone: str) -> pa.Scalar | None:
    """Return the value of a folder's text in a type, or None if it does not fit. No text is null."""
    if pa.types.is_nested(kind):
        return None if text is not None else pa.scalar(None, kind)
    values, misfits = _native.values_of_texts([text], pa.schema([pa.field("value", kind)]), None, time_zone)
    return None if misfits else values[0]


def metadata_of(store: Store, split: Split) -> pa.Scalar:
    """Return the value of `_metadata` in the rows of a file."""
    return pa.scalar(
        {
            "file_path": f"{store.uri.rstrip('/')}/{split.path}",
            "file_name": split.path.rpartition("/")[2],
            "file_size": split.size,
            "file_modification_time": split.modified_ms * 1000,
        },
        METADATA_TYPE,
    )
