"""Look-ups of keys give the rows that a scan of the whole map gives for them, in the same order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidemill import _native
from tidemill.protocol.records import HASH_END, Segment
from tidemill.state import point
from tidemill.state.cache import RunCache
from tidemill.state.columns import NO_COLUMNS, MapColumns
from tidemill.state.table import has_key_of, live_rows
from tidemill.state.versions import open_map, persist
from tidemill.store import open_store

KEY, VALUE = pa.schema([("k", pa.int64())]), pa.schema([("v", pa.float64())])
MAPS = [MapColumns("m", KEY, NO_COLUMNS, VALUE), MapColumns("m", KEY, pa.schema([("at", pa.int64())]), VALUE)]


def grown(columns: MapColumns, chance: random.Random) -> tuple[object, RunCache, list[Segment]]:
    """A map of random puts and removals, by two ranges, in many segments."""
    store, cache = open_store("memory://"), RunCache(1 << 20)
    segments: list[Segment] = []
    middle = HASH_END // 2
    for version in range(12):
        live: list[Segment] = []
        for number, (lo, hi) in enumerate([(0, middle), (middle + 1, HASH_END)]):
            opened = open_map(store, cache, columns.engine(), segments, lo, hi)
            after = opened.map.copy()
            for _ in range(chance.randint(0, 8)):
                key = [chance.randint(0, 30)] + [chance.randint(0, 2)] * len(columns.sub_key)
                names = [*columns.key, *columns.sub_key]
                row = pa.record_batch([pa.array([one], pa.int64()) for one in key], schema=pa.schema(names))
                if not lo <= _native.key_hashes(row.select(["k"]))[0].as_py() <= hi:
                    continue
                if chance.random() < 0.3:
                    after.remove_many(row)
                else:
                    after.put_many(row, pa.record_batch({"v": [chance.random()]}), version)
            live += persist(
                store, cache, opened, after, version, f"state/o/m/main/{version:010d}-a-{number:05d}-t.parquet"
            )
        segments = live
    return store, cache, segments


@pytest.mark.parametrize("columns", MAPS, ids=["without sub-keys", "with sub-keys"])
@pytest.mark.parametrize("most", [point.MOST_RANGES, 2], ids=["few keys", "many keys"])
def test_look_ups_equal_a_filtered_scan(columns: MapColumns, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point, "MOST_RANGES", most)
    chance = random.Random(5)
    store, cache, segments = grown(columns, chance)
    scanned = live_rows(store, cache, columns, segments, 0, HASH_END)
    assert scanned.num_rows > 5
    for size in (0, 1, 3, 20):
        keys = pa.record_batch({"k": pa.array([chance.randint(0, 40) for _ in range(size)], pa.int64())})
        expected = scanned.filter(has_key_of(scanned.select(["k"]), keys)) if size else scanned.slice(0, 0)
        found = point.rows_of_keys(store, cache, columns, segments, keys)
        assert found.to_pylist() == expected.to_pylist()
        assert found.schema == expected.schema
