"""Rows that an operator took and did not apply, because the user's function failed for their key, for quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ..protocol.records import Split
from ..sources.contract import REJECT_SCHEMA


def failed_rejects(rows: pa.RecordBatch, reasons: Sequence[str], split: Split | None) -> pa.RecordBatch:
    """What the function was given, and why it failed; `split` None: rows of an operator before, which have no file."""
    records = [
        {
            "source": None if split is None else split.source,
            "file": None if split is None else split.path,
            "reason": reason,
            "text": json.dumps(row, default=str, ensure_ascii=False),
        }
        for row, reason in zip(rows.to_pylist(), reasons, strict=True)
    ]
    return pa.RecordBatch.from_pylist(records, schema=REJECT_SCHEMA)
