"""Measure one call of a Python function for each record: by the engine (`mapWithState`), and by a loop over a dict."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill._native import Operator, Pass, StateMap, map_with_state
from tidemill.operators.contract import Input

INPUT = pa.schema([("key", pa.int64()), ("value", pa.int64())])
KEYS = 100_000


def total(batch_time: int, key: int, value: int, state: Any) -> None:
    """Keep a running total."""
    state.update((state.getOption or 0.0) + value)


def operator() -> Operator:
    """Return `mapWithState` with `total`, over an empty map."""
    declared = SimpleNamespace(
        name="total", input=Input(INPUT, ("key",), None, "drop", "UTC"), state=pa.schema([("state", pa.float64())]),
        state_unnamed=True, state_type=None, output_schema=pa.schema([("total", pa.float64())]), output_unnamed=True,
        on_error="fail",
    )  # fmt: skip
    made = map_with_state(declared, function=total, arguments=4, value="value", timeout_ms=None, clock="batch")
    made.open([StateMap.open(schema, [], 0, 2**64 - 1) for schema in made.map_schemas()])
    return made


def records(rows: int, seed: int) -> pa.RecordBatch:
    """Return seeded records of both columns."""
    chance = np.random.default_rng(seed)
    columns = [pa.array(chance.integers(0, KEYS, rows)), pa.array(chance.integers(0, 100, rows))]
    return pa.record_batch(columns, schema=INPUT)


def ours(rows: int, seed: int) -> tuple[float, dict[int, float]]:
    """Return the seconds of a batch of `rows` records, after an equal batch, and the totals."""
    made = operator()
    at = Pass("data", 0, None, None)
    made.apply([made.prepare(records(rows, 0), at).rows], at)
    batch = records(rows, seed)
    started = time.thread_time()
    made.apply([made.prepare(batch, at).rows], at)
    seconds = time.thread_time() - started
    (state,) = made.finish()
    found = state.scan()
    return seconds, dict(zip(found["key"].to_pylist(), found["state"].to_pylist(), strict=True))


def loop(rows: int, seed: int) -> tuple[float, dict[int, float]]:
    """Return the same from a loop over a dict."""
    totals: dict[int, float] = {}
    for batch in (records(rows, 0), records(rows, seed)):
        columns = [column.to_pylist() for column in batch.columns]
        started = time.thread_time()
        for key, value in zip(*columns, strict=True):
            totals[key] = (totals.get(key) or 0.0) + value
        seconds = time.thread_time() - started
    return seconds, totals
