"""The interpreter of a compiled pipeline: runs the stateless steps below a node and hands the rows to a receiver.

Rows of a source and outputs of an operator take the same way, in a batch and in `p.preview`. Hidden columns (`_row`,
`_metadata`) stay with the rows until a receiver selects the columns that it declared.
"""

from __future__ import annotations

import traceback
from typing import Protocol

import pyarrow as pa

from ..errors import InvalidInput, TidemillError
from ..operators.contract import BoundOperator
from ..sources.contract import HIDDEN, StatelessStep
from .job import Job, JobSink, Port


class Receiver(Protocol):
    """Receives rows at the ends of the stateless steps."""

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Receive rows for an input of a keyed operator."""

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Receive rows for a sink."""

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Receive rows that reach a watermark, and return those that go on to the next step."""


def run_steps(job: Job, node: int, rows: pa.RecordBatch, receiver: Receiver, origin: str) -> None:
    """Run everything below `node` on its rows. Errors name `origin` as the place that the rows come from."""
    for output in job.outputs_of(node):
        receiver.to_output(output, rows)
    for child in job.children(node):
        below = child.node
        if below.operator is not None:
            receiver.to_operator(job.operators[below.operator].ports[child.place], rows)
        elif below.watermark is not None:
            passed = rows
            if below.watermark in job.watermarks:
                passed = receiver.at_watermark(below.watermark, job.watermarks[below.watermark].column, rows)
            run_steps(job, below.number, passed, receiver, origin)
        elif below.step is not None:
            run_steps(job, below.number, _apply_step(below.step, rows, job.time_zone, origin), receiver, origin)
        else:
            run_steps(job, below.number, _united(rows, below.schema), receiver, origin)


def declared(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the columns of `schema` only, in its order."""
    return rows if rows.schema.names == schema.names else rows.select(schema.names)


def read_columns(rows: pa.RecordBatch, port: Port) -> pa.RecordBatch:
    """Return the rows with the columns that the operator reads only, so that the others can be freed."""
    reads = port.operator.reads(port.number)
    if reads is None:
        return declared(rows, port.input.schema)
    return rows.select([name for name in rows.schema.names if name in reads])


def key_of(prepared: pa.RecordBatch, operator: BoundOperator) -> list[str]:
    """Return the names of the key columns of rows that the operator has prepared. They come first."""
    names: list[str] = prepared.schema.names
    return names[: len(operator.maps[0].key)]


def _united(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in the columns of a union, with nulls for columns they lack, and the hidden columns."""
    hidden = [rows.schema.field(name) for name in HIDDEN if name in rows.schema.names]
    fields = [*schema, *hidden]
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _apply_step(step: StatelessStep, rows: pa.RecordBatch, time_zone: str, origin: str) -> pa.RecordBatch:
    try:
        return step.apply(rows, time_zone)
    except TidemillError as error:
        raise type(error)(f"{error.message.rstrip()} (rows of {origin})", hint=error.hint) from error
    except Exception as error:  # the user's function raised
        raise InvalidInput(
            f"a function given to map_batches raised `{type(error).__name__}: {error}` on rows of {origin}\n"
            + traceback.format_exc()
        ) from error
