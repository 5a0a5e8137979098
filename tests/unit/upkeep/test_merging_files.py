"""Files of merges: in tasks, in parts, of merges that met or died."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tidemill as tm
from tests.unit.upkeep.merged import ALL, HERE_OR_IN_TASKS, RANGES, Shop
from tidemill.batch import merging as tasks_of_merges
from tidemill.engines.local import LocalEngine
from tidemill.upkeep import merging
from tidemill.upkeep.collect import collect_garbage
from tidemill.upkeep.merging import merge, plan_merges

UNCACHED = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path)
    for number in range(5):
        found.batch([(f"u{number}", 1), ("all", 1)])
    return found


def test_tasks_merge_as_many_ranges_as_the_engine_runs_at_once_and_a_deadline_ends_the_call(shop: Shop) -> None:
    shop.batch([(f"many{number}", 1) for number in range(40)])
    ranges = len(plan_merges(shop.repository.opened, RANGES))
    report = merge(shop.repository.opened, time.monotonic() - 1, rule=RANGES, engine=lambda: LocalEngine(2))
    assert len(report.merged) == 2 and len(report.left) == ranges - 2 > 1
    report = merge(shop.repository.opened, rule=RANGES, engine=lambda: LocalEngine(2))
    assert len(report.merged) == ranges - 2 and not report.left
    assert {int(name.rpartition("/ref-")[2][:10]) for name in shop.files_of_bases()} == set(range(1, ranges + 1))
    shop.check()


def test_files_of_tasks_are_stored_again_if_another_entry_has_their_number(shop: Shop) -> None:
    shop.batch([(f"many{number}", 1) for number in range(40)])
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
    shop.batch([(f"many{number}", 1) for number in range(40)])
    ranges = len(plan_merges(shop.repository.opened, RANGES))
    assert ranges > 3
    for call in range(1, ranges + 1):
        seen: list[tuple[int, int]] = []
        report = merge(shop.repository.opened, time.monotonic() - 1, lambda *done: seen.append(done), RANGES)  # noqa: B023
        assert len(report.merged) == 1 and len(report.left) == ranges - call
        assert seen == [(1, ranges - call + 1)]
        shop.check()
    assert merge(shop.repository.opened, rule=RANGES).merged == []
    shop.batch([("u0", 1)], tasks=3)
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


def test_files_of_an_ended_base_stay_until_every_run_knows_that_it_ended(shop: Shop, monkeypatch) -> None:
    from tidemill.state import layers

    context = shop.repository.opened
    [planned] = plan_merges(context, ALL)
    runs = merging._merge(context, planned)
    with monkeypatch.context() as patched:
        patched.setattr(layers, "_layers_to_merge", lambda rows, changed: len(rows) + 1)
        shop.batch([("u2", -1)])
    with monkeypatch.context() as patched:
        patched.setattr(merging, "_is_live", lambda *_: True)  # it saw the head before the batch
        merging._Recording(context, planned, runs).record()
    [lost] = shop.files_of_bases()
    assert collect_garbage(context).deleted == 0 and context.refresh().bases_ended == 0  # older versions may use it
    shop.batch([("u0", 1)])
    assert len(merge(context, rule=ALL).merged) == 1
    assert context.refresh().bases_ended == 2
    assert collect_garbage(context).deleted == 0 and lost in shop.files_of_bases()
    shop.batch([("u0", 1)])
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
            shop.batch([("u2", -1)])
        assert shop.open().maintain(keep_versions=1).deleted > 0
        return merge_(*arguments)

    where = merging if engine is None else tasks_of_merges
    merge_ = where.merged_runs
    monkeypatch.setattr(where, "merged_runs", batch_and_collect)
    context = shop.open(conf=UNCACHED).opened
    assert len(merge(context, rule=ALL, engine=engine).overtaken) == 1
    shop.check()


@HERE_OR_IN_TASKS
def test_a_damaged_input_is_an_error(shop: Shop, engine) -> None:
    name = shop.live[0].name
    shop.repository.opened.store.put(name, b"damaged")
    context = shop.open(conf=UNCACHED).opened
    with pytest.raises(tm.CorruptState, match=f"read `{name}`: found checksum"):
        merge(context, rule=ALL, engine=engine)
    assert context.refresh().bases == []
