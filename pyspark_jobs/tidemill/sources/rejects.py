"""Rejects: rows that could not be read, with place and reason. They become rows for quarantine, or one error.

INVARIANT: with FAILFAST, the error is the file's first reject by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import records_batch
from .contract import ABANDON_PLAN, REJECT_SCHEMA

FAILFAST = "FAILFAST"
PERMISSIVE = "PERMISSIVE"
_SHOWN = 500


@dataclass(frozen=True)
class Reject:
    """One unreadable record, or a whole unreadable file if `line` is None. `hint` is advice for this reject alone."""

    line: int | None
    column: str | None
    reason: str
    text: str | None
    hint: str | None = None


def rejects_table(rejects: Sequence[Reject], source: str, file: str) -> pa.Table:
    """Return rejects as rows of `REJECT_SCHEMA`."""
    records = [
        {"source": source, "file": file, "line": one.line, "column": one.column, "reason": one.reason, "text": one.text}
        for one in rejects
    ]
    return pa.Table.from_batches([records_batch(records, REJECT_SCHEMA)])


def reject_error(reject: Reject, source: str, file: str) -> InvalidInput:
    """Return the error for a reject: file, line, column and reason, then the text."""
    where = f"file `{file}` of source `{source}`"
    where += f", line {reject.line}" if reject.line is not None else ""
    where += f", column `{reject.column}`" if reject.column is not None else ""
    text = reject.text
    if text is not None and len(text) > _SHOWN:
        text = text[:_SHOWN] + "…"
    return InvalidInput(
        f"read {where}: {reject.reason}" + (f"\ntext: {text}" if text is not None else ""),
        hint=reject.hint
        or f"correct the file and {ABANDON_PLAN}; or leave the file out with `tidemill skip`; or use "
        f'mode="{PERMISSIVE}", which quarantines unreadable rows',
    )
