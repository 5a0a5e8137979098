"""`merge` with real files: what a reader sees stays the same, and later batches use the merged segments."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.batch import merging as tasks_of_merges
from tidemill.engines.local import LocalEngine
from tidemill.protocol.records import HASH_END
from tidemill.repo.operators import committed_state
from tidemill.state import versions
from tidemill.upkeep import merging
from tidemill.upkeep.collect import collect_garbage
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge, plan_merges

UNCACHED = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}
ALL = MergeRule(ratio=1 << 40, least_rows=0)
"""Merge every range with more than one layer."""
RANGES = MergeRule(ratio=1 << 40, least_rows=0, range_rows=8)
"""The same in several key ranges."""


def total(batch_time, user, row, state):
    if row.n < 0:
        state.remove()
        return (user, None)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get)


class Shop:
    """A pipeline that sums by user; a negative number removes the user."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "in").mkdir()
        self.model: dict[str, int] = {}
        self.files = 0
        self.repository = self.open()
        self.repository.init()

    def open(self) -> tm.Repository:
        p = tm.Pipeline("shop")
        p.read(tm.Files(str(self.base / "in"), format="json", schema="user string, n int")).groupBy(
            "user"
        ).mapWithState(
            tm.StateSpec.function(total), stateSchema="long", outputSchema="user string, n long", name="users"
        )
        return tm.open(p, root=str(self.base / "root"), conf={"tidemill.disk_cache_bytes": 0})

    def write(self, rows: list[tuple[str, int]]) -> None:
        lines = "".join(json.dumps({"user": user, "n": n}) + "\n" for user, n in rows)
        (self.base / "in" / f"{self.files:05d}.json").write_text(lines)
        self.files += 1
        for user, n in rows:
            if n < 0:
                self.model.pop(user, None)
            else:
                self.model[user] = self.model.get(user, 0) + n

    def run(self, rows: list[tuple[str, int]], tasks: int = 1) -> None:
        self.write(rows)
        self.repository.run(engine="local", tasks=tasks)

    def seen(self, version: int | None = None) -> dict[str, int]:
        table = self.open().state("users", version=version)
        return dict(zip(*(column.to_pylist() for column in table.columns[:2]), strict=True))

    def check(self) -> None:
        assert self.seen() == self.model
        assert self.open().verify(deep=True).problems == []

    @property
    def live(self) -> list:
        context = self.open().opened
        return committed_state(context, context.head())["users"]["state"]

    def files_of_bases(self) -> set[str]:
        return {e.name for e in self.repository.opened.store.list("state/") if e.name.endswith("-base.parquet")}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path)
    for number in range(5):
        found.run([(f"u{number}", 1), ("all", 1)])
    return found


HERE_OR_IN_TASKS = pytest.mark.parametrize("engine", [None, lambda: LocalEngine(3)], ids=["here", "in tasks"])


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
    shop.run([("u0", 1), ("u1", -1)])
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
    shop.run([("u0", 7)])
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
    shop.run([("u2", -1)])
    merge(shop.repository.opened, rule=ALL)
    assert "u2" not in shop.seen()
    shop.run([("all", -1)])
    merge(shop.repository.opened, rule=ALL)
    shop.check()
    assert shop.seen(5).keys() == {"u0", "u1", "u3", "u4", "all"}
    assert len(shop.live) == 1


def test_a_state_of_which_all_keys_are_removed_has_no_segments_left(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.run([("u", 1)])
    shop.run([("u", -1)])
    [merged] = merge(shop.repository.opened, rule=ALL).merged
    assert merged.outputs == 0 and shop.live == [] and shop.seen() == {}
    shop.run([("u", 2)])
    shop.check()


def test_a_base_is_not_laid_below_a_younger_merge_that_dropped_tombstones(shop: Shop, monkeypatch) -> None:
    """A batch removes a key and merges everything, so its segment has no tombstone. The base still has the key."""
    from tidemill.state import layers

    context = shop.repository.opened
    [planned] = plan_merges(context, ALL)
    runs = merging._merge(context, planned)
    monkeypatch.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
    shop.run([("u2", -1)])
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
        shop.run([("u9", number)])
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
    shop.run([(f"many{number}", 1) for number in range(100)])
    merge(shop.repository.opened, rule=ALL)
    shop.run([("u0", -1)])
    shop.run([("u1", 1)])
    report = merge(shop.repository.opened, rule=MergeRule(ratio=4, least_rows=0))
    assert [one.inputs for one in report.merged] == [2]
    assert [(one.rows, one.sequence) for one in shop.live] == [(106, 6), (2, 8)]
    shop.check()
    shop.run([("u1", 1)])
    shop.check()


def test_tasks_merge_as_many_ranges_as_the_engine_runs_at_once_and_a_deadline_ends_the_call(shop: Shop) -> None:
    shop.run([(f"many{number}", 1) for number in range(40)])
    ranges = len(plan_merges(shop.repository.opened, RANGES))
    report = merge(shop.repository.opened, time.monotonic() - 1, rule=RANGES, engine=lambda: LocalEngine(2))
    assert len(report.merged) == 2 and len(report.left) == ranges - 2 > 1
    report = merge(shop.repository.opened, rule=RANGES, engine=lambda: LocalEngine(2))
    assert len(report.merged) == ranges - 2 and not report.left
    assert {int(name.rpartition("/ref-")[2][:10]) for name in shop.files_of_bases()} == set(range(1, ranges + 1))
    shop.check()


def test_files_of_tasks_are_stored_again_if_another_entry_has_their_number(shop: Shop) -> None:
    shop.run([(f"many{number}", 1) for number in range(40)])
    theirs = shop.open()

    class Overtaken(LocalEngine):
        def execute(self, work) -> list[bytes]:
            done = super().execute(work)
            if work.place.number == 1:
                theirs.adopt("a test", copy=True)
            return done

    report = merge(shop.repository.opened, rule=RANGES, engine=lambda: Overtaken(2))
    assert len(report.merged) > 3
    bases = shop.open().opened.refresh().bases
    assert [base.number for base in bases] == list(range(2, len(bases) + 2))
    assert all(f"/ref-{base.number:010d}-" in out.name for base in bases for out in base.outputs)
    assert shop.files_of_bases() == {out.name for base in bases for out in base.outputs}
    shop.check()


def test_files_of_a_task_that_ran_twice_are_garbage(shop: Shop) -> None:
    class Twice(LocalEngine):
        def execute(self, work) -> list[bytes]:
            super().execute(work)  # a speculative copy, whose result is not used
            return super().execute(work)

    merge(shop.repository.opened, rule=ALL, engine=lambda: Twice(1))
    assert len(shop.files_of_bases()) == 2
    assert collect_garbage(shop.repository.opened).deleted == 1
    assert len(shop.files_of_bases()) == 1
    shop.check()


@HERE_OR_IN_TASKS
def test_a_large_run_is_stored_in_parts(shop: Shop, engine, monkeypatch) -> None:
    monkeypatch.setattr("tidemill.batch.merging.LARGEST_COLUMN", 12)
    [merged] = merge(shop.repository.opened, rule=ALL, engine=engine).merged
    assert merged.outputs > 1
    shop.check()


def test_key_ranges_are_merged_one_by_one_and_a_deadline_ends_the_call(shop: Shop) -> None:
    shop.run([(f"many{number}", 1) for number in range(40)])
    ranges = len(plan_merges(shop.repository.opened, RANGES))
    assert ranges > 3
    for call in range(1, ranges + 1):
        seen: list[tuple[int, int]] = []
        report = merge(shop.repository.opened, time.monotonic() - 1, lambda *done: seen.append(done), RANGES)  # noqa: B023
        assert len(report.merged) == 1 and len(report.left) == ranges - call
        assert seen == [(1, ranges - call + 1)]
        shop.check()
    assert merge(shop.repository.opened, rule=RANGES).merged == []
    shop.run([("u0", 1)], tasks=3)
    shop.check()


def test_two_merges_at_once_leave_one_entry_and_no_files_of_the_other(shop: Shop) -> None:
    ours, theirs = shop.open().opened, shop.open().opened
    [planned] = plan_merges(ours, ALL)
    runs = merging._merge(ours, planned)
    assert len(merge(theirs, rule=ALL).merged) == 1
    assert merging._Recording(ours, planned, runs).record() is None
    assert len(shop.files_of_bases()) == 1
    shop.check()


def test_files_are_stored_again_under_the_number_of_their_entry(shop: Shop) -> None:
    """Another entry takes the number after the files were stored, and before the entry was created."""
    ours, theirs = shop.open(), shop.open()
    context = ours.opened
    [planned] = plan_merges(context, ALL)
    recording = merging._Recording(context, planned, merging._merge(context, planned))
    store = recording._store

    def stored_and_overtaken(number: int, stem: str):
        found = store(number, stem)
        if stem.startswith("ref-0000000001-"):
            theirs.adopt("a test", copy=True)
        return found

    recording._store = stored_and_overtaken  # type: ignore[method-assign]
    [segment] = recording.record()
    assert context.refs_log.read().through == 2
    assert "/ref-0000000002-" in segment.name
    assert shop.files_of_bases() == {segment.name}
    shop.check()


def test_an_operator_that_was_dropped_is_not_merged(shop: Shop) -> None:
    p = tm.Pipeline("shop")
    p.read(tm.Files(str(shop.base / "in"), format="json", schema="user string, n int")).groupBy("user").agg(
        n=tm.count(), name="other"
    )
    repository = tm.open(p, root=str(shop.base / "root"))
    repository.init(drop=["users"])
    assert plan_merges(repository.opened, ALL) == []


def test_an_operator_that_was_renamed_is_merged(shop: Shop) -> None:
    p = tm.Pipeline("shop")
    p.read(tm.Files(str(shop.base / "in"), format="json", schema="user string, n int")).groupBy("user").mapWithState(
        tm.StateSpec.function(total), stateSchema="long", outputSchema="user string, n long", name="people"
    )
    r = tm.open(p, root=str(shop.base / "root"))
    r.migrate(rename={"users": "people"}, reason="a test")
    before = r.state("people").sort_by("user")
    assert len(merge(r.opened, rule=ALL).merged) == 1
    assert merge(r.opened, rule=ALL).merged == []
    assert r.state("people").sort_by("user") == before
    assert r.verify(deep=True).problems == []


def test_the_ranges_of_a_plan_do_not_overlap(shop: Shop) -> None:
    shop.run([(f"many{number}", 1) for number in range(40)])
    bounds = sorted((one.lo, one.hi) for one in plan_merges(shop.repository.opened, RANGES))
    assert bounds[0][0] == 0 and bounds[-1][1] == HASH_END
    assert all(one[1] + 1 == other[0] for one, other in pairwise(bounds))


def test_files_of_an_ended_base_stay_until_every_run_knows_that_it_ended(shop: Shop, monkeypatch) -> None:
    from tidemill.state import layers

    context = shop.repository.opened
    [planned] = plan_merges(context, ALL)
    runs = merging._merge(context, planned)
    with monkeypatch.context() as patched:
        patched.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
        shop.run([("u2", -1)])
    with monkeypatch.context() as patched:
        patched.setattr(merging, "_is_live", lambda *_: True)  # it saw the head before the batch
        merging._Recording(context, planned, runs).record()
    [lost] = shop.files_of_bases()
    assert collect_garbage(context).deleted == 0 and context.refresh().bases_ended == 0  # older versions may use it
    shop.run([("u0", 1)])
    assert len(merge(context, rule=ALL).merged) == 1
    assert context.refresh().bases_ended == 2
    assert collect_garbage(context).deleted == 0 and lost in shop.files_of_bases()
    shop.run([("u0", 1)])
    collect_garbage(context)
    assert lost not in shop.files_of_bases() and len(shop.files_of_bases()) == 1
    assert [shop.seen(version)["all"] for version in range(8)] == [1, 2, 3, 4, 5, 5, 5, 5]
    shop.check()


def test_files_of_a_merge_that_died_are_garbage_once_another_entry_has_their_number(shop: Shop, monkeypatch) -> None:
    context = shop.repository.opened

    def die(**fields: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(merging, "Base", die)
        with pytest.raises(KeyboardInterrupt):
            merge(context, rule=ALL)
    [left] = shop.files_of_bases()
    assert collect_garbage(context).deleted == 0 and shop.files_of_bases() == {left}
    merge(context, rule=ALL)
    [found] = collect_garbage(context).found
    assert found.name == left
    assert len(shop.files_of_bases()) == 1
    shop.check()


@HERE_OR_IN_TASKS
def test_an_input_that_was_replaced_and_deleted_does_not_count_as_damage(shop: Shop, engine, monkeypatch) -> None:
    from tidemill.state import layers

    def batch_and_collect(*arguments: object) -> object:
        monkeypatch.setattr(where, "merged_runs", merge_)
        with monkeypatch.context() as patched:
            patched.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
            shop.run([("u2", -1)])
        assert shop.open().maintain(keep_versions=1).deleted > 0
        return merge_(*arguments)

    where = merging if engine is None else tasks_of_merges
    merge_ = where.merged_runs
    monkeypatch.setattr(where, "merged_runs", batch_and_collect)
    context = tm.open(shop.repository.opened.pipeline, root=str(shop.base / "root"), conf=UNCACHED).opened
    assert len(merge(context, rule=ALL, engine=engine).overtaken) == 1
    shop.check()


@HERE_OR_IN_TASKS
def test_a_damaged_input_is_an_error(shop: Shop, engine) -> None:
    name = shop.live[0].name
    shop.repository.opened.store.put(name, b"damaged")
    context = tm.open(shop.repository.opened.pipeline, root=str(shop.base / "root"), conf=UNCACHED).opened
    with pytest.raises(tm.CorruptState, match=f"read `{name}`: found checksum"):
        merge(context, rule=ALL, engine=engine)
    assert context.refresh().bases == []
