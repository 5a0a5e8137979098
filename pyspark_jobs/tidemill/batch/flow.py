"""Runs the stateless actions below a node on one batch of rows, and hands what comes out to a receiver.

The same for rows of a source and for outputs of an operator. Hidden columns (`_row`, `_metadata`) travel along until
a receiver takes the columns it declared.
"""

from __future__ import annotations

import traceback
from typing import Protocol

import pyarrow as pa

from ..errors import InvalidInput, TidemillError
from ..operators.contract import BoundOperator
from ..pipeline.job import Job, Output, Placed
from ..sources.contract import HIDDEN, Step


class Receiver(Protocol):
    """Where rows arrive."""

    def to_operator(self, placed: Placed, rows: pa.RecordBatch) -> None:
        """Rows that a keyed operator takes."""

    def to_output(self, output: Output, rows: pa.RecordBatch) -> None:
        """Rows that a sink takes."""

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> None:
        """Rows that pass a watermark."""


def run(job: Job, node: int, rows: pa.RecordBatch, receiver: Receiver, origin: str) -> None:
    """Everything that happens to the rows of `node`; `origin` says in errors where they come from."""
    for output in job.outputs_of(node):
        receiver.to_output(output, rows)
    for action in job.children(node):
        if action.operator is not None:
            receiver.to_operator(job.operators[action.operator], rows)
        elif action.watermark is not None:
            if action.watermark in job.watermarks:
                receiver.at_watermark(action.watermark, job.watermarks[action.watermark].column, rows)
            run(job, action.number, rows, receiver, origin)
        elif action.step is not None:
            run(job, action.number, _made(action.step, rows, job.time_zone, origin), receiver, origin)
        else:
            run(job, action.number, _united(rows, action.schema), receiver, origin)


def declared(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the declared columns only, in their order."""
    return rows if rows.schema.names == schema.names else rows.select(schema.names)


def looked_at(rows: pa.RecordBatch, operator: BoundOperator) -> pa.RecordBatch:
    """The rows with the columns that an operator looks at only: it may keep them, and what is not in them can go."""
    reads = operator.reads
    if reads is None:
        return declared(rows, operator.input.schema)
    return rows.select([name for name in rows.schema.names if name in reads])


def key_of(prepared: pa.RecordBatch, operator: BoundOperator) -> list[str]:
    """The key columns of rows that the operator has prepared: the first ones."""
    names: list[str] = prepared.schema.names
    return names[: len(operator.maps[0].key)]


def _united(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows in the columns of a union, null where they lack one, and what is hidden."""
    hidden = [rows.schema.field(name) for name in HIDDEN if name in rows.schema.names]
    fields = [*schema, *hidden]
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _made(step: Step, rows: pa.RecordBatch, time_zone: str, origin: str) -> pa.RecordBatch:
    try:
        return step.apply(rows, time_zone)
    except TidemillError as error:
        raise type(error)(f"{error.message.rstrip()} (rows of {origin})", hint=error.hint) from error
    except Exception as error:  # what a user's function raises
        raise InvalidInput(
            f"a function given to map_batches raised `{type(error).__name__}: {error}` on rows of {origin}\n"
            + traceback.format_exc()
        ) from error
