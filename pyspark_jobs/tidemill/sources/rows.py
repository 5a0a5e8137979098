"""`Rows`: a source whose rows a test supplies. They are stored as Parquet files in a folder that the tester chooses.

So every engine reads them as it reads any source. INVARIANT: a pipeline whose `Rows` has no folder does not run.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from ..errors import InvalidInput
from ..protocol.records import Split
from ..schema import array_of, checked_buffers, conform, to_ddl
from ..schema.kernels import pq
from ..store import open_store
from .contract import SPLIT_BYTES, Block, ReadContext, SourceFile
from .files import Files

GIVEN = "rows given to the tester"
"""The name of such rows in errors."""


class Rows:
    """A source for tests: `tm.testing.Tester` supplies its rows, in the columns of `schema`.

    `schema` is DDL, a `pyarrow.Schema`, a Spark `StructType` or a dataclass. Rows are dicts, tuples, an Arrow table, or
    scalars if there is one column. A pipeline that reads `Rows` outside of a test raises `InvalidInput`.

    >>> import tidemill as tm
    >>> tm.Rows("word string, n int").schema.names
    ['word', 'n']
    """

    def __init__(self, schema: Any) -> None:
        self._files = Files("", format="parquet", schema=schema)
        self._folder: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._files.schema

    @property
    def place(self) -> None:
        """None, because rows are supplied by a test."""
        return None

    @property
    def parsing(self) -> Mapping[str, Any]:
        """Those of the files in which the rows are stored."""
        return self._files.parsing

    def __repr__(self) -> str:
        return f"Rows({to_ddl(self.schema)!r})"

    def bind(self, folder: str) -> None:
        """Read rows from the files in `folder` from now on; it is a path or the URI of a store."""
        self._folder = folder
        self._files = Files(folder, format="parquet", schema=self.schema)

    def put(self, number: int, rows: Any, time_zone: str = "UTC") -> str:
        """Write rows as file `number` of the folder and return the file's name; `table` says what rows may be."""
        name = f"{number:010d}.parquet"
        sink = io.BytesIO()
        pq.write_table(self.table(rows, time_zone), sink)
        open_store(self._bound()).put(name, sink.getvalue())
        return name

    def table(self, rows: Any, time_zone: str = "UTC") -> pa.Table:
        """Return rows as a table. Rows are dicts, tuples, scalars if there is one column, or an Arrow table.

        Missing fields are null. Datetimes and ISO text without a zone are in `time_zone`. Raises `InvalidInput` for a
        value that does not fit its column."""
        if isinstance(rows, pa.Table | pa.RecordBatch):
            given = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
            return conform(checked_buffers(given, GIVEN), self.schema, GIVEN)
        names = self.schema.names
        cells = [_cells(row, names, number) for number, row in enumerate(rows)]
        columns = [
            array_of([row[i] for row in cells], field, ZoneInfo(time_zone), GIVEN)
            for i, field in enumerate(self.schema)
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def look(
        self, name: str, since: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> list[SourceFile]:
        """Return the files that were written."""
        self._bound()
        return self._files.look(name, since, storage_options)

    def fingerprint(self, file: SourceFile, storage_options: Mapping[str, Any] | None = None) -> str | None:
        """Return a text that depends on the bytes of a file; see `Files.fingerprint`."""
        return self._files.fingerprint(file, storage_options)

    def splits(
        self,
        files: Sequence[SourceFile],
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> list[Split]:
        """Return the splits of the files; see `Files.splits`."""
        return self._files.splits(files, storage_options, split_bytes)

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        """Yield the rows of a split in blocks; see `Files.read`."""
        return self._files.read(split, block_rows, context)

    def _bound(self) -> str:
        if self._folder is None:
            raise InvalidInput(
                "source tm.Rows has no rows: only a test can give it rows",
                hint="run it with tm.testing.Tester(pipeline), or read files with tm.Files",
            )
        return self._folder


def _cells(row: Any, names: list[str], number: int) -> Sequence[Any]:
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                raise InvalidInput(f"row {number} has the field `{name}`, expected only {', '.join(names)}")
        return [row.get(name) for name in names]
    cells = row if isinstance(row, tuple | list) else (row,)
    if len(cells) == len(names):
        return cells
    raise InvalidInput(f"row {number} is {row!r}: {len(cells)} values, expected {len(names)} ({', '.join(names)})")
