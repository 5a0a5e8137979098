"""Quarantine files without rows that may hold some keys. Rows that could not be read are text.

INVARIANT: a row that could not be read goes if its text contains every part of a key. Rows of others may go with it,
but none of the key stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from .. import names
from ..protocol.records import Commit, QuarantineFile, digest
from ..quarantine.rows import CONTENT
from ..repo.opened import Opened
from ..schema.kernels import pq
from ..state.versions import fetch
from .keys import Keys
from .state import ForgetTarget


def quarantine_without_keys(
    repo: Opened, commits: Iterator[Commit], keys: Sequence[Keys], to: ForgetTarget
) -> tuple[list[QuarantineFile], dict[str, int]]:
    """Store the quarantine files of commits again, without rows that may hold a key. A dry run only looks.

    Returns the files that a commit must name, and by file how many rows went.
    """
    stored: list[QuarantineFile] = []
    removed: dict[str, int] = {}
    for commit in commits:
        for file in commit.quarantine:
            table = _rows_of(repo, file)
            left = table
            if file.name not in to.clean:
                left = table.filter(pa.array([not _holds(row, keys) for row in table.to_pylist()], pa.bool_()))
            if left.num_rows < table.num_rows:
                removed[file.name] = table.num_rows - left.num_rows
            else:
                to.clean.add(file.name)
            if left.num_rows and not to.dry_run:
                stored.append(_store(repo, left, to, len(stored)))
    return stored, removed


def _rows_of(repo: Opened, file: QuarantineFile) -> pa.Table:
    """Return the rows of a quarantine file with all its columns."""
    data = fetch(repo.store, file.name, file.checksum)
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def _holds(row: dict[str, Any], keys: Sequence[Keys]) -> bool:
    """Whether a row of quarantine may hold one of the keys."""
    return any(one.is_in_row(text, is_unreadable) for text, is_unreadable in texts_of(row) for one in keys)


def texts_of(row: dict[str, Any]) -> Iterator[tuple[str | None, bool]]:
    """Yield what a row of quarantine has of the rejected row, and whether that could not be read.

    `text` has the columns that the operator was given, `content` those of the source.
    """
    yield row["text"], row["line"] is not None
    for name, content in row.items():
        if name.startswith(CONTENT) and content is not None:
            yield json.dumps(content, default=str, ensure_ascii=False), False


def _store(repo: Opened, rows: pa.Table, to: ForgetTarget, index: int) -> QuarantineFile:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.combine_chunks(), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    name = to.name(names.quarantine_file(repo.branch, to.stem(index)))
    repo.store.put(name, data)
    return QuarantineFile(name, digest(data), len(data), rows.num_rows)
