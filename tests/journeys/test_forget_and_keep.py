"""`forget(…, rewrite=True)`: earlier versions stay, with the rows of all other keys, and none shows the keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tests.crash import worlds
from tests.journeys.forgotten import ALICE, BOB, arrive, holding, is_clean, opened, shop, totals, world
from tests.journeys.test_forget_person import PERSONAL, SINKS, again, made, published, without
from tests.world import Build, World, over, run, state
from tidemill.cli.main import main
from tidemill.protocol import codec
from tidemill.protocol.entries import ENTRIES
from tidemill.protocol.records import FEATURES, PERSON, REWRITE
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge

KEPT = {"columns": {"spend": "who"}, "rewrite": True}


def forget_alice(r: tm.Repository, **options: object) -> object:
    return r.forget("spend", [ALICE], "request 17", **{**KEPT, **options})


def test_all_versions_stay_readable_and_none_shows_the_person(tmp_path: Path) -> None:
    r = made(tmp_path)
    before = [{name: r.state(name, version).to_pylist() for name in SINKS} for version in (0, 1)]
    rows = {name: published(tmp_path, name) for name in SINKS}
    outputs = {name: r.outputs(sink=name).to_pylist() for name in SINKS}
    done = r.forget(PERSONAL, "request 17", rewrite=True)
    assert (done.version, r.head.requires, done.versions, done.kept) == (2, [PERSON, REWRITE], None, (0, 1))
    assert done.removed == sorted(one.old for one in r.head.replaced_objects)
    for reader in (r, again(tmp_path).open()):
        for version in (0, 1):
            for name in SINKS:
                assert reader.state(name, version).to_pylist() == without(before[version][name])
        for name in SINKS:
            assert reader.outputs(sink=name).to_pylist() == without(outputs[name])
            assert published(tmp_path, name) == without(rows[name])
    found = r.verify(deep=True, forgotten=True)
    assert (found.problems, found.forgotten_keys) == ([], 1)


def test_the_rows_of_a_sink_that_is_left_stay_in_the_repository_as_they_are(tmp_path: Path) -> None:
    r = shop(tmp_path)
    before, there = r.outputs(sink="spend").to_pylist(), published(tmp_path, "spend")
    done = r.forget({"who": [ALICE]}, "request 17", rewrite=True, left=["sink spend"])
    assert done.left[0] == "sink `spend`: not searched, as you agreed"
    assert (r.outputs(sink="spend").to_pylist(), published(tmp_path, "spend")) == (before, there)
    assert r.verify(deep=True).problems == []
    assert (r.publish(0), published(tmp_path, "spend")) == ([0, 1], there)


def test_after_a_forget_that_gave_up_earlier_versions_none_can_be_kept(tmp_path: Path) -> None:
    r = shop(tmp_path)
    forget_alice(r, rewrite=False)
    for dry_run in (True, False):
        with pytest.raises(tm.InvalidInput, match="version 2 has removed the keys and gives up all earlier versions"):
            forget_alice(r, dry_run=dry_run)
    assert forget_alice(r, rewrite=False).version == 2


def test_history_differences_and_rewinds_work_across_the_forget(tmp_path: Path) -> None:
    r = shop(tmp_path)
    changes = [(one.version, one.value) for one in r.history("spend", "carol")]
    r.tag("first", 0)
    forget_alice(r)
    assert [(one.version, one.value) for one in r.history("spend", "carol")] == changes
    assert r.history("spend", ALICE) == []
    assert set(r.diff(0, 1, operator="spend").table.column("who").to_pylist()) == {"carol", None}
    assert state(r, "spend", "first") == {BOB: 7, "carol": 4, None: 6}
    lines = r.rewind("first", "a test", dry_run=True).lines()
    assert "keys that version 2 forgot are left out of these files" in lines
    r.rewind("first", "a test")
    assert totals(r) == {BOB: 7, "carol": 4, None: 6}
    run(r)
    assert totals(r) == {BOB: 7, "carol": 24, None: 36}
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_files_that_arrive_after_the_forget_bring_the_key_back_and_others_do_not(tmp_path: Path) -> None:
    r = shop(tmp_path)
    forget_alice(r)
    r.rewind(-1, "a test")
    arrive(tmp_path, (ALICE, 100), (BOB, 1))
    wide = opened(tmp_path, maxFilesPerTrigger=None)
    assert run(wide) == [4, 5]
    assert totals(wide) == {ALICE: 100, BOB: 8, "carol": 24, None: 36}


def test_a_replay_leaves_the_key_out_and_can_be_promoted(tmp_path: Path) -> None:
    r = shop(tmp_path)
    forget_alice(r)
    expected = totals(r)
    done = r.replay(0, into="fix", engine="local")
    assert done.replayed == [0, 1]
    assert state(world(tmp_path).open(branch="fix", init=False), "spend") == expected
    r.promote("fix")
    assert totals(r) == expected
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_both_ways_say_what_they_cost(tmp_path: Path) -> None:
    r = shop(tmp_path)
    plain = r.forget("spend", [ALICE], "request 17", columns={"spend": "who"}, dry_run=True)
    kept = forget_alice(r, dry_run=True)
    assert r.head.version == 1
    assert "versions 0–1 will no longer be readable" in plain.lines()
    [line] = [one for one in plain.lines() if "--rewrite" in one]
    assert line == (f"`--rewrite` would keep them; it has to read {plain.objects} objects ({plain.size:,} bytes)")
    [line] = [one for one in kept.lines() if "--rewrite" in one]
    assert line == (
        f"versions 0–1 stay readable: {kept.objects} objects ({kept.size:,} bytes) with the keys will be rewritten; "
        "without `--rewrite`, these versions would be given up"
    )
    said = kept.as_dict()
    assert (said["rewrite"], said["given_up"], said["kept"]) == (True, None, [0, 1])
    assert (said["rewrite_objects"], said["rewrite_bytes"]) == (kept.objects, kept.size)
    assert 0 < kept.objects <= plain.objects and 0 < kept.size <= plain.size
    done = forget_alice(r, expect=kept)
    assert len(r.head.replaced_objects) == kept.objects == len(done.removed)


def test_the_command_says_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shop(tmp_path)
    capfd.readouterr()
    code = tmp_path / "shop.py"
    code.write_text(
        "import tidemill as tm\np = tm.Pipeline('shop')\n"
        f"rows = p.read(tm.Files({str(tmp_path / 'in')!r}, format='json', schema='who string, n int'), name='source')\n"
        f"rows.groupBy('who').agg(total=tm.sum('n'), name='spend').write(tm.Parquet({str(tmp_path / 'out')!r}))\n"
    )
    words = ["forget", f"{code}:p", "--operator", "spend", "--key", ALICE, "--column", "spend=who", "--reason", "x"]
    assert main([*words, "--rewrite", "--root", str(tmp_path / "root"), "--json"]) == 0
    said = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (said["rewrite"], said["kept"], said["given_up"]) == (True, [0, 1], None)
    assert holding(tmp_path, ALICE) == []


def test_tags_stay_and_branches_are_refused_or_dropped(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.tag("first", 0)
    r.branch("fix", 0)
    with pytest.raises(tm.InvalidInput, match=r"branch `fix` \(version 0\) may have the keys in other versions"):
        forget_alice(r)
    done = forget_alice(r, drop_refs=True)
    assert done.dropped == ["branch `fix` (version 0)"]
    refs = r.opened.refresh()
    assert (list(refs.tags), list(refs.branches), refs.rewrote_at) == (["first"], ["main"], 2)
    r.branch("later", "first")
    assert state(world(tmp_path).open(branch="later", init=False), "spend") == {BOB: 7, "carol": 4, None: 6}


def test_a_forget_of_everything_before_still_can_follow(tmp_path: Path) -> None:
    r = shop(tmp_path)
    forget_alice(r)
    plain = r.forget("spend", [ALICE], "request 18", columns={"spend": "who"})
    assert (plain.done_in, plain.versions) == (None, (0, 2))
    with pytest.raises(tm.InvalidInput, match="no longer kept"):
        r.state("spend", 0)
    assert is_clean(r)


def test_a_second_forget_rewrites_what_the_first_one_has_stored(tmp_path: Path) -> None:
    r = shop(tmp_path)
    forget_alice(r)
    r.forget("spend", [BOB], "request 18", **KEPT)
    assert state(r, "spend", 0) == {"carol": 4, None: 6} == state(opened(tmp_path), "spend", 0)
    r.rewind(-1, "a test")
    run(r)
    assert totals(r) == {"carol": 24, None: 36}
    assert holding(tmp_path, ALICE) == holding(tmp_path, BOB) == [] and is_clean(r)


def test_a_reader_that_was_open_before_reads_earlier_versions(tmp_path: Path) -> None:
    r = shop(tmp_path)
    reader = opened(tmp_path)
    assert len(state(reader, "spend", 0)) == 4
    forget_alice(r)
    assert state(reader, "spend", 0) == {BOB: 7, "carol": 4, None: 6}
    assert opened(tmp_path).diff(0, 1, operator="spend").changed == 2


def test_a_call_that_died_after_its_commit_shows_nothing_and_is_completed(tmp_path: Path) -> None:
    for name, complete in (("a", lambda r: r.maintain()), ("b", forget_alice)):
        folder = tmp_path / name
        r = shop(folder)
        with worlds.dying("create", r"/commits/0000000002\.json$", "after"):
            forget_alice(r)
        later = opened(folder)
        assert state(later, "spend", 0) == {BOB: 7, "carol": 4, None: 6}
        assert holding(folder, ALICE) != []
        with pytest.raises(tm.InvalidInput, match="the `forget` of version 2 has not ended"):
            later.branch("fix", 0)
        complete(later)
        assert holding(folder, ALICE) == [] and is_clean(later)
        assert later.opened.refresh().rewrote_at == 2 and later.head.version == 2


def seeded(folder: Path) -> World:
    def add(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        state.update((state.getOption or 0) + row.n)
        return (key, state.get)

    spec = tm.StateSpec.function(add).initialState([(ALICE, 5), (BOB, 10)])
    build = over(lambda s: s.groupBy("who").mapWithState(spec, "bigint", "who string, n bigint", name="spend"))
    made = World(folder, build, schema="who string, n int")
    made.arrive([(ALICE, 1), (BOB, 1)], [(BOB, 1)])
    made.run()
    return made


def test_initial_state_is_replaced_and_version_minus_one_can_be_restored(tmp_path: Path) -> None:
    r = seeded(tmp_path).open()
    forget_alice(r)
    assert state(r, "spend", -1) == {BOB: 10}
    r.rewind(-1, "a test")
    run(r)
    assert state(r, "spend") == {BOB: 12}
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_initial_state_that_no_version_names_any_more_is_replaced(tmp_path: Path) -> None:
    folder = seeded(tmp_path)
    assert merge(folder.open().opened, rule=MergeRule(1 << 40, 0)).merged
    folder.arrive([(BOB, 1)])
    folder.run()
    r = folder.open()
    r.maintain(keep_versions=1)
    forget_alice(r)
    assert holding(tmp_path, ALICE) == [] and is_clean(r)
    assert state(r, "spend", -1) == {BOB: 10} and state(r, "spend") == {BOB: 13}


def test_rows_that_cannot_be_searched_are_an_error_unless_they_are_left(tmp_path: Path) -> None:
    r = shop(tmp_path)
    with pytest.raises(tm.InvalidInput, match="earlier versions keep the rows of sink `spend`, and no column says"):
        r.forget("spend", [ALICE], "request 17", rewrite=True)
    assert r.head.version == 1
    done = r.forget("spend", [ALICE], "request 17", rewrite=True, left=["sink spend"])
    assert done.agreed == ["sink `spend`"] and state(r, "spend", 0) == {BOB: 7, "carol": 4, None: 6}


def test_versions_before_a_migration_of_keys_are_refused(tmp_path: Path) -> None:
    def tracked(kind: str) -> Build:
        def count(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
            state.update((state.getOption or 0) + 1)
            return (key, state.get)

        spec = tm.StateSpec.function(count)
        return over(lambda s: s.groupBy("who").mapWithState(spec, kind, "who string, n bigint", name="spend"))

    before = World(tmp_path, tracked("bigint"), schema="who string, n int")
    before.arrive([(ALICE, 1), (BOB, 1)])
    before.run()
    now = before.but(tracked("string"))

    def upper(table: pa.Table) -> pa.Table:
        texts = table.set_column(1, "state", table["state"].cast("string"))
        return texts.set_column(0, "who", pc.utf8_upper(table["who"]))

    r = now.open(init=False)
    r.migrate({"spend": upper}, "a test", drop_keys=True, engine="local")
    keep = {"columns": {"spend": "who"}, "rewrite": True}
    with pytest.raises(tm.InvalidInput, match="in version 0, operator `spend` has other keys, because a migr") as error:
        r.forget("spend", [ALICE.upper()], "request 17", **keep)
    assert "`tidemill maintain --keep-versions 1`" in str(error.value.hint)
    r.maintain(keep_versions=1)
    r.forget("spend", [ALICE.upper()], "request 17", **keep)
    assert state(r, "spend", 1) == {BOB.upper(): "1"}


def test_older_releases_refuse_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = shop(tmp_path)
    forget_alice(r)
    monkeypatch.setattr(codec, "FEATURES", FEATURES - {REWRITE})
    with pytest.raises(tm.InvalidInput, match="it requires forget-rewrite; it was written by a newer Tidemill"):
        opened(tmp_path).state("spend")
    monkeypatch.setattr(codec, "ENTRIES", {kind: of for kind, of in ENTRIES.items() if kind != "rewrite"})
    with pytest.raises(tm.InvalidInput, match="it is of kind 'rewrite'; it was written by a newer Tidemill"):
        tm.open(world(tmp_path).pipeline(), root=str(tmp_path / "root")).state("spend")
