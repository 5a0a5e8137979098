"""A test-only sink in one new file: a table of SQLite. It inherits nothing, is no folder, and changes in one step."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import InvalidInput
from tidemill.sinks.contract import Applied, Change, Seen, SinkPlace, Staged
from tidemill.sinks.forms import rows_of_change, staged


class Table:
    """Rows as JSON in the table `rows`. The table `applied` says which versions of which repository are in it."""

    kind = "test-table"

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def uri(self) -> str:
        return Path(self.path).resolve().as_uri()

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": self.path}

    def check(self, schema: pa.Schema) -> None:
        if any(pa.types.is_binary(kind) for kind in schema.types):
            raise InvalidInput("a table of the tests holds no binary values")

    def stage(self, rows: pa.Table) -> list[Staged]:
        return staged(rows)

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        whose = (at.owner.uuid, at.owner.sink)
        with self._transaction() as table:
            once = (*whose, change.version)
            known = table.execute("SELECT 1 FROM applied WHERE uuid = ? AND sink = ? AND version = ?", once).fetchone()
            if known is None:
                for one in change.withdraws:
                    table.execute("DELETE FROM rows WHERE uuid = ? AND sink = ? AND version = ?", (*whose, one.version))
                made = [(*once, json.dumps(row)) for row in rows_of_change(change, at).to_pylist()]
                table.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", made)
                table.execute("INSERT INTO applied VALUES (?, ?, ?)", once)
        return Applied(position=f"transaction {change.version}")

    def seen(self, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
        if not Path(self.path).exists():
            return
        with self._transaction() as table:
            found = table.execute(
                "SELECT DISTINCT version, uuid FROM rows WHERE sink = ? AND version > ?", (at.owner.sink, since)
            )
            for version, uuid in found.fetchall():
                yield Seen(f"version {version}", version, uuid == at.owner.uuid, uuid)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, in the order of their versions."""
        with self._transaction() as table:
            found = table.execute("SELECT row FROM rows ORDER BY version, rowid").fetchall()
        return [json.loads(row) for (row,) in found]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path)) as table, table:
            table.execute("BEGIN IMMEDIATE")
            table.execute("CREATE TABLE IF NOT EXISTS rows (uuid, sink, version, row)")
            table.execute("CREATE TABLE IF NOT EXISTS applied (uuid, sink, version)")
            yield table
