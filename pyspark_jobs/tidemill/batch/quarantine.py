"""Rows for quarantine: late rows, and rows of keys whose calls of your function failed.

Rows that a source cannot read come from `sources/rejects` in the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from ..pipeline.job import Placed
from ..protocol.progress import iso
from ..protocol.records import Split
from ..schema import records_batch, shown_cells
from ..sources.contract import HIDDEN, REJECT_SCHEMA, ROW
from .batch import Batch

LATE = "late for operator"
"""How the reason of a late row begins."""


def failed_rejects(rows: pa.RecordBatch, reasons: Sequence[str], split: Split | None) -> pa.RecordBatch:
    """Return the rows that a function failed on, with the reason of each.

    `split` is None for rows of an upstream operator, which have no file.
    """
    records = [
        _place(split) | {"reason": reason, "text": text} for text, reason in zip(_texts(rows), reasons, strict=True)
    ]
    return records_batch(records, REJECT_SCHEMA)


def late_rejects(batch: Batch, placed: Placed, late: pa.RecordBatch, split: Split | None) -> pa.RecordBatch:
    """Return late rows in the columns that the operator was given. The reason names the operator and the watermark.

    `split` is None for rows of an upstream operator, which have no file.
    """
    columns = [name for name in late.schema.names if name in placed.operator.input.schema.names]
    time = placed.operator.input.event_time
    missing = [False] * late.num_rows if time is None else late.column(time).is_null().to_pylist()
    name = min(placed.watermarks, key=lambda one: batch.watermarks.get(one, 0), default="")
    watermark = f"`{name}`, {iso(batch.watermarks.get(name, 0))}"
    reasons = [
        f"{LATE} `{placed.operator.name}`: without an event time, in no window"
        if is_missing
        else f"{LATE} `{placed.operator.name}`: at or before the watermark {watermark}"
        for is_missing in missing
    ]
    return _rejects(late, columns, time, reasons, split)


def ahead_rejects(
    batch: Batch, watermark: str, column: str, ahead: pa.RecordBatch, split: Split | None
) -> pa.RecordBatch:
    """Return rows whose event time is too far after the batch time, for quarantine."""
    rule, columns = batch.job.watermarks[watermark], [name for name in ahead.schema.names if name not in HIDDEN]
    reason = (
        f"ahead: more than {timedelta(milliseconds=rule.max_ahead_ms or 0)} (maxAhead) after the batch time "
        f"{iso(batch.plan.batch_time_ms)}, "
        f"so the row does not move the watermark `{watermark}`"
    )
    return _rejects(ahead, columns, column, [reason] * ahead.num_rows, split)


def _rejects(
    rows: pa.RecordBatch, columns: Sequence[str], column: str | None, reasons: Sequence[str], split: Split | None
) -> pa.RecordBatch:
    has_lines = split is not None and ROW in rows.schema.names
    numbers = rows.column(ROW).to_pylist() if has_lines else [None] * rows.num_rows
    records = [
        _place(split) | {"row": None if row is None else row + 1, "column": column, "reason": reason, "text": text}
        for row, text, reason in zip(numbers, _texts(rows.select(columns)), reasons, strict=True)
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
