"""Rows for quarantine: late rows, rows too far ahead, and rows of keys whose calls of your function failed.

Rows that a source cannot read come from `quarantine/rejects` in the same columns. INVARIANT: a row that was read from a
source is kept as it was read, in the column `content.<source>`, unless a step lost its number. An emitted row on which
a function failed is kept as the operator of the function got it. So both can come back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..pipeline.job import Job, Port
from ..protocol.records import Split
from ..quarantine.rows import AHEAD, AS_GIVEN, CONTENT, FAILED, LATE, REJECT_SCHEMA
from ..schema import records_batch, shown_cells
from ..schema.kernels import pc
from ..sources.contract import HIDDEN, ROW
from ..units import duration_text, iso
from ..values import dataclass
from .batch import Batch

LATE_REASON = "late for operator"
"""How the reason of a late row begins."""


@dataclass(frozen=True)
class Provenance:
    """Where rows for quarantine come from. Rows of an upstream operator may have no split.

    `read` are the rows of the split's block, as the source gave them. `numbers` are those of the rows in their file, if
    the rows themselves have none: operators emitted them for these.
    """

    split: Split | None = None
    read: pa.RecordBatch | None = None
    numbers: tuple[int | None, ...] | None = None


def failed_rejects(
    rows: pa.RecordBatch, reasons: Sequence[str], numbers: Sequence[int | None] | None, label: str, split: Split | None
) -> pa.RecordBatch:
    """Return the rows that a function failed on, with the reason of each, still without content.

    `numbers` are those of the rows in their file, if they are known. `label` is that of the operator's input.
    """
    rejects = [
        {"reason": reason, "text": text, "kind": FAILED, "operator": label}
        for text, reason in zip(_texts(rows), reasons, strict=True)
    ]
    return _batch(rejects, [None] * rows.num_rows if numbers is None else numbers, split)


def with_given(rejects: pa.RecordBatch, label: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rejects with their rows as an input of an operator was given them, so that they can be given back."""
    fields = [field.with_nullable(True) for field in rows.schema]
    content = pa.StructArray.from_arrays(rows.columns, fields=fields)
    return rejects.append_column(pa.field(AS_GIVEN + label, content.type), content)


def late_rejects(
    batch: Batch, port: Port, late: pa.RecordBatch, provenance: Provenance, labels: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Return late rows in the columns that the operator was given. The reason names the input and the watermark.

    `labels` name, for each row, all inputs of operators that it is late for.
    """
    columns = [name for name in late.schema.names if name in port.input.schema.names]
    time = port.input.event_time
    missing = [False] * late.num_rows if time is None else late.column(time).is_null().to_pylist()
    name = min(port.watermarks, key=lambda one: batch.watermarks.get(one, 0), default="")
    watermark = f"`{name}`, {iso(batch.watermarks.get(name, 0))}"
    reasons = [
        f"{LATE_REASON} `{port.label}`: without an event time, in no window"
        if is_missing
        else f"{LATE_REASON} `{port.label}`: at or before the watermark {watermark}"
        for is_missing in missing
    ]
    given = [port.label] * late.num_rows if labels is None else labels
    rejects = [
        {"column": time, "reason": reason, "text": text, "kind": LATE, "operator": operator}
        for text, reason, operator in zip(_texts(late.select(columns)), reasons, given, strict=True)
    ]
    return _with_content(batch.job, _batch(rejects, row_numbers(late, provenance), provenance.split), provenance.read)


def ahead_rejects(
    batch: Batch, watermark: str, column: str, ahead: pa.RecordBatch, provenance: Provenance
) -> pa.RecordBatch:
    """Return rows whose event time is too far after the batch time, for quarantine."""
    rule, columns = batch.job.watermarks[watermark], [name for name in ahead.schema.names if name not in HIDDEN]
    reason = (
        f"ahead: more than {duration_text(rule.max_ahead_ms or 0)} (maxAhead) after the batch time "
        f"{iso(batch.plan.batch_time_ms)}, "
        f"so the row does not move the watermark `{watermark}`"
    )
    labels = ",".join(labels_of(batch.job, watermark))
    known = {"column": column, "reason": reason, "kind": AHEAD, "operator": labels or None, "watermark": watermark}
    rejects = [known | {"text": text} for text in _texts(ahead.select(columns))]
    return _with_content(batch.job, _batch(rejects, row_numbers(ahead, provenance), provenance.split), provenance.read)


def labels_of(job: Job, watermark: str) -> list[str]:
    """Return the labels of the inputs of operators whose rows have a watermark."""
    ports = (port for placed in job.operators.values() for port in placed.ports)
    return [port.label for port in ports if watermark in port.watermarks]


def with_rows(job: Job, rejects: pa.RecordBatch, read: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rejects of one split with their whole rows, which are among `read`."""
    return _with_content(job, rejects, pa.Table.from_batches(read).combine_chunks().to_batches()[0] if read else None)


def _with_content(job: Job, rejects: pa.RecordBatch, read: pa.RecordBatch | None) -> pa.RecordBatch:
    """Add the whole rows, found by their numbers among those that were read; null if the number is not known."""
    if read is None or not rejects.num_rows:
        return rejects
    source = rejects.column("source")[0].as_py()
    schema = job.sources[source].schema
    if any(name not in read.schema.names for name in schema.names):
        return rejects  # only the columns that the pipeline uses were read
    places = pc.index_in(pc.subtract(rejects.column("row"), 1), value_set=read.column(ROW))
    fields = [field.with_nullable(True) for field in schema]
    columns = [read.column(field.name).take(places) for field in fields]
    content = pa.StructArray.from_arrays(columns, fields=fields, mask=places.is_null())
    return rejects.append_column(pa.field(CONTENT + source, content.type), content)


def row_numbers(rows: pa.RecordBatch, provenance: Provenance) -> list[int | None]:
    """Return the numbers in their file of rows with one provenance, from 0 on; None if they are not known."""
    if provenance.numbers is not None:
        return list(provenance.numbers)
    has_numbers = provenance.split is not None and ROW in rows.schema.names
    return rows.column(ROW).to_pylist() if has_numbers else [None] * rows.num_rows


def _batch(rejects: Sequence[dict[str, Any]], numbers: Sequence[int | None], split: Split | None) -> pa.RecordBatch:
    place = {} if split is None else {"source": split.source, "file": split.path}
    rows = ({"row": None if number is None else number + 1} for number in numbers)
    return records_batch([place | row | reject for row, reject in zip(rows, rejects, strict=True)], REJECT_SCHEMA)


def _texts(rows: pa.RecordBatch) -> list[str]:
    """Return each row as JSON. Values that Python has no object for, such as the year 10000, appear as Arrow's text."""
    columns = [shown_cells(column) for column in rows.columns]
    return [
        json.dumps(dict(zip(rows.schema.names, cells, strict=True)), default=str, ensure_ascii=False)
        for cells in (zip(*columns, strict=True) if columns else [()] * rows.num_rows)
    ]
