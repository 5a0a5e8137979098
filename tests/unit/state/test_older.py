"""Segments with older columns: they read as the newer ones, caches keep both apart, and damage stays damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill import _native
from tidemill.errors import CorruptState, InvalidInput
from tidemill.protocol.records import HASH_END, Segment
from tidemill.schema import to_arrow
from tidemill.state.cache import RunCache
from tidemill.state.columns import MapColumns
from tidemill.state.disk_cache import DiskCache
from tidemill.state.older import converted
from tidemill.state.versions import open_map, persist, store_run
from tidemill.store import Store, open_store

TIME = pa.timestamp("ms", "UTC")


def columns(key: str, value: str, sub_key: str = "") -> MapColumns:
    parts = {"key": key, "sub_key": sub_key, "value": value}
    return MapColumns.described("m", parts)


OLD, NEW = columns("k int", "n int"), columns("k bigint", "s string, n bigint")


def run_of(shape: MapColumns, rows: list[dict[str, Any]]) -> _native.Run:
    times = {"updated_at": 1, "deadline": None, "deleted": False}
    schema = shape.engine()
    return _native.Run.of_rows(schema, pa.RecordBatch.from_pylist([times | row for row in rows], schema.columns))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "root"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCache:
    monkeypatch.setattr("tidemill.state.disk_cache.LEAST_CACHED_BYTES", 0)
    return RunCache(1 << 20, DiskCache(str(tmp_path / "cache"), 1 << 30))


def stored(store: Store, cache: RunCache, run: _native.Run, sequence: int, name: str) -> list[Segment]:
    return store_run(store, cache, run, (sequence, sequence), name)


BASE = [{"k": k, "n": 10 * k, "updated_at": k, "deadline": 100 + k} for k in range(5)]
DELTA = [{"k": 1, "deleted": True, "updated_at": 7}, {"k": 2, "n": -2, "updated_at": 7}]


def rows(opened: Any) -> list[tuple[Any, ...]]:
    shown = opened.map.scan().to_pylist()
    return sorted(
        (row["k"], row.get("s"), row["n"], row["updated_at"].timestamp() * 1000, row["deadline"]) for row in shown
    )


def test_old_segments_with_tombstones_and_deadlines_read_as_new_ones(store: Store, cache: RunCache) -> None:
    old = stored(store, cache, run_of(OLD, BASE), 1, "a") + stored(store, cache, run_of(OLD, DELTA), 2, "b")
    new = stored(store, cache, run_of(NEW, [{"k": 3, "s": "x", "n": 2**40, "updated_at": 9}]), 3, "c")
    for with_cache in (cache, RunCache(0), cache):
        before = open_map(store, with_cache, OLD.engine(), old, 0, HASH_END)
        after = open_map(store, with_cache, NEW.engine(), old + new, 0, HASH_END)
        assert [(k, n, at) for k, _, n, at, _ in rows(before)] == [(0, 0, 0), (2, -2, 7), (3, 30, 3), (4, 40, 4)]
        assert [row[:4] for row in rows(after)] == [
            (0, None, 0, 0), (2, None, -2, 7), (3, "x", 2**40, 9), (4, None, 40, 4),
        ]  # fmt: skip
        assert after.map.next_deadline() == 100 and before.map.next_deadline() == 100
        assert after.map.scan().schema.field("k").type == pa.int64()


def test_old_and_new_segments_merge_into_a_segment_of_the_new_columns(store: Store, cache: RunCache) -> None:
    old = stored(store, cache, run_of(OLD, BASE), 1, "a") + stored(store, cache, run_of(OLD, DELTA), 2, "b")
    opened = open_map(store, cache, NEW.engine(), old, 0, HASH_END)
    changed = opened.map.copy()
    keys = pa.record_batch({"k": pa.array(range(4, 40))}, schema=NEW.key)
    changed.put_many(keys, pa.record_batch({"s": ["x"] * 36, "n": list(range(4, 40))}, schema=NEW.value), 11)
    segments = persist(store, cache, opened, changed, 3, "c")
    found = rows(open_map(store, RunCache(0), NEW.engine(), segments, 0, HASH_END))
    assert [row[:3] for row in found] == [
        (0, None, 0),
        (2, None, -2),
        (3, None, 30),
        *((k, "x", k) for k in range(4, 40)),
    ]
    runs, delta = [one.run for one in opened.shown], changed.delta()
    assert delta is not None
    ((_, _, merged),) = _native.Run.merge([*runs, delta], 0, HASH_END, "tombstones", 2**31 - 1)
    assert len(_native.Run.read(NEW.engine(), merged.write(), "c")) == 39


@pytest.mark.parametrize(
    "other",
    [
        columns("k int", "n string"),
        columns("k int", "m int"),
        columns("k bigint, l int", "n int"),
        columns("k string", "n int"),
        columns("k int", "n int", "i int"),
        MapColumns("m", OLD.sub_key, OLD.key, OLD.value),
    ],
)
def test_a_segment_with_other_columns_is_still_corrupt(store: Store, other: MapColumns) -> None:
    segments = stored(store, RunCache(0), run_of(OLD, BASE), 1, "a")
    with pytest.raises(CorruptState, match=r"it has the columns|`tidemill.key_columns` is"):
        open_map(store, RunCache(0), other.engine(), segments, 0, HASH_END)


def test_a_newer_segment_is_read_through_older_columns_only_if_nothing_is_lost(store: Store) -> None:
    """Merging off the commit path gives older versions a segment of newer columns, with their own rows."""
    old = _native.Run.merge([run_of(OLD, BASE), run_of(OLD, DELTA)], 0, HASH_END, "nothing", 2**31 - 1)[0][2]
    (segment,) = stored(store, RunCache(0), converted(old, NEW.engine()), 1, "a")
    found = open_map(store, RunCache(0), OLD.engine(), [segment], 0, HASH_END)
    assert found.map.scan() == _native.StateMap.open(OLD.engine(), [old], 0, HASH_END).scan()
    for lost in ({"k": 1, "s": "x", "n": 1}, {"k": 1, "n": 2**40}, {"k": 2**40, "n": 1}):
        (segment,) = stored(store, RunCache(0), run_of(NEW, [lost]), 1, "a")
        with pytest.raises(CorruptState, match="it has newer columns, and values that do not fit"):
            open_map(store, RunCache(0), OLD.engine(), [segment], 0, HASH_END)


def test_floats_are_narrowed_only_if_they_are_exact(store: Store) -> None:
    narrow, wide = columns("k int", "x float"), columns("k int", "x double, y struct<a: int>")
    exact = [{"k": k, "x": x} for k, x in enumerate([0.5, -0.0, float("nan"), float("inf"), None])]
    (segment,) = stored(store, RunCache(0), run_of(wide, exact), 1, "a")
    found = open_map(store, RunCache(0), narrow.engine(), [segment], 0, HASH_END).map.scan()
    assert found.schema.field("x").type == pa.float32()
    assert sorted(map(str, found.column("x").to_pylist())) == sorted(["0.5", "-0.0", "nan", "inf", "None"])
    (segment,) = stored(store, RunCache(0), run_of(wide, [{"k": 1, "x": 0.1}]), 1, "b")
    with pytest.raises(CorruptState, match="values that do not fit"):
        open_map(store, RunCache(0), narrow.engine(), [segment], 0, HASH_END)


def test_a_damaged_old_segment_is_corrupt(store: Store) -> None:
    (segment,) = stored(store, RunCache(0), run_of(OLD, BASE), 1, "a")
    data = bytearray(store.get("a"))
    data[20] ^= 1
    store.put("a", bytes(data))
    with pytest.raises(CorruptState, match="found checksum"):
        open_map(store, RunCache(0), NEW.engine(), [segment], 0, HASH_END)


def test_a_run_of_rows_sorts_them_and_refuses_other_columns() -> None:
    run = run_of(OLD, [{"k": 2, "n": 1}, {"k": 1, "n": 1}, {"k": 2, "n": 3}])
    assert sorted((row["k"], row["n"]) for row in run.rows().to_pylist()) == [(1, 1), (2, 3)]
    assert len(run_of(OLD, [])) == 0
    gone = run_of(OLD, [{"k": 2, "n": 1, "deleted": True, "deadline": 5}]).rows().to_pylist()
    assert gone[0]["n"] is None and gone[0]["deadline"] is None and gone[0]["deleted"]
    schema = OLD.engine()
    with pytest.raises(InvalidInput, match="the rows have other columns"):
        _native.Run.of_rows(schema, pa.RecordBatch.from_pylist([], to_arrow("k int, n int")))
    nulls = pa.RecordBatch.from_pylist(
        [{"k": 1, "n": 1, "deleted": False}], pa.schema([f.with_nullable(True) for f in schema.columns])
    )
    with pytest.raises(InvalidInput, match="`updated_at` or `deleted` is null"):
        _native.Run.of_rows(schema, nulls)
