"""Where rows were first read from that were requeued and are in quarantine again.

Quarantine names the object with the requeued rows as their file, because a requeue of them needs that. People are shown
the file that the rows came from. INVARIANT: only what is shown changes, and only if the objects are still kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from .. import names
from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.records import Commit, VersionOf
from ..protocol.retained import is_kept, version_of
from ..quarantine.rejects import quarantined
from ..quarantine.rows import REJECT_SCHEMA
from ..repo.opened import Opened
from ..sources.contract import SourceFile
from ..sources.ledger import look_up_files
from ..sources.requeued import fetch_requeued

_Row = Mapping[str, Any]
_PLACE = ("source", "file", "line", "row")


def has_requeued(repo: Opened) -> bool:
    """Whether rows were ever requeued. Most repositories have none, and need not look further."""
    return any(True for _ in repo.store.list(names.REQUEUED_FOLDER))


def requeued_rows(repo: Opened, path: str, checksum: str) -> pa.Table | None:
    """Return an object with requeued rows, or None if it was deleted with the version that stored it.

    A `forget` may have replaced it since.
    """
    by = repo.log.rewrites.replacements.objects.get(path.removeprefix("/"))
    name, checksum = (path.removeprefix("/"), checksum) if by is None else (by.name, by.checksum)
    try:
        return fetch_requeued(repo.store, name, checksum)
    except CorruptState:
        refs, number = repo.refresh(), names.number_of_file(path)
        if number is not None and not is_kept(refs, VersionOf(names.requeued_branch(path), number)):
            return None
        raise


class FirstRead:
    """Finds where requeued rows were first read from. Objects and quarantine files are read once, when they are needed.

    `head` is the newest version. Its ledger knows the objects with requeued rows.
    """

    def __init__(self, repo: Opened, head: Commit | None) -> None:
        self.repo, self.head = repo, head
        self._objects: dict[tuple[str, str], list[_Row] | None] = {}
        self._quarantined: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def file(self, row: _Row) -> str | None:
        """Return the file that a row in quarantine was first read from, or None if that is not known."""
        path: str | None = row["file"]
        if path is None or not names.is_requeued(path):
            return path
        held = self._held(row)
        return None if held is None else held["file"]

    def shown(self, rows: pa.Table) -> pa.Table:
        """Return rows of quarantine with the file, the line and the row that they were first read from.

        Rows of which that is not known stay as they are.
        """
        paths = rows.column("file").to_pylist()
        if not any(path is not None and names.is_requeued(path) for path in paths):
            return rows
        places = [self._shown(row) for row in rows.select(_PLACE).to_pylist()]
        for name in _PLACE[1:]:
            number = rows.schema.get_field_index(name)
            cells = pa.array([place[name] for place in places], rows.schema.field(name).type)
            rows = rows.set_column(number, rows.schema.field(name), cells)
        return rows

    def _shown(self, row: _Row) -> _Row:
        try:
            first: _Row | None = row
            while first is not None and first["file"] is not None and names.is_requeued(first["file"]):
                row, first = {**row, "file": self.file(first) or row["file"], "row": None}, self._before(first)
            return row if first is None else first
        except (CorruptState, InvalidInput, StoreUnavailable):
            return row

    def _before(self, row: _Row) -> _Row | None:
        """Return the row of quarantine that was requeued. None: it is not known, or no longer kept."""
        held = self._held(row)
        if held is None:
            return None
        path = row["file"]
        at = version_of(self.repo.initialised(), names.requeued_branch(path), held["version"])
        rows = self._rows(at)
        return rows[held["id"]] if held["id"] < len(rows) else None

    def _held(self, row: _Row) -> _Row | None:
        """Return what an object with requeued rows says of a row: version, id and file."""
        key = (row["source"], row["file"])
        if row["row"] is None:
            return None
        if key not in self._objects:
            (known,) = look_up_files(self.repo.ledger(self.head).map, [SourceFile(*key, "", 0, 0)])
            self._objects[key] = None if known is None else self._places(row["file"], known.etag)
        held = self._objects[key]
        return None if held is None else held[row["row"] - 1]

    def _places(self, path: str, checksum: str) -> list[_Row] | None:
        table = requeued_rows(self.repo, path, checksum)
        return None if table is None else table.select(["version", "id", "file"]).to_pylist()

    def _rows(self, at: VersionOf) -> list[dict[str, Any]]:
        """Return the places of all rows that a version has quarantined."""
        key = (at.branch, at.version)
        if key not in self._quarantined:
            commit = self.repo.own_log(at.branch).commit(at.version)
            tables = [quarantined(self.repo.store, file).select(_PLACE) for file in commit.quarantine]
            empty = pa.schema([REJECT_SCHEMA.field(name) for name in _PLACE]).empty_table()
            self._quarantined[key] = pa.concat_tables([empty, *tables]).to_pylist()
        return self._quarantined[key]
