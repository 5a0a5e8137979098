"""`forget(…, rewrite=True)` and rows in quarantine, requeued rows, rows that no sink has, replays, and backups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.forgotten import ALICE, BOB, holding, is_clean
from tests.world import World, run, state

PERSON = {"who": [ALICE]}


def build(p: tm.Pipeline, world: World) -> None:
    rows = world.read(p)
    rows.groupBy("who").agg(total=tm.sum("n"), name="spend").write(tm.Json(world.out))
    rows.groupBy("who").agg(total=tm.sum("n"), name="plain")


def requeued(folder: Path) -> tm.Repository:
    """Version 0 quarantines a row of each of two keys, version 1 gives both back, and version 2 reads them."""
    world = World(folder, build, schema="who string, n int", mode="PERMISSIVE")
    world.arrive(f"{ALICE},x\n{BOB},y\n{BOB},1\n")
    r = world.open()
    run(r)
    rows = r.quarantine(0, export=True)
    fixed = pa.Table.from_pylist(
        [row | {"who": row["_text"].split(",")[0], "n": 10 + place} for place, row in enumerate(rows.to_pylist())],
        schema=rows.schema,
    )
    r.requeue(0, rows=fixed, reason="corrected")
    run(r)
    assert state(r, "spend") == {ALICE: 10, BOB: 12}
    return r


def test_quarantined_rows_keep_their_numbers_and_only_the_place_of_the_others_is_left(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    before = r.quarantine(0, export=True).to_pylist()
    done = r.forget(PERSON, "request 17", rewrite=True)
    assert list(done.quarantined_rows.values()) == [1] and r.head.quarantine == []
    gone, left = r.quarantine(0, export=True).to_pylist()
    assert left == before[1]
    assert r.quarantine(limit=21).to_pylist() == r.quarantine().to_pylist() != []
    assert (gone["_row_id"], gone["_kind"], gone["_text"], gone["_reason"]) == (0, "forgotten", None, None)
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_rows_that_wait_in_an_earlier_version_come_back_without_the_key(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    r.forget(PERSON, "request 17", rewrite=True)
    r.rewind(1, "a test")
    assert run(r) == [5] and state(r, "spend") == {BOB: 12}
    with pytest.raises(tm.InvalidInput, match="were requeued|was requeued"):
        r.requeue(0, reason="again")
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_the_other_rows_can_be_requeued_later_and_replayed(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    r.forget(PERSON, "request 17", rewrite=True)
    expected = state(r, "spend")
    done = r.replay(0, into="fix", engine="local")
    assert done.replayed == [0, 1, 2]
    fix = World(tmp_path, build, schema="who string, n int", mode="PERMISSIVE").open(branch="fix", init=False)
    assert state(fix, "spend") == expected
    r.promote("fix")
    assert state(r, "spend") == expected and holding(tmp_path, ALICE) == [] and is_clean(r)
    r.rewind(0, "a test")
    rows = r.quarantine(0, export=True).to_pylist()
    schema = r.quarantine(0, export=True).schema
    with pytest.raises(tm.InvalidInput, match="of these rows, a `forget` has left nothing"):
        r.requeue(0, rows=pa.Table.from_pylist(rows[:1], schema=schema), reason="corrected")
    fixed = pa.Table.from_pylist([rows[0], rows[1] | {"who": BOB, "n": 50}], schema=schema)
    r.requeue(0, rows=fixed, reason="corrected")
    run(r)
    assert state(r, "spend") == {BOB: 51} and holding(tmp_path, ALICE) == []


def test_outputs_that_no_sink_publishes_are_searched(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    with pytest.raises(tm.InvalidInput, match="earlier versions keep the rows of sink `plain`"):
        r.forget("spend", [ALICE], "request 17", columns={"spend": "who"}, rewrite=True)
    r.forget("spend", [ALICE], "request 17", columns={"spend": "who", "plain": "who"}, rewrite=True)
    assert {row["who"] for row in r.outputs(sink="plain").to_pylist()} == {BOB}
    assert state(r, "plain", 2) == {ALICE: 10, BOB: 12}
    r.forget(PERSON, "request 17", rewrite=True)
    assert {row["who"] for row in r.outputs(sink="plain").to_pylist()} == {BOB}
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_a_replay_of_one_operator_leaves_the_key_out(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    r.forget(PERSON, "request 17", rewrite=True)
    r.replay(0, into="fix", operators=["spend"], engine="local")
    r.promote("fix")
    assert state(r, "spend") == {BOB: 12} and holding(tmp_path, ALICE) == [] and is_clean(r)


def test_a_batch_of_several_tasks_leaves_the_key_out(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    r.forget(PERSON, "request 17", rewrite=True)
    r.rewind(-1, "a test")
    made = [one.version for one in r.run(engine="local", tasks=3)]
    assert made == [5] and state(r, "spend") == {BOB: 1}
    assert {row["who"] for row in r.outputs(5, "plain").to_pylist()} == {BOB}
    assert holding(tmp_path, ALICE) == [] and is_clean(r)


def test_backups_that_bring_objects_back_are_found_and_collected(tmp_path: Path) -> None:
    r = requeued(tmp_path)
    store = r.opened.store
    before: dict[str, Any] = {one.name: store.get(one.name) for one in store.list("state/spend/")}
    r.forget(PERSON, "request 17", rewrite=True)
    for name, data in before.items():
        store.put(name, data)
    assert {one.what for one in r.verify(forgotten=True).problems} == {"it holds a forgotten key"}
    r.maintain()
    assert holding(tmp_path, ALICE) == [] and is_clean(r)
