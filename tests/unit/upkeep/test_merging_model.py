"""Random batches, removals, changes of key ranges, merges and late entries beside a dict for each version.

Batches have one to four tasks. Some batches and merges know older entries than there are, as runs that began before
them do. Every version, laid with all entries, shows what its dict has.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.protocol import valid_records as make
from tidemill._native import StateMap, key_hashes
from tidemill.batch.merging import Merge, segment_of
from tidemill.batch.ranges import cut
from tidemill.protocol.bases import lay
from tidemill.protocol.records import HASH_END, Commit, Segment
from tidemill.protocol.refs import BaseOf
from tidemill.protocol.tiling import coalesce
from tidemill.state import layers
from tidemill.state.cache import RunCache
from tidemill.state.columns import MapColumns
from tidemill.state.versions import open_map, persist
from tidemill.store import Store, open_store
from tidemill.upkeep import merge_choice, merging
from tidemill.upkeep.merge_choice import MergeRule, choose_merges

KEYS = [f"k{number}" for number in range(60)]
HASHES = dict(zip(KEYS, key_hashes(pa.record_batch([pa.array(KEYS)], names=["k"])).to_pylist(), strict=True))
COLUMNS = MapColumns("m", pa.schema([("k", pa.string())]), pa.schema([]), pa.schema([("v", pa.int64())]))
SCHEMA = COLUMNS.engine()
SCHEMAS = {"op": {"maps": {"m": COLUMNS.describe()}}}


@dataclass
class Merged:
    """The versions of one map, the entries, and what each version must show."""

    chance: random.Random
    lasts: int | None
    """After how many versions a row is due. If it has a deadline, hidden runs are dropped early, with tombstones."""
    store: Store = field(default_factory=lambda: open_store(f"memory://{uuid.uuid4().hex}"))
    cache: RunCache = field(default_factory=lambda: RunCache(1 << 24))
    versions: list[list[Segment]] = field(default_factory=lambda: [[]])
    models: list[dict[str, int]] = field(default_factory=lambda: [{}])
    bases: list[BaseOf] = field(default_factory=list)
    laid: int = 0

    def seen(self, segments: Sequence[Segment], lo: int = 0, hi: int = HASH_END) -> StateMap:
        return open_map(self.store, self.cache, SCHEMA, segments, lo, hi).map

    def laid_head(self, entries: int) -> list[Segment]:
        return lay({"op": {"m": self.versions[-1]}}, self.bases[:entries], SCHEMAS)["op"]["m"]

    def batch(self) -> None:
        """A batch, which may have read `refs/` some entries ago."""
        before = self.laid_head(self.chance.choice([len(self.bases), max(0, len(self.bases) - 2)]))
        model, number = dict(self.models[-1]), len(self.versions)
        put = dict.fromkeys(self.chance.sample(KEYS, self.chance.randrange(1, 12)), number)
        gone = self.chance.sample(KEYS, self.chance.randrange(0, 12))
        kept: list[Segment] = []
        for task, (lo, hi) in enumerate(cut(self.chance.randrange(1, 5))):
            opened = open_map(self.store, self.cache, SCHEMA, before, lo, hi)
            after = opened.map.copy()
            ours = [key for key in put if lo <= HASHES[key] <= hi]
            if ours:
                values = pa.record_batch([pa.array([put[key] for key in ours])], names=["v"])
                after.put_many(
                    keys(ours), values, 0, pa.array([self.lasts and number + self.lasts for _ in ours], pa.int64())
                )
            after.remove_many(keys([key for key in gone if lo <= HASHES[key] <= hi]))
            kept += persist(self.store, self.cache, opened, after, number, f"{number}-{task}.parquet")
        model.update(put)
        for key in gone:
            model.pop(key, None)
        self.versions.append(coalesce(kept))
        self.models.append(model)

    def begin_merge(self) -> list[tuple[Merge, list[Any]]]:
        state = {"op": {"m": self.laid_head(len(self.bases))}}
        ratio, rows = self.chance.choice([2, 4, 1 << 40]), self.chance.choice([8, 30, 1 << 40])
        head: Commit = make.commit(state={"op": {"m": self.versions[-1]}}, schemas=SCHEMAS)
        chosen = choose_merges(
            head, state, MergeRule(ratio, 0, range_rows=rows, most_segments=self.chance.choice([1, 9]))
        )
        self.chance.shuffle(chosen)
        return [(one, merging._merge(self, one)) for one in chosen[: self.chance.randrange(1, 5)]]  # type: ignore[arg-type]

    def end_merge(self, begun: list[tuple[Merge, list[Any]]]) -> None:
        """Append the entries, whether or not they still make sense."""
        for one, runs in begun:
            outputs = []
            for run in runs:
                name = f"base-{len(self.bases)}-{run.lo:x}.parquet"
                self.store.put(name, run.data)
                outputs.append(segment_of(run, name, one.inputs, ""))
            number = len(self.bases) + 1
            base = BaseOf(number, "op", "m", one.inputs, outputs, one.columns, one.is_oldest)
            before = self.laid_head(len(self.bases))
            self.bases.append(base)
            self.laid += self.laid_head(len(self.bases)) != before

    def check(self) -> None:
        for version, (segments, model) in enumerate(zip(self.versions, self.models, strict=True)):
            state = lay({"op": {"m": segments}}, self.bases, SCHEMAS)["op"]["m"]
            rows = self.seen(state).scan()
            found = dict(zip(rows.column("k").to_pylist(), rows.column("v").to_pylist(), strict=True))
            assert found == model, f"version {version} of {len(self.versions)}, {len(self.bases)} bases"


def keys(names: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(names, pa.string())], names=["k"])


@pytest.mark.parametrize("most_layers", [1, 2, 16])
@pytest.mark.parametrize("seed", range(15))
def test_every_version_reads_as_a_dict_beside_batches_and_merges(
    seed: int, most_layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few layers, batches merge what bases merge too, and drop tombstones."""
    monkeypatch.setattr(layers, "_layers_to_merge", lambda rows, changed: max(1, len(rows) + 2 - most_layers))
    world, begun = Merged(random.Random(100 * seed + most_layers), seed % 2 or None), list[Any]()
    first = merge_choice._first_layer
    monkeypatch.setattr(
        merge_choice,
        "_first_layer",
        lambda rows, rule: world.chance.choice([first(rows, rule), world.chance.randrange(len(rows) or 1)]),
    )
    for _ in range(60):
        step = world.chance.random()
        if step < 0.5:
            world.batch()
        elif not begun:
            begun = world.begin_merge()
        else:
            world.end_merge(begun)
            begun = []
    world.check()
    assert world.laid or most_layers == 1
