"""Measure opening a version with one large segment and the first get: cold, and from the cache on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidemill._native import MapSchema, Run, StateMap
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache

ALL = (0, 2**64 - 1)
CHECKSUM = "0" * 32
SCHEMA = MapSchema(
    "totals", pa.schema([("key", pa.int64())]), pa.schema([]), pa.schema([("count", pa.int64()), ("sum", pa.float64())])
)


def segment(keys: int) -> bytes:
    """Return the segment of `keys` keys with (count, sum)."""
    states = StateMap.open(SCHEMA, [], *ALL)
    values = [pa.array(np.ones(keys, np.int64)), pa.array(np.arange(keys) % 100 / 1.0)]
    states.put_many(_keys(np.arange(keys)), pa.record_batch(values, names=["count", "sum"]), 1)
    return states.base().write()


def measured(keys: int, runs: int, folder: Path) -> tuple[list[float], list[float]]:
    """Return CPU seconds of this thread: opened cold, and from the cache on disk, each with a get of one key.

    The file of the cache was read before, so it is in the machine's memory, but no process has it mapped.
    """
    data = segment(keys)
    disk_cache.LEAST_CACHED_BYTES = 0
    DiskCache(str(folder), 1 << 40).put(CHECKSUM, Run.read(SCHEMA, data, "base"))
    cold = [_opened(lambda: Run.read(SCHEMA, data, "base"), keys, number) for number in range(runs + 1)]
    warm = [
        _opened(lambda: DiskCache(str(folder), 1 << 40).get(CHECKSUM, SCHEMA), keys, number)
        for number in range(runs + 1)
    ]
    return cold[1:], warm[1:]


def _opened(find: Callable[[], Run | None], keys: int, number: int) -> float:
    wanted = _keys(np.random.default_rng(number).integers(0, keys, 1))
    started = time.thread_time()
    run = find()
    assert run is not None, "the cache on disk does not have the segment"
    found, _ = StateMap.open(SCHEMA, [run], *ALL).get_many(wanted)
    seconds = time.thread_time() - started
    assert found.true_count == len(wanted), "a key is missing"
    return seconds


def _keys(numbers: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers.astype(np.int64))], names=["key"])
