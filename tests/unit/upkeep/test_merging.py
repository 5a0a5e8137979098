"""`merge` with real files: what a reader sees stays the same, and later batches use the merged segments."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import tidemill as tm
from tests.unit.upkeep.merged import ALL, HERE_OR_IN_TASKS, RANGES, Shop, users
from tests.world import over
from tidemill.protocol.records import HASH_END
from tidemill.state import versions
from tidemill.upkeep import merging
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge, plan_merges


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path)
    for number in range(5):
        found.batch([(f"u{number}", 1), ("all", 1)])
    return found


@HERE_OR_IN_TASKS
def test_merged_segments_take_the_place_of_their_inputs(shop: Shop, engine) -> None:
    assert len(shop.live) == 5
    report = merge(shop.repository.opened, rule=ALL, engine=engine)
    [merged] = report.merged
    assert (merged.operator, merged.map, merged.inputs, merged.outputs) == ("users", "state", 5, 1)
    assert (merged.rows_before, merged.rows_after) == (10, 6)
    assert merged.bytes_after < merged.bytes_before
    assert not report.overtaken and not report.left
    assert [one.sequence for one in shop.live] == [5]
    shop.check()
    shop.batch([("u0", 1), ("u1", -1)])
    assert [one.sequence for one in shop.live] == [5, 6]
    shop.check()


def test_merged_segments_are_found_in_the_cache(shop: Shop, monkeypatch) -> None:
    merge(shop.repository.opened, rule=ALL)
    read: list[str] = []
    real = versions.read_run
    monkeypatch.setattr(versions, "read_run", lambda schema, data, name: read.append(name) or real(schema, data, name))
    assert shop.seen() == shop.model
    assert read == []


def test_older_versions_read_as_before(shop: Shop) -> None:
    merge(shop.repository.opened, rule=ALL)
    shop.batch([("u0", 7)])
    assert [shop.seen(version)["all"] for version in range(5)] == [1, 2, 3, 4, 5]
    assert shop.seen(5)["u0"] == 8


def test_a_plan_writes_nothing_and_says_what_would_be_merged(shop: Shop) -> None:
    before = {entry.name for entry in shop.repository.opened.store.list()}
    [planned] = plan_merges(shop.repository.opened, ALL)
    assert (planned.layers, planned.layers_after, planned.is_oldest, planned.rows) == (5, 1, True, 10)
    assert {entry.name for entry in shop.repository.opened.store.list()} == before


def test_small_states_are_left_to_batches(shop: Shop) -> None:
    assert plan_merges(shop.repository.opened) == []
    assert merge(shop.repository.opened).merged == []


def test_before_the_first_batch_there_is_nothing_to_merge(tmp_path: Path) -> None:
    assert plan_merges(Shop(tmp_path).repository.opened, ALL) == []


def test_a_removed_key_stays_removed_below_and_above_a_base(shop: Shop) -> None:
    shop.batch([("u2", -1)])
    merge(shop.repository.opened, rule=ALL)
    assert "u2" not in shop.seen()
    shop.batch([("all", -1)])
    merge(shop.repository.opened, rule=ALL)
    shop.check()
    assert shop.seen(5).keys() == {"u0", "u1", "u3", "u4", "all"}
    assert len(shop.live) == 1


def test_a_state_of_which_all_keys_are_removed_has_no_segments_left(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.batch([("u", 1)])
    shop.batch([("u", -1)])
    [merged] = merge(shop.repository.opened, rule=ALL).merged
    assert merged.outputs == 0 and shop.live == [] and shop.seen() == {}
    shop.batch([("u", 2)])
    shop.check()


def test_a_base_is_not_laid_below_a_younger_merge_that_dropped_tombstones(shop: Shop, monkeypatch) -> None:
    """A batch removes a key and merges everything, so its segment has no tombstone. The base still has the key."""
    from tidemill.state import layers

    context = shop.repository.opened
    [planned] = plan_merges(context, ALL)
    runs = merging._merge(context, planned)
    monkeypatch.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
    shop.batch([("u2", -1)])
    assert len(shop.live) == 1 and "u2" not in shop.seen()
    monkeypatch.setattr(merging, "_is_live", lambda *_: True)  # an entry that should not have been written
    merging._Recording(context, planned, runs).record()
    assert len(shop.open().opened.refresh().bases) == 1
    assert "u2" not in shop.seen()
    assert shop.seen(4)["u2"] == 1  # there, all inputs are live
    shop.check()


def test_an_entry_ends_earlier_ones_that_the_head_no_longer_uses(shop: Shop) -> None:
    context = shop.repository.opened
    for number in range(3):
        merge(context, rule=ALL)
        shop.batch([("u9", number)])
    assert len(context.refresh().bases) == 1
    assert len(shop.files_of_bases()) == 3
    assert [shop.seen(version)["all"] for version in range(8)] == [1, 2, 3, 4, 5, 5, 5, 5]


def test_a_base_of_a_base_is_laid_although_no_batch_ran_between(shop: Shop) -> None:
    context = shop.repository.opened
    shop.repository.run(engine="local")
    merge(context, rule=MergeRule(ratio=1 << 40, least_rows=0, range_rows=5))
    assert len(context.refresh().bases) == 2
    merge(context, rule=MergeRule(ratio=1 << 40, least_rows=0, most_segments=1))
    assert len(context.refresh().bases) == 3
    assert len(shop.live) == 1
    shop.check()


def test_only_newer_layers_are_merged_while_the_oldest_is_large(shop: Shop) -> None:
    shop.batch([(f"many{number}", 1) for number in range(100)])
    merge(shop.repository.opened, rule=ALL)
    shop.batch([("u0", -1)])
    shop.batch([("u1", 1)])
    report = merge(shop.repository.opened, rule=MergeRule(ratio=4, least_rows=0))
    assert [one.inputs for one in report.merged] == [2]
    assert [(one.rows, one.sequence) for one in shop.live] == [(106, 6), (2, 8)]
    shop.check()
    shop.batch([("u1", 1)])
    shop.check()


def test_an_operator_that_was_dropped_is_not_merged(shop: Shop) -> None:
    repository = shop.but(over(lambda s: s.groupBy("user").agg(n=tm.count(), name="other"))).open(init=False)
    repository.init(drop=["users"])
    assert plan_merges(repository.opened, ALL) == []


def test_an_operator_that_was_renamed_is_merged(shop: Shop) -> None:
    r = shop.but(over(users("people"))).open(init=False)
    r.migrate(rename={"users": "people"}, reason="a test")
    before = r.state("people").sort_by("user")
    assert len(merge(r.opened, rule=ALL).merged) == 1
    assert merge(r.opened, rule=ALL).merged == []
    assert r.state("people").sort_by("user") == before
    assert r.verify(deep=True).problems == []


def test_the_ranges_of_a_plan_do_not_overlap(shop: Shop) -> None:
    shop.batch([(f"many{number}", 1) for number in range(40)])
    bounds = sorted((one.lo, one.hi) for one in plan_merges(shop.repository.opened, RANGES))
    assert bounds[0][0] == 0 and bounds[-1][1] == HASH_END
    assert all(one[1] + 1 == other[0] for one, other in pairwise(bounds))
