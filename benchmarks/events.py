"""Shared by all benchmarks: seeded events in Parquet files, a line about the machine, and lines of figures."""

from __future__ import annotations

import os
import platform
import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 100_000
SCHEMA = "key string, ts timestamp, value double"
KEYED = """
def add(batchTime, k, row, state):
    state.update((state.getOption or 0.0) + row.v)

def keyed(rows, kind):
    if kind == "agg":
        rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="s")
    else:
        rows.groupBy("k").mapWithState(
            tm.StateSpec.function(add), name="s", stateSchema="double", outputSchema="k bigint"
        )
"""
"""A part of programs that run as a process of their own: the operator `s` on rows of `k bigint, v double`."""
BATCH_SECONDS = 60
"""The event times of batch n are in minute n."""


def write_batch(folder: Path, number: int, rows: int, keys: int = KEYS, distinct: bool = False) -> None:
    """Write one Parquet file of keyed events, seeded by its number.

    If `distinct` is true, each row has a key of its own. If there are fewer `keys` than rows, keys are drawn from ten
    times as many as there are rows.
    """
    chance = np.random.default_rng(number)
    drawn = (
        chance.choice(keys if rows <= keys else 10 * rows, rows, replace=False)
        if distinct
        else chance.integers(0, keys, rows)
    )
    users = np.char.add("user-", drawn.astype(str))
    span = BATCH_SECONDS * 1_000_000
    times = 1_700_000_000_000_000 + number * span + chance.integers(0, span, rows)
    table = pa.table(
        {
            "key": pa.array(users.tolist()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "value": chance.integers(0, 1000, rows).astype("f8"),
        }
    )
    hidden = folder / f"_{number:05d}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:05d}.parquet")


def write_each_key(folder: Path, number: int, keys: int) -> None:
    """Write one Parquet file in which each key of `write_batch` occurs once."""
    names = pa.array([f"user-{key}" for key in range(keys)])
    times = pa.array(
        np.full(keys, 1_700_000_000_000_000 + number * BATCH_SECONDS * 1_000_000), pa.timestamp("us", "UTC")
    )
    hidden = folder / f"_{number:05d}.parquet"
    pq.write_table(pa.table({"key": names, "ts": times, "value": np.zeros(keys)}), hidden)
    hidden.rename(folder / f"{number:05d}.parquet")


def machine() -> str:
    """Return a line about the machine of the figures."""
    return f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def show(what: str, seconds: list[float], rows: int = 0) -> None:
    """Print one line: median, least and greatest, and rows a second if `rows` is not 0."""
    middle = statistics.median(seconds)
    rate = f"{rows / middle:>12,.0f} rows/s" if rows else ""
    print(
        f"{what:<52}{middle * 1000:>9.1f} ms  ({min(seconds) * 1000:.1f}–{max(seconds) * 1000:.1f}){rate}", flush=True
    )
