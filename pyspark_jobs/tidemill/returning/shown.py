"""Quarantined rows as people see them: the columns of a reject, the version, and the version that gave the row back.

INVARIANT: rows of which it cannot be known whether they came back are shown as rows that did not.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import InvalidInput
from ..protocol.records import Commit
from ..reading.first_read import has_requeued
from ..reading.read import quarantine
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, commit_at
from ..schema import int64_array
from ..schema.kernels import pc
from .export import ROW_ID, check_source, export
from .requeued_before import came_back, quarantined_by

_REQUEUED = "requeued"
"""The column with the version that gave a row back, or null."""


def quarantine_to_show(
    repo: Opened, version: VersionSpec | None, limit: int | None, source: str | None, whole: bool
) -> pa.Table:
    """Return quarantined rows to look at, or with `whole` in the columns of an export."""
    if whole:
        return export(repo, version, source).slice(0, limit)
    check_source(repo, source)
    rows = _with_requeued(repo, version, quarantine(repo, version, limit if source is None else None))
    return rows if source is None else rows.filter(pc.equal(rows.column("source"), source)).slice(0, limit)


def _with_requeued(repo: Opened, version: VersionSpec | None, rows: pa.Table) -> pa.Table:
    """Return rows with the version that gave each back. They are the first rows of each of their versions."""
    of = commit_at(repo, version)[0] if version is not None else repo
    found: list[int | None] = [None] * rows.num_rows
    if rows.num_rows and has_requeued(repo):
        numbers = rows.column("version").to_pylist()
        for number in dict.fromkeys(numbers):
            at = [place for place, one in enumerate(numbers) if one == number]
            plain = [row | {ROW_ID: place} for place, row in enumerate(rows.take(int64_array(at)).to_pylist())]
            for place, by in _came_back(of, of.log.commit(number), plain).items():
                if place < len(at):
                    found[at[place]] = by
    return rows.append_column(_REQUEUED, int64_array(found))


def _came_back(repo: Opened, commit: Commit, rows: list[dict[str, Any]]) -> dict[int, int]:
    if commit.replays is not None:
        return {}  # rows that the repeated version has requeued cannot be distinguished from others of their files
    try:
        return came_back(repo, repo.head(), commit, quarantined_by(repo, commit), rows)
    except InvalidInput:  # what was requeued is no longer kept
        return {}
