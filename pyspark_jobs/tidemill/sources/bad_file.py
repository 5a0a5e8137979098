"""A file that is not of its format: the error for it, or the block that quarantines it as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InvalidInput
from ..protocol.records import Split
from ..quarantine.rejects import Reject, reject_error, rejects_table
from ..quarantine.rows import ABANDON_PLAN, FILE
from ..schema import empty_table, one_batch
from .contract import Block
from .file_columns import FileColumns
from .unreadable import Unreadable

_KEPT_BYTES = 128 * 1024**2
"""With `badFiles="quarantine"`, up to so many bytes of rows are kept until all are decoded. A larger file is read
twice."""


def refused(error: Unreadable, split: Split) -> InvalidInput:
    """Return the error for a file that is not of its format."""
    way_out = (
        f'correct the file and {ABANDON_PLAN}; or leave the file out with `tidemill skip`; or use badFiles="quarantine"'
    )
    hint = way_out if error.hint is None else f"{error.hint}; otherwise {way_out}"
    return reject_error(Reject(error.line, None, error.reason, None, hint), split.source, split.path)


def damaged_meanwhile(error: Unreadable, split: Split) -> InvalidInput:
    """Return the error for a file that was found to be good, and is not when its rows are read.

    INVARIANT: after the first row, damage fails the batch. A reject would lose rows that were applied.
    """
    return InvalidInput(
        f"read file `{split.path}` of source `{split.source}`: the file was valid when it was checked, but is damaged "
        f"now: {error.reason}",
        hint="run again; if it fails again, look for a process that writes this file, and check the disk",
    )


def bad_file(error: Unreadable, split: Split, columns: FileColumns, rows: int | None) -> Block:
    """Return the block of a file with so many rows that goes to quarantine as a whole: one reject, without a line."""
    where = "" if error.line is None else f"line {error.line}: "
    reject = Reject(None, None, f"{where}{error.reason}; {_lost(rows)}", None, kind=FILE)
    rejects = rejects_table([reject], split.source, split.path)
    return Block(0, one_batch(empty_table(columns.schema), "a bad file"), rejects, lost_rows=rows or 0)


def _lost(rows: int | None) -> str:
    """Say how many rows are not read with a file."""
    if rows is None:
        return "its rows are not read and cannot be counted"
    return {0: "it has no rows", 1: "its only row is not read"}.get(rows, f"none of its {rows:,} rows is read")


def decoded_fully(blocks: Iterator[Block]) -> list[Block] | None:
    """Read all blocks and return them, or None if they are larger than `_KEPT_BYTES`."""
    kept: list[Block] = []
    size = 0
    for block in blocks:
        size += block.rows.nbytes
        kept.append(block)
        if size > _KEPT_BYTES:
            kept.clear()
    return kept if size <= _KEPT_BYTES else None
