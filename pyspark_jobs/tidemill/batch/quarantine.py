"""Rows for quarantine: late rows, and rows of keys whose calls of your function failed.

Rows that a source cannot read come from `sources/rejects` in the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ..pipeline.job import Placed
from ..protocol.records import Split
from ..schema import records_batch, shown_cells
from ..sources.contract import REJECT_SCHEMA, ROW


def failed_rejects(rows: pa.RecordBatch, reasons: Sequence[str], split: Split | None) -> pa.RecordBatch:
    """Return the rows that a function failed on, with the reason of each.

    `split` is None for rows of an upstream operator, which have no file.
    """
    records = [
        _place(split) | {"reason": reason, "text": text} for text, reason in zip(_texts(rows), reasons, strict=True)
    ]
    return records_batch(records, REJECT_SCHEMA)


def late_rejects(placed: Placed, late: pa.RecordBatch, split: Split | None) -> pa.RecordBatch:
    """Return late rows in the columns that the operator was given, with the operator's name in the reason.

    `split` is None for rows of an upstream operator, which have no file.
    """
    columns = [name for name in late.schema.names if name in placed.operator.input.schema.names]
    lines = late.column(ROW).to_pylist() if ROW in late.schema.names else [None] * late.num_rows
    time = placed.operator.input.event_time
    missing = [False] * late.num_rows if time is None else late.column(time).is_null().to_pylist()
    reasons = [
        f"operator `{placed.operator.name}`: without an event time, in no window"
        if is_missing
        else f"late for operator `{placed.operator.name}`: at or before the watermark"
        for is_missing in missing
    ]
    records = [
        _place(split) | {"line": None if line is None else line + 1, "column": time, "reason": reason, "text": text}
        for line, text, reason in zip(lines, _texts(late.select(columns)), reasons, strict=True)
    ]
    return records_batch(records, REJECT_SCHEMA)


def _place(split: Split | None) -> dict[str, str | int | None]:
    return {"source": None, "file": None} if split is None else {"source": split.source, "file": split.path}


def _texts(rows: pa.RecordBatch) -> list[str]:
    """Return each row as JSON. Values that Python has no object for, such as the year 10000, appear as Arrow's text."""
    columns = [shown_cells(column) for column in rows.columns]
    return [
        json.dumps(dict(zip(rows.schema.names, cells, strict=True)), default=str, ensure_ascii=False)
        for cells in (zip(*columns, strict=True) if columns else [()] * rows.num_rows)
    ]
