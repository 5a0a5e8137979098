"""Helpers for tests of the disk cache: runs, a cache that stores small runs too, and the files in its folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidemill._native import MapSchema, Run, StateMap
from tidemill.state import disk_cache
from tidemill.state.disk_cache import DiskCache

NOTHING = pa.schema([])
SCHEMA = MapSchema("m", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("v", pa.string())]))
KEY = "0123456789abcdef0123456789abcdef"
OTHER = KEY[::-1]


def run_of(rows: int = 1000, schema: MapSchema = SCHEMA) -> Run:
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    keys = pa.record_batch([pa.array(range(rows), pa.int64())], names=["k"])
    states.put_many(keys, pa.record_batch([pa.array(map(str, range(rows)))], names=["v"]), 1)
    return states.base()


def same(found: Run | None, run: Run) -> bool:
    return found is not None and found.rows().equals(run.rows())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LEAST_CACHED_BYTES", 0)
    monkeypatch.setattr(disk_cache, "RESERVED_BYTES", 0)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(str(tmp_path / "cache"), 1 << 30)


def files(cache: DiskCache) -> list[str]:
    return sorted(entry.name for entry in cache.folder.iterdir())
