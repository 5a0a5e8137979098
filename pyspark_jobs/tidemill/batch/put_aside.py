"""Rows that an operator took and did not apply, because the user's function failed for their key, for quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ..protocol.records import Split
from ..schema import shown_cells
from ..sources.contract import REJECT_SCHEMA


def failed_rejects(rows: pa.RecordBatch, reasons: Sequence[str], split: Split | None) -> pa.RecordBatch:
    """What the function was given, and why it failed; `split` None: rows of an operator before, which have no file."""
    records = [
        {
            "source": None if split is None else split.source,
            "file": None if split is None else split.path,
            "reason": reason,
            "text": text,
        }
        for text, reason in zip(texts(rows), reasons, strict=True)
    ]
    return pa.RecordBatch.from_pylist(records, schema=REJECT_SCHEMA)


def texts(rows: pa.RecordBatch) -> list[str]:
    """Each row as JSON. What Python has no object for (a year beyond 9999) is in Arrow's words, or said to be that."""
    columns = [shown_cells(column) for column in rows.columns]
    return [
        json.dumps(dict(zip(rows.schema.names, cells, strict=True)), default=str, ensure_ascii=False)
        for cells in (zip(*columns, strict=True) if columns else [()] * rows.num_rows)
    ]
