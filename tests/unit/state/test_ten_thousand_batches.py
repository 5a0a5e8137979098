"""Ten thousand batches without maintenance, with real rows: the segments stay few, and the state equals a dict."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import StateMap, key_hashes
from tidemill.protocol.records import HASH_END, Segment
from tidemill.state.cache import RunCache
from tidemill.state.columns import MapColumns
from tidemill.state.layers import MAX_SMALL
from tidemill.state.versions import open_map, persist
from tidemill.store import Store, open_store

pytestmark = pytest.mark.slow("ten thousand batches")

BATCHES = 10_000
KEYS = [f"customer {number} of a town with a long name" for number in range(3000)]
HASHES = dict(zip(KEYS, key_hashes(pa.record_batch([pa.array(KEYS)], names=["k"])).to_pylist(), strict=True))
COLUMNS = MapColumns("m", pa.schema([("k", pa.string())]), pa.schema([]), pa.schema([("v", pa.int64())]))
SCHEMA = COLUMNS.engine()
MAX_RUNS = 8

Model = dict[str, int]


class Gets:
    """A store that records which objects were fetched."""

    def __init__(self, inner: Store) -> None:
        self.names: list[str] = []
        self.uri, self._inner = inner.uri, inner

    def get(self, name: str) -> bytes:
        self.names.append(name)
        return self._inner.get(name)


def change(states: StateMap, model: Model, chance: random.Random, version: int) -> None:
    """Play a batch, which puts some keys and sometimes removes one."""
    put = {KEYS[int(chance.random() ** 2 * len(KEYS))]: version for _ in range(chance.randrange(1, 5))}
    keys = pa.record_batch([pa.array(list(put))], names=["k"])
    states.put_many(keys, pa.record_batch([pa.array(list(put.values()))], names=["v"]), version)
    model.update(put)
    if chance.random() < 0.3:
        gone = KEYS[chance.randrange(len(KEYS))]
        states.remove_many(pa.record_batch([pa.array([gone])], names=["k"]))
        model.pop(gone, None)


def content(states: StateMap) -> Model:
    rows = states.scan()
    return dict(zip(rows.column("k").to_pylist(), rows.column("v").to_pylist(), strict=True))


def check_reopened(store: Store, segments: list[Segment], model: Model) -> None:
    """Open the state with an empty cache: few objects are fetched, each once, and the state is right."""
    gets = Gets(store)
    opened = open_map(gets, RunCache(1 << 26), SCHEMA, segments, 0, HASH_END)  # type: ignore[arg-type]
    assert len(gets.names) == len(set(gets.names)) == len(segments) <= MAX_RUNS
    assert len(opened.map.runs()) <= MAX_RUNS
    assert content(opened.map) == model


def test_one_key_range_keeps_few_segments() -> None:
    store, cache = open_store(f"memory://{uuid.uuid4().hex}"), RunCache(1 << 26)
    chance, model, segments, rows = random.Random(10_000), Model(), list[Segment](), 0
    for version in range(BATCHES):
        before = open_map(store, cache, SCHEMA, segments, 0, HASH_END)
        after = before.map.copy()
        change(after, model, chance, version)
        segments = persist(store, cache, before, after, version, f"s-{version}")
        rows += next((one.rows for one in segments if one.name == f"s-{version}"), 0)
        assert len(segments) <= MAX_RUNS
        if version % 1000 == 999:
            check_reopened(store, segments, model)
    assert 1000 < len(model) < len(KEYS)
    assert rows < 20 * BATCHES * 2.8  # rows written for each that was changed


def test_a_key_range_that_is_cut_and_joined_keeps_few_segments() -> None:
    """With batches of one, two and three tasks, the number of clipped and adjacent segments stays bounded too."""
    store, cache = open_store(f"memory://{uuid.uuid4().hex}"), RunCache(1 << 26)
    chance, model, segments = random.Random(3), Model(), list[Segment]()
    for version in range(1500):
        cuts = [HASH_END * number // (version % 3 + 1) for number in range(1, version % 3 + 2)]
        found = list[Segment]()
        for number, (lo, hi) in enumerate(zip([0, *(cut + 1 for cut in cuts)], cuts, strict=False)):
            before = open_map(store, cache, SCHEMA, segments, lo, hi)
            after = before.map.copy()
            if chance.random() < 0.8:
                put_within(after, model, chance, version, lo, hi)
            found.extend(persist(store, cache, before, after, version, f"s-{version}-{number}"))
        segments = found
        assert len({one.name for one in segments}) <= 3 * MAX_SMALL
        if version % 300 == 299:
            whole = open_map(store, RunCache(1 << 26), SCHEMA, segments, 0, HASH_END)
            assert content(whole.map) == model


def put_within(states: StateMap, model: Model, chance: random.Random, version: int, lo: int, hi: int) -> None:
    """Put some of the keys in a hash range."""
    put = [key for key in chance.sample(KEYS, 6) if lo <= HASHES[key] <= hi]
    keys = pa.record_batch([pa.array(put, pa.string())], names=["k"])
    states.put_many(keys, pa.record_batch([pa.array([version] * len(put), pa.int64())], names=["v"]), version)
    model.update(dict.fromkeys(put, version))


def test_versions_of_a_map_in_memory_keep_few_runs() -> None:
    states, model, chance = tm.StateMap("string", "bigint"), Model(), random.Random(4)
    for version in range(BATCHES):
        key = KEYS[chance.randrange(len(KEYS))]
        if chance.random() < 0.2:
            states.remove(key)
            model.pop(key, None)
        else:
            states.put(key, version, version)
            model[key] = version
        states = states.copy()
        assert len(states._map.runs()) <= MAX_RUNS
        if version % 2000 == 1999:
            assert {key: state for key, state, _ in states.get_all()} == model
            assert all(states.get(key) == model.get(key) for key in KEYS)
    assert states.delta_chain_length > BATCHES * 0.9


def test_versions_of_a_store_keep_few_segments() -> None:
    root, model, chance = f"memory://{uuid.uuid4().hex}", Model(), random.Random(5)
    store = tm.StateStore(root, "counts", 0, key="string", state="bigint")
    for version in range(300):
        opened = store.get(version)
        for key in chance.sample(KEYS, 3):
            opened.put(key, version)
            model[key] = version
        assert opened.commit() == version + 1
        assert len(store._record(version + 1).segments) <= MAX_RUNS
    assert dict(store.getReadOnly(300).iterator()) == model
