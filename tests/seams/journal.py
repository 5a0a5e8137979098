"""A test-only source in one new file: a table of SQLite, whose position is the number of a row. It inherits nothing.

A part of it is some rows that follow each other. No ledger knows them: the commit has the number of the last one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import InvalidInput
from tidemill.protocol.records import Split
from tidemill.schema import to_arrow
from tidemill.sources.contract import ROW, Block, Intake, ReadContext, SourceFile

PART = 2


class Journal:
    """Rows `k string, n bigint` of the table `journal`, `PART` rows at a time."""

    is_positioned = True

    def __init__(self, path: str, max_parts: int | None = None) -> None:
        self.path, self.max_parts, self.looks = path, max_parts, []

    @property
    def schema(self) -> pa.Schema:
        return to_arrow("k string, n bigint")

    @property
    def place(self) -> str:
        return Path(self.path).resolve().as_uri()

    @property
    def intake(self) -> Intake:
        return Intake(max_files=self.max_parts)

    def look(
        self, name: str, since: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> list[SourceFile]:
        self.looks.append(since)
        after = int(since or 0)
        with contextlib.closing(sqlite3.connect(self.path)) as table:
            (last,) = table.execute("SELECT coalesce(max(id), 0) FROM journal").fetchone()
        ends = [*range(after + PART, last, PART), last] if last > after else []
        starts = [after, *ends]
        return [
            SourceFile(name, f"rows/{first + 1}-{end}", str(end), 8 * (end - first), 1_000 * end, position=str(end))
            for first, end in zip(starts, ends, strict=False)
        ]

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        first, _, end = split.path.removeprefix("rows/").partition("-")
        with contextlib.closing(sqlite3.connect(self.path)) as table:
            rows = table.execute("SELECT k, n FROM journal WHERE id BETWEEN ? AND ? ORDER BY id", (first, end))
            found = rows.fetchall()
        if len(found) != int(end) - int(first) + 1:
            raise InvalidInput(f"read {split.path} of source `{split.source}`: some of its rows are gone")
        schema = self.schema.append(pa.field(ROW, pa.int64()))
        for number, start in enumerate(range(0, len(found), block_rows)):
            part = [(*row, start + place) for place, row in enumerate(found[start : start + block_rows])]
            made = [dict(zip(schema.names, row, strict=True)) for row in part]
            yield Block(number, pa.RecordBatch.from_pylist(made, schema=schema))

    def append(self, *rows: tuple[str, int]) -> None:
        """Add rows to the table."""
        with contextlib.closing(sqlite3.connect(self.path)) as table, table:
            table.execute("CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY, k, n)")
            table.executemany("INSERT INTO journal (k, n) VALUES (?, ?)", rows)

    def remove(self, number: int) -> None:
        """Remove a row."""
        with contextlib.closing(sqlite3.connect(self.path)) as table, table:
            table.execute("DELETE FROM journal WHERE id = ?", (number,))
