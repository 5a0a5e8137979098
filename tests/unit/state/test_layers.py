"""The choice of segments to merge: rules of layers, and simulated random batches of any size and number of tasks.

Depth, number of segments and rows written must stay bounded in all of them.
"""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill._native import merge_count
from tidemill.batch.ranges import cut
from tidemill.protocol.decide import coalesce, segments_within
from tidemill.protocol.records import HASH_END, Segment
from tidemill.state.layers import (
    CHEAP_ROWS,
    CHEAP_TIMES,
    MAX_SMALL,
    MOST_LAYERS,
    SMALL_ROWS,
    HashSpan,
    layered,
    to_merge,
)

pytestmark = pytest.mark.slow("long random runs")

MAX_RUNS = 8
SPACE = HASH_END + 1


def tiles(count: int, rows: int) -> list[HashSpan]:
    return [HashSpan(lo, hi, rows) for lo, hi in cut(count)]


def test_disjoint_segments_form_one_layer_that_a_small_batch_does_not_merge() -> None:
    """After a batch of eight tasks the state has 100,000 rows. One new row must not rewrite them."""
    assert to_merge(tiles(8, 12_500), 1) == []
    assert to_merge(tiles(200, 12_500), 1) == []


def everywhere(layers: int, rows: int) -> list[HashSpan]:
    """Return that many layers of one segment each."""
    return [HashSpan(0, HASH_END, rows)] * layers


def test_a_layer_is_merged_whole_if_there_are_too_many_and_the_changes_outgrew_it() -> None:
    spans = [*tiles(8, 12_500), *everywhere(7, 10)]
    assert to_merge(spans[:-1], 200_000) == []
    assert to_merge(spans, 90_000) == list(range(8, 15))
    assert to_merge(spans, 91_000) == list(range(15))


def test_upper_layers_are_merged_and_lower_ones_kept() -> None:
    spans = [*tiles(4, 250_000), *tiles(2, 5000), *everywhere(6, 100)]
    assert layered(spans) == [[0, 1, 2, 3], [4, 5], *([number] for number in range(6, 12))]
    assert to_merge(spans[:-1], 1) == []
    assert to_merge(spans, 100) == []  # the layer of a million rows does not count: it is too large for a batch
    assert to_merge([*spans, HashSpan(0, HASH_END, 100)], 100) == list(range(6, 13))
    assert to_merge([*spans, HashSpan(0, HASH_END, 100)], 20_000) == list(range(4, 13))


def test_a_segment_is_in_a_layer_above_all_that_it_overlaps() -> None:
    spans = [HashSpan(0, 9, 1), HashSpan(5, 14, 1), HashSpan(10, 19, 1), HashSpan(20, 29, 1), HashSpan(0, 4, 1)]
    assert layered(spans) == [[0, 3], [1, 4], [2]]


def test_many_small_segments_are_merged_without_large_ones_next_to_them() -> None:
    small = [dataclasses.replace(span, rows=SMALL_ROWS - 1) for span in tiles(2 * MAX_SMALL, 0)]
    large = [0, 17]
    for number in large:
        small[number] = dataclasses.replace(small[number], rows=100_000)
    assert to_merge(small, 1) == [number for number in range(len(small)) if number not in large]
    assert to_merge(small[: MAX_SMALL + 1], 1) == []  # a large segment does not count as a small one


def test_a_small_segment_below_a_large_one_is_not_merged_past_it() -> None:
    spans = [*tiles(2 * MAX_SMALL, SMALL_ROWS - 1), HashSpan(0, SPACE // 2 - 1, 5000)]
    assert to_merge(spans, 1) == []  # only 32 are not below the large one, which is not too many
    assert to_merge([*spans, HashSpan(SPACE // 2, SPACE // 2, 1)], 1) == [*range(MAX_SMALL, 2 * MAX_SMALL), 65]


def test_a_batch_leaves_large_layers_until_there_are_too_many() -> None:
    large = [10_000_000, *[CHEAP_ROWS] * (MOST_LAYERS - 2)]
    spans = [*(HashSpan(0, HASH_END, rows) for rows in large), *everywhere(8, 1000)]
    assert to_merge(spans, 1000) == list(range(len(large), len(spans)))
    spans.insert(1, HashSpan(0, HASH_END, CHEAP_ROWS))  # one large layer more
    assert to_merge(spans, 1000) == list(range(1, len(spans)))


def test_a_layer_is_large_only_beside_a_small_batch() -> None:
    rows = CHEAP_ROWS
    assert to_merge(everywhere(8, rows), 2 * rows // CHEAP_TIMES) == []
    assert to_merge(everywhere(8, rows), 2 * rows // CHEAP_TIMES + 1) == list(range(8))


def test_without_segments_nothing_is_merged() -> None:
    assert to_merge([], 1) == []


@given(rows=st.lists(st.integers(1, 10**7) | st.integers(1, 100), min_size=2, max_size=30))
def test_the_oldest_run_is_merged_only_under_ten_elevenths_of_its_rows(rows: list[int]) -> None:
    """So a base is rewritten only when nearly as many rows as it has were written on top of it."""
    count = merge_count(rows)
    assert len(rows) - count < MAX_RUNS
    if count == len(rows):
        assert sum(rows[1:]) * 11 > rows[0] * 10


def test_a_commit_may_merge_the_base() -> None:
    assert merge_count([1_000, *[114] * 8]) == 9
    assert merge_count([1_004, *[114] * 8]) == 8
    assert merge_count([1_000, *[114] * 7]) == 1  # not before there is one run too many


spans_of_any_kind = st.lists(
    st.builds(lambda a, b, rows: HashSpan(min(a, b), max(a, b), rows), *[st.integers(0, 40)] * 2, st.integers(0, 5000)),
    max_size=120,
)


@given(spans=spans_of_any_kind, changed=st.integers(0, 10_000))
def test_no_segment_is_merged_past_a_newer_one_and_few_layers_remain(spans: list[HashSpan], changed: int) -> None:
    merged = to_merge(spans, changed)
    assert merged == sorted(set(merged))
    kept = [span for number, span in enumerate(spans) if number not in merged]
    for number in merged:
        for newer in range(number + 1, len(spans)):
            meets = spans[newer].lo <= spans[number].hi and spans[number].lo <= spans[newer].hi
            assert newer in merged or not meets
    assert len(layered(kept)) < MAX_RUNS
    for layer in layered(kept):
        bounds = sorted((kept[number].lo, kept[number].hi) for number in layer)
        assert all(one[1] < other[0] for one, other in pairwise(bounds))


class Store:
    """The segments of one map under batches of uniform hashes. Only numbers of rows are simulated, not rows."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.version = 0
        self.segments: list[Segment] = []
        self.density: dict[str, float] = {}
        self.written = 0.0
        self.most_segments = 0

    def batch(self, tasks: int, rows: int, touched: list[int]) -> None:
        """`rows` spread over the ranges `touched` of `tasks`."""
        kept: list[Segment] = []
        for number, (lo, hi) in enumerate(cut(tasks)):
            seen = segments_within(self.segments, lo, hi)
            changed = min(rows / len(touched), self.keys * (hi - lo + 1) / SPACE) if number in touched else 0
            kept.extend(self.persist(seen, changed, lo, hi) if changed else seen)
        self.version += 1
        self.segments = coalesce(kept)

    def persist(self, seen: list[Segment], changed: float, lo: int, hi: int) -> list[Segment]:
        spans = [HashSpan(s.lo, s.hi, round(self.density[s.name] * (s.hi - s.lo + 1))) for s in seen]
        merged = to_merge(spans, max(1, round(changed)))
        rows = changed + sum(self.density[seen[n].name] * (seen[n].hi - seen[n].lo + 1) for n in merged)
        rows = min(rows, self.keys * (hi - lo + 1) / SPACE)
        name = f"{self.version}-{lo}"
        self.density[name] = rows / (hi - lo + 1)
        self.written += rows
        kept = [segment for number, segment in enumerate(seen) if number not in merged]
        self.most_segments = max(self.most_segments, len(kept) + 1)
        return [*kept, Segment(name, name, 0, 0, lo, hi, self.version + 1, self.version)]

    def depth(self) -> int:
        """The greatest number of segments that show one hash."""
        ends = sorted([(s.lo, 1) for s in self.segments] + [(s.hi + 1, -1) for s in self.segments])
        depth = most = 0
        for _, step in ends:
            depth += step
            most = max(most, depth)
        return most


def play(store: Store, batches: list[tuple[int, int]], seed: int) -> float:
    """Return the rows written for each changed row, and check depth and number of segments after each batch."""
    chance, changed = random.Random(seed), 0
    for tasks, rows in batches:
        touched = chance.sample(range(tasks), min(tasks, max(1, rows)))
        store.batch(tasks, rows, touched)
        changed += min(rows, store.keys)
        assert store.depth() <= MOST_LAYERS
        assert store.most_segments <= 3 * MAX_SMALL + store.keys // SMALL_ROWS
    return store.written / changed


@given(
    keys=st.sampled_from([100, 10_000, 1_000_000]),
    batches=st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 7, 8, 13, 16]), st.sampled_from([1, 10, 1000, 100_000])),
        min_size=1,
        max_size=60,
    ),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_depth_segments_and_written_rows_are_bounded(keys: int, batches: list[tuple[int, int]], seed: int) -> None:
    assert play(Store(keys), batches, seed) < 60


@pytest.mark.parametrize("tasks", [[1, 8], [1, 16, 7], list(range(1, 20))], ids=str)
def test_a_thousand_small_batches_over_a_large_state_rewrite_few_rows(tasks: list[int]) -> None:
    """The cost of a row on top of a base of a million rows, with any number of tasks."""
    store, chance = Store(1_000_000), random.Random(7)
    store.batch(8, 1_000_000, list(range(8)))
    store.written = 0.0
    amplification = play(store, [(chance.choice(tasks), 10) for _ in range(1000)], 7)
    assert amplification < 60
    assert len(store.segments) < 200
