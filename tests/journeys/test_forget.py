"""Forgetting keys: afterwards no object of the repository and no published file has them, and everything else stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.forgotten import (
    ALICE,
    BOB,
    SINKS,
    _same,
    arrive,
    holding,
    is_clean,
    objects,
    opened,
    shop,
    totals,
    world,
)
from tests.world import Build, over, run
from tidemill.actions.forget import Forget
from tidemill.forgetting import published as forgotten_files
from tidemill.forgetting import state as forgotten_state
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge


def published(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the sink: who, total, version, place in the version."""
    rows = []
    for path in sorted((folder / "out").rglob("*.*")):
        if path.suffix == ".parquet":
            found = pq.ParquetFile(path).read().to_pylist()
        else:
            found = [json.loads(line) for line in path.read_text().splitlines()]
        folders = dict(part.split("=") for part in path.relative_to(folder / "out").parts[:-1])
        rows += [{**row, **folders} for row in found]
    none = (None, "__HIVE_DEFAULT_PARTITION__")
    return sorted(("" if row.get("who") in none else row["who"], int(row["total"]), row["_batch_id"], row["_seq"])
                  for row in rows)  # fmt: skip


def kept(function: Any) -> Build:
    """What a function makes of the rows of a key is its state; rows for which it fails go to quarantine."""
    spec = tm.StateSpec.function(function)
    return over(
        lambda rows: rows.groupBy("who").mapWithState(spec, "int", "who string", name="last", on_error="quarantine")
    )


def without(rows: list[tuple[Any, ...]], *who: str) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] not in who]


@pytest.mark.parametrize("name", list(SINKS))
def test_no_object_and_no_published_file_has_the_key_and_all_other_rows_stay(name: str, tmp_path: Path) -> None:
    r = shop(tmp_path, sink=SINKS[name](tmp_path))
    before, rows = totals(r), published(tmp_path)
    made = r.forget("spend", [ALICE], "art. 17", columns={"spend": "who"})
    assert (made.version, made.keys, made.rows, made.versions) == (2, 1, {"partials": 1}, (0, 1))
    assert len(made.rewritten) >= 3 and made.removed
    left = holding(tmp_path, ALICE)
    assert all("/commits/" in one or "/published/" in one for one in left)
    if "by key" in name:  # records are never changed, and the report says which ones name the folder
        assert left and any("partition folder has the key" in one for one in made.left)
    else:
        assert left == []
    assert totals(r) == {who: total for who, total in before.items() if who != ALICE}
    assert published(tmp_path) == without(rows, ALICE)
    assert is_clean(r)
    assert run(opened(tmp_path, sink=SINKS[name](tmp_path))) == []


def test_a_null_key_is_forgotten_and_text_that_is_no_null_stays(tmp_path: Path) -> None:
    r = shop(tmp_path)
    rows = published(tmp_path)
    r.forget("spend", [None], "a test", columns={"spend": "who"})
    assert totals(r) == {ALICE: 14, BOB: 7, "carol": 24}
    assert published(tmp_path) == without(rows, "")
    assert is_clean(r)


def test_several_keys_go_in_one_commit_and_a_key_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    r = shop(tmp_path)
    made = r.forget("spend", [ALICE, BOB, ALICE], "a test", columns={"spend": ["who"]})
    assert (made.keys, made.rows) == (2, {"partials": 2})
    assert holding(tmp_path, ALICE) == holding(tmp_path, BOB) == []
    assert len(r.head.forgotten[0].hashes) == 2


def test_the_commit_has_a_salted_hash_and_two_calls_have_different_salts(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test")
    r.forget("spend", [BOB], "a test")
    one, two = r.opened.log.forgotten(r.head)
    assert one.salt != two.salt and one.hashes != two.hashes
    assert ALICE not in (tmp_path / "root/shop/branches/main/commits/0000000002.json").read_text()


def test_only_a_forget_commit_has_its_keys_and_later_commits_name_the_last_one(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    r.forget("spend", [BOB], "a test", columns={"spend": "who"})
    arrive(tmp_path, ("dave", 1))
    run(r)
    assert [(len(one.forgotten), one.forgotten_at) for one in r.opened.log.commits(2)] == [(1, None), (1, 2), (0, 3)]
    assert [one.version for one in r.opened.log.forgotten(r.head)] == [2, 3]
    arrive(tmp_path, (BOB, 1), (ALICE, 1))
    run(r)
    problems = r.verify(forgotten=True).problems
    assert {one.affects for one in problems} == {
        "state of `spend`", "rows of sink `spend`", "readers of sink `spend`"
    }  # fmt: skip
    assert {one.what for one in problems} == {"it holds 2 forgotten keys"}


def test_earlier_versions_cannot_be_read_nor_restored_and_later_ones_can(tmp_path: Path) -> None:
    r = shop(tmp_path)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    arrive(tmp_path, ("dave", 1))
    assert run(r) == [3]
    for version in (0, 1):
        with pytest.raises(tm.InvalidInput, match="no longer kept"):
            r.state("spend", version=version)
        with pytest.raises(tm.InvalidInput, match="no longer kept"):
            r.rewind(version, "a test")
    with pytest.raises(tm.InvalidInput, match="version 2 forgot keys"):
        r.rewind(-1, "a test")
    r.rewind(2, "a test")
    assert totals(r) == {BOB: 7, "carol": 24, None: 36}
    assert is_clean(r)
    assert [one.kind for one in r.log()] == ["rewind", "batch", "forget"]


def test_state_that_was_merged_by_maintain_goes_too(tmp_path: Path) -> None:
    r = shop(tmp_path)
    merge(r.opened, rule=MergeRule(1 << 40, 0))
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert holding(tmp_path, ALICE) == []
    assert is_clean(r)
    arrive(tmp_path, (BOB, 1))
    run(r)
    merge(r.opened, rule=MergeRule(1 << 40, 0))
    r.maintain()
    assert totals(r) == {BOB: 8, "carol": 24, None: 36}
    assert is_clean(r)


def test_segments_of_many_ranges_keep_what_they_show(tmp_path: Path) -> None:
    for number in range(4):
        arrive(tmp_path, *((f"user-{one}", one) for one in range(number, 400, 3)))
    r = opened(tmp_path)
    for tasks in (5, 3, 1, 4):
        run(r, max_batches=1, tasks=tasks)
    before = totals(r)
    gone = [f"user-{one}" for one in (3, 77, 250)]
    r.forget("spend", gone, "a test", columns={"spend": "who"})
    assert totals(r) == {who: total for who, total in before.items() if who not in gone}
    assert is_clean(r)


def test_a_removed_key_whose_tombstone_is_left_goes_from_all_runs(tmp_path: Path) -> None:
    def gone(batch_time: Any, who: Any, row: Any, state: Any) -> Any:
        state.remove() if row.n < 0 else state.update(row.n)

    arrive(tmp_path, *((f"u{one}", one) for one in range(100)), (ALICE, 1))
    arrive(tmp_path, (ALICE, -1), (BOB, 1))
    r = world(tmp_path).but(kept(gone)).open()
    run(r)
    with pytest.raises(tm.InvalidInput, match="has no state for the key"):
        r.forget("last", [ALICE], "a test")
    assert holding(tmp_path, ALICE)
    made = r.forget("last", [ALICE], "a test", missing_ok=True)
    assert made.rows == {} and made.rewritten
    assert holding(tmp_path, ALICE) == []
    assert r.state("last").num_rows == 101
    assert is_clean(r)


def test_initial_state_goes_and_so_do_keys_that_were_only_there(tmp_path: Path) -> None:
    seed = pa.table({"who": [ALICE, BOB], "state": [1.0, 2.0]})
    spec = tm.StateSpec.function(lambda t, who, row, state: state.update(row.n * 1.0)).initialState(seed)
    seeded = world(tmp_path).but(
        over(lambda rows: rows.groupBy("who").mapWithState(spec, "double", "who string", name="spend"))
    )
    r = seeded.open()
    assert holding(tmp_path, ALICE)
    arrive(tmp_path, ("carol", 1))
    run(r)
    r.forget("spend", [ALICE], "a test")
    assert holding(tmp_path, ALICE) == []
    assert sorted(r.state("spend")["who"].to_pylist()) == [BOB, "carol"]
    assert is_clean(r)
    assert run(seeded.open(init=False)) == []


def test_a_file_that_was_moved_is_reported_and_the_others_are_written_again(tmp_path: Path) -> None:
    r = shop(tmp_path)
    first, second = sorted((tmp_path / "out").glob("*.parquet"))
    shutil.move(first, tmp_path / "taken.parquet")
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert any("not there any more" in one and first.name in one for one in made.left)
    assert not second.exists()
    assert [row[0] for row in published(tmp_path)] == ["", "carol"]
    assert is_clean(r)


def test_a_published_file_that_was_altered_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    r = shop(tmp_path, sink=tm.Json(str(tmp_path / "out")))
    one = sorted((tmp_path / "out").glob("*.json"))[0]
    one.write_text(one.read_text() + "\n")
    before = dict(objects(tmp_path / "root"))
    with pytest.raises(tm.CorruptState, match="was published"):
        r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert _same(dict(objects(tmp_path / "root")), before)


def test_files_that_a_rewind_or_an_earlier_forget_published_again_are_written_again(tmp_path: Path) -> None:
    r = shop(tmp_path)
    rows = published(tmp_path)
    r.rewind(0, "a test")
    r.rewind(1, "a test")  # version 3 shows the rows of version 1
    assert published(tmp_path) == rows
    r.forget("spend", [BOB], "a test", columns={"spend": "who"})
    assert published(tmp_path) == without(rows, BOB)
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert published(tmp_path) == without(rows, ALICE, BOB)
    assert holding(tmp_path, ALICE) == holding(tmp_path, BOB) == []
    assert is_clean(r)
    assert r.publish(r.head.version) == [r.head.version]
    assert published(tmp_path) == without(rows, ALICE, BOB)


def test_rows_of_versions_that_were_rewound_do_not_come_back(tmp_path: Path) -> None:
    r = shop(tmp_path, schema="who string, n int", mode="PERMISSIVE")
    world(tmp_path).put("bad", f"not json of {BOB}\nnor this\n")
    run(r)
    r.rewind(1, "a test", without=["bad.json"])
    assert r.quarantine().num_rows == 0
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert r.quarantine().num_rows == 0 and made.quarantined_rows == {}
    assert holding(tmp_path, BOB) != [] and is_clean(r)


def test_a_copy_that_a_stalled_publisher_made_later_is_withdrawn_by_maintain(tmp_path: Path) -> None:
    r = shop(tmp_path)
    old = sorted((tmp_path / "out").glob("*.parquet"))[0]
    data = old.read_bytes()
    r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    old.write_bytes(data)
    assert not is_clean(r)
    assert r.maintain().strays == {"spend": [old.name]}
    assert not old.exists() and is_clean(r)


def test_quarantined_rows_of_the_key_go_and_those_of_others_stay(tmp_path: Path) -> None:
    r = opened(tmp_path, mode="PERMISSIVE", schema="who string, n int")
    lines = [
        {"who": ALICE, "n": 1}, {"who": ALICE, "n": "x"}, {"who": BOB, "n": "y"}, {"n": "of " + ALICE},
    ]  # fmt: skip
    text = "".join(json.dumps(one) + "\n" for one in lines)
    escaped = '{"who": "\\u0061lice-7391", "n": "z"}\n'
    world(tmp_path).put("a", text + escaped + f"not json {ALICE}\nnot json {BOB}\n")
    run(r)
    assert r.quarantine().num_rows == 6
    made = r.forget("spend", [ALICE], "a test", columns={"spend": "who"})
    assert list(made.quarantined_rows.values()) == [4]
    assert [BOB in one for one in r.quarantine()["text"].to_pylist()] == [True, True]
    assert holding(tmp_path, ALICE) == []
    assert is_clean(r)


def test_a_message_that_names_the_key_stays_in_its_record_and_is_reported(tmp_path: Path) -> None:
    def fails(batch_time: Any, who: Any, row: Any, state: Any) -> Any:
        if row.n > 5:
            raise ValueError(f"no more than 5 for {who}")
        state.update(row.n)

    arrive(tmp_path, (ALICE, 1), (BOB, 1))
    arrive(tmp_path, (ALICE, 9))
    r = world(tmp_path).but(kept(fails)).open()
    run(r)
    made = r.forget("last", [ALICE], "a test")
    record = "branches/main/commits/0000000001.json"
    assert holding(tmp_path, ALICE) == [str(tmp_path / "root" / "shop" / record)]
    assert any(record in one and "message of a failed key" in one for one in made.left)
    assert r.quarantine().num_rows == 0
    assert is_clean(r)


def test_requeued_rows_that_wait_are_refused_and_quarantine_without_the_key_is_still_exported(tmp_path: Path) -> None:
    r = opened(tmp_path, mode="PERMISSIVE", schema="who string, n int")
    world(tmp_path).put("a", [{"who": ALICE, "n": "x"}, {"who": BOB, "n": "y"}])
    run(r)
    rows = r.quarantine(0, export=True).to_pylist()
    corrected = pa.Table.from_pylist([{**row, "who": BOB, "n": 5} for row in rows if BOB in str(row)])
    r.requeue(0, rows=corrected)
    with pytest.raises(tm.InvalidInput, match="requeued rows wait for the next batch"):
        r.forget("spend", [BOB], "a test")
    assert run(r) == [2]
    assert holding(tmp_path, BOB)
    r.forget("spend", [BOB], "a test", columns={"spend": "who"})
    assert holding(tmp_path, BOB) == [] and is_clean(r)
    assert [ALICE in text for text in r.quarantine(3)["text"].to_pylist()] == [True]
    with pytest.raises(tm.InvalidInput):
        r.requeue(3)


def three(folder: Path) -> tm.Repository:
    """Three batches, of which one has the key."""
    for rows in ([(BOB, 2)], [(ALICE, 1), (BOB, 5)], [("carol", 4)]):
        arrive(folder, *rows)
    r = opened(folder)
    run(r)
    return r


def test_what_the_look_found_without_the_key_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = three(tmp_path)
    reads: list[str] = []
    with_keys, filtered = forgotten_state._with_keys, forgotten_files._filtered
    monkeypatch.setattr(forgotten_state, "_with_keys", lambda *given: reads.append(given[2].name) or with_keys(*given))
    monkeypatch.setattr(forgotten_files, "_filtered", lambda *given: reads.append(given[2].uri) or filtered(*given))
    report = r.forget("spend", [ALICE], "why", {"spend": "who"})
    twice = {name for name in reads if reads.count(name) == 2}
    assert twice == set(report.rewritten) and len(set(reads)) > len(twice) >= 2
    assert r.verify(deep=True, forgotten=True).problems == []
    assert set(pq.read_table(tmp_path / "out")["who"].to_pylist()) == {BOB, "carol"}


def test_an_object_that_was_merged_after_the_look_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = three(tmp_path)
    hold = Forget.hold

    def merged(self: Forget, repo: Any, plan: Any) -> None:
        assert merge(opened(tmp_path).opened, rule=MergeRule(1 << 40, 0)).merged
        repo.refresh()
        hold(self, repo, plan)

    monkeypatch.setattr(Forget, "hold", merged)
    r.forget("spend", [ALICE], "why", {"spend": "who"})
    assert r.verify(deep=True, forgotten=True).problems == []
