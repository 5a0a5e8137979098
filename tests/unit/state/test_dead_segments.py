"""Dead segments, whose rows are all hidden: the batch that finds them drops them without merging."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from tidemill._native import StateMap, key_hashes
from tidemill.protocol.records import HASH_END, Segment
from tidemill.state.cache import RunCache
from tidemill.state.columns import MapColumns
from tidemill.state.versions import open_map, persist
from tidemill.store import open_store

pytestmark = pytest.mark.slow("long random runs")

COLUMNS = MapColumns("m", pa.schema([("k", pa.int64())]), pa.schema([]), pa.schema([("v", pa.int64())]))
SCHEMA = COLUMNS.engine()

Model = dict[int, tuple[int, int | None]]
"""Maps a key to (value, deadline)."""


class Versions:
    """A state through many versions, each cut into a different number of ranges, next to a dict."""

    def __init__(self, seed: int) -> None:
        self.store, self.cache = open_store(f"memory://{uuid.uuid4().hex}"), RunCache(1 << 26)
        self.chance, self.model, self.segments = random.Random(seed), Model(), list[Segment]()

    def batch(self, version: int, ranges: int, put: Model, now_ms: int) -> list[Segment]:
        """Puts `put`, then takes out what is due; returns the segments."""
        cuts = [HASH_END * number // ranges for number in range(1, ranges + 1)]
        found = list[Segment]()
        for number, (lo, hi) in enumerate(zip([0, *(cut + 1 for cut in cuts)], cuts, strict=False)):
            before = open_map(self.store, self.cache, SCHEMA, self.segments, lo, hi)
            after = before.map.copy()
            self._put(after, put, lo, hi, version)
            due = after.get_due(now_ms)
            after.remove_many(due.select(["k"]))
            found += persist(self.store, self.cache, before, after, version, f"s-{version}-{number}")
        self.model |= put
        self.model = {key: cell for key, cell in self.model.items() if cell[1] is None or cell[1] > now_ms}
        self.segments = found
        return found

    def check(self) -> None:
        """On a machine that has nothing: what the segments make is the model, and it is due when the model says."""
        opened = open_map(self.store, RunCache(1 << 26), SCHEMA, self.segments, 0, HASH_END).map
        rows = opened.scan().to_pylist()
        assert {row["k"]: row["v"] for row in rows} == {key: cell[0] for key, cell in self.model.items()}
        assert opened.next_deadline() == min((at for _, at in self.model.values() if at is not None), default=None)

    def _put(self, states: StateMap, put: Model, lo: int, hi: int, version: int) -> None:
        here = [key for key in put if lo <= _hash(key) <= hi]
        keys = pa.record_batch([pa.array(here, pa.int64())], names=["k"])
        values = pa.record_batch([pa.array([put[key][0] for key in here], pa.int64())], names=["v"])
        states.put_many(keys, values, version, pa.array([put[key][1] for key in here], pa.int64()))


def _hash(key: int) -> int:
    found = key_hashes(pa.record_batch([pa.array([key])], names=["k"])).to_pylist()
    assert isinstance(found[0], int)
    return found[0]


def test_state_whose_keys_all_end_is_never_merged_and_stays_few_segments() -> None:
    versions = Versions(1)
    for version in range(40):
        put: Model = {version * 100 + row: (version, version + 2) for row in range(50)}
        found = versions.batch(version, 1, put, version)
        assert {one.version for one in found} == {max(version - 1, 0), version}
        assert all(one.rows <= 100 for one in found)  # each holds one batch's changes, tombstones too
        versions.check()
    assert [len(versions.batch(version, 1, {}, version)) for version in (40, 41)] == [2, 0]


@pytest.mark.parametrize(
    "lasts", [lambda _: 3, lambda chance: chance.choice([1, 5, 30]), lambda chance: chance.choice([2, None])]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_state_equals_a_dict(seed: int, lasts: Callable[[random.Random], int | None]) -> None:
    """Keys come back with later, earlier or no deadlines. Each version is cut into different ranges."""
    versions = Versions(seed)
    chance = versions.chance
    for version in range(120):
        keys = [chance.randrange(60) for _ in range(chance.randrange(8))]
        life = [lasts(chance) for _ in keys]
        put: Model = {
            key: (version, None if last is None else version + last) for key, last in zip(keys, life, strict=True)
        }
        versions.batch(version, chance.randrange(1, 4), put, version if chance.random() < 0.7 else -1)
        versions.check()


def test_a_row_without_a_deadline_keeps_its_segment() -> None:
    versions = Versions(2)
    versions.batch(0, 1, {1: (10, None), 2: (20, 5)}, 0)
    for version in range(1, 6):
        versions.batch(version, 1, {100 + version: (0, version)}, version + 5)
    assert versions.segments[0].version == 0
    versions.check()
    assert versions.model == {1: (10, None)}
