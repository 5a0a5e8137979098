"""Helpers that drive engine operators without a batch: they pass in maps, passes and chunks as a batch would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tidemill._native import Operator, Pass, StateMap, map_with_state
from tidemill.operators.contract import Input

END = 2**64 - 1


def data(batch_time_ms: int = 0, late_ms: int | None = None) -> Pass:
    """A data pass; the watermark of the last commit is what decides about lateness too."""
    return Pass("data", batch_time_ms, late_ms, late_ms)


def due(batch_time_ms: int = 0, watermark_ms: int | None = None) -> Pass:
    """The pass after a watermark moved."""
    return Pass("due", batch_time_ms, watermark_ms, watermark_ms)


def opened(operator: Operator) -> Operator:
    """The operator with empty maps over all hashes."""
    operator.open([StateMap.open(schema, [], 0, END) for schema in operator.map_schemas()])
    return operator


def batch(schema: pa.Schema, *rows: Sequence[Any]) -> pa.RecordBatch:
    """Rows as a batch."""
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in schema]
    return pa.record_batch([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def tuples(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """A batch as rows."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


INPUT = pa.schema([("key", pa.string()), ("value", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
TEXT = pa.schema([("text", pa.string())])


def function_operator(function: Callable[..., Any], **changes: Any) -> Operator:
    """`mapWithState` over (key, value, time) with a bigint state and one text a row, by default."""
    said: dict[str, Any] = {
        "key": ["key"],
        "input_schema": INPUT,
        "value": "value",
        "arguments": 4,
        "state_schema": pa.schema([("state", pa.int64())]),
        "state_unnamed": True,
        "state_type": None,
        "output_schema": TEXT,
        "output_unnamed": True,
        "timeout_ms": None,
        "clock": "batch",
        "event_time": None,
        "late": "drop",
        "time_zone": "UTC",
        "on_error": "fail",
    }
    assert changes.keys() <= said.keys()
    said |= changes
    looks = ("state_unnamed", "state_type", "output_schema", "output_unnamed", "on_error")
    given = Input(said["input_schema"], tuple(said["key"]), said["event_time"], said["late"], said["time_zone"])
    operator = SimpleNamespace(
        name="spend", input=given, state=said["state_schema"], **{name: said[name] for name in looks}
    )
    how = {name: said[name] for name in ("arguments", "value", "timeout_ms", "clock")}
    return opened(map_with_state(operator, function=function, **how))


def whole_split(operator: Operator, rows: pa.RecordBatch, at: Pass, block_rows: int = 1000) -> pa.RecordBatch:
    """Return all rows that the operator sends for a split, as one chunk."""
    starts = range(0, rows.num_rows or 1, block_rows)
    sent = [operator.prepare(rows.slice(start, block_rows), at).rows for start in starts]
    rest = operator.rest()
    parts = [part for part in (*sent, rest) if part is not None and part.num_rows]
    return pa.concat_batches(parts) if parts else sent[0]


def call(operator: Operator, *rows: Sequence[Any], at: Pass | None = None) -> list[tuple[Any, ...]]:
    """The outputs of one pass over (key, value, time) rows."""
    at = at or data()
    return tuples(operator.apply([whole_split(operator, batch(INPUT, *rows), at)], at))
