"""Quarantined rows that come back: unreadable rows corrected in a file, failed keys, late rows. Files are real.

The naive model: after the rows came back, the state equals that of a pipeline that read the correct rows as a file in
that later batch.
"""

from __future__ import annotations

import contextlib
import csv
import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.requeued import GOOD, Shop, begin, failed, failing, fails_for_b
from tests.world import Build, World, run, state

CORRECT = "id,k,n,ts\n2,b,20,2024-01-01T00:00:02\n3,a,30,2024-01-01T00:00:03\n"


def modelled(folder: Path) -> dict[str, Any]:
    """What a pipeline sees that read the correct rows as a file of a later batch."""
    shop = begin(folder)
    shop.put("2.csv", CORRECT)
    shop.run()
    shop.put("3.csv", GOOD)
    shop.run()
    return shop.seen()


def corrected(path: Path, ending: str) -> Path:
    """Correct the exported file as a user does."""
    if ending == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        names = rows[0]
        for row in rows[1:]:
            cells = row[names.index("_text")].split(",")
            for name, cell in zip(("id", "k", "ts"), (cells[0], cells[1], cells[3]), strict=True):
                row[names.index(name)] = cell
            row[names.index("n")] = str(10 * int(cells[0]))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return path
    if ending == ".json":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            cells = row["_text"].split(",")
            row |= {"id": int(cells[0]), "k": cells[1], "n": 10 * int(cells[0]), "ts": cells[3]}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        cells = row["_text"].split(",")
        row |= {"id": int(cells[0]), "k": cells[1], "n": 10 * int(cells[0])}
        row["ts"] = datetime.fromisoformat(cells[3] + "Z")
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return path


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_corrected_rows_give_the_state_of_a_later_file(ending: str, tasks: int, tmp_path: Path) -> None:
    from tidemill.returning.export import write_export

    shop = begin(tmp_path / "shop", tasks)
    r = shop.open()
    file = tmp_path / f"rows{ending}"
    write_export(r.quarantine(0, export=True), file)
    made = r.requeue(0, rows=corrected(file, ending), reason="typing errors")
    assert (made.kind, made.reason, made.version) == ("requeue", "typing errors", 1)
    shop.put("3.csv", GOOD)
    assert r.status().requeued_rows == {"shop": 2}
    shop.run()
    assert [(c.kind, c.counts.input_rows, c.counts.applied_rows, c.counts.quarantined_rows) for c in r.commits()] == [
        ("batch", 3, 1, 2), ("requeue", 0, 0, 0), ("batch", 2, 2, 0), ("batch", 2, 2, 0),
    ]  # fmt: skip
    assert shop.seen() == modelled(tmp_path / "model")
    assert r.status().requeued_rows == {}


@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_of_a_failed_key_come_back_only_to_the_operator_that_failed(tasks: int, tmp_path: Path) -> None:
    shop = failed(tmp_path, tasks)
    before = shop.seen()
    assert before["totals"] == {"a": (10,)}
    r = shop.open()
    rows = r.quarantine(0, export=True).to_pylist()
    places = [(row["_file"], row["_file_row"], row["_kind"], row["_operator"], row["id"], row["n"]) for row in rows]
    assert sorted(places) == [
        ("1.csv", 2, "failed", "totals", 2, 20), ("1.csv", 3, "failed", "totals", 3, 30),
        ("2.csv", 1, "failed", "totals", 4, 40),
    ]  # fmt: skip
    r.requeue(0)
    shop.run()
    after = shop.seen()
    assert after["totals"] == {"a": (10,), "b": (90,)}
    assert {name: after[name] for name in ("counts", "plain")} == {name: before[name] for name in ("counts", "plain")}
    counts = r.head.counts
    assert (counts.input_rows, counts.applied_rows, counts.quarantined_rows, counts.input_files) == (3, 3, 0, 1)
    assert not r.verify(deep=True).problems


def test_the_dry_run_names_a_column_that_the_source_has_since(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    later = shop.having(schema="id int, k string, n int, ts timestamp, note string")
    [line] = later.open(init=False).requeue(0, dry_run=True).lines()
    assert line.endswith("by operator `totals`; column `note` is new since, and null in them")


def test_rows_of_a_failed_key_can_be_corrected(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = failing(shop).open()
    rows = r.quarantine(0, export=True)
    renamed = rows.set_column(rows.column_names.index("k"), "k", pa.array(["z"] * rows.num_rows))
    r.requeue(0, rows=renamed.slice(0, 2).select(["_row_id", "_version", "ts", "n", "k", "id"]))
    failing(shop).run()
    assert r.quarantine().column("requeued").to_pylist() == [1, 1, None]
    assert r.quarantine(0, 2).column("requeued").to_pylist() == [1, 1]
    [standing] = r.which("1.csv")
    assert (standing.quarantined_rows, standing.requeued_rows) == (2, {"1": 2})
    assert standing.line().endswith("; 2 rows of it in quarantine; 2 rows requeued by version 1")
    assert r.which("2.csv")[0].requeued_rows == {}
    assert shop.seen()["totals"] == {"a": (10,), "z": (50,)}
    r.requeue(0, rows=renamed.slice(2))  # the rest, later
    failing(shop).run()
    assert shop.seen()["totals"] == {"a": (10,), "z": (90,)}
    assert r.quarantine(source="shop").column("requeued").to_pylist() == [1, 1, 3]
    r.rewind(2, "see the last one again")
    assert r.quarantine().column("requeued").to_pylist() == [1, 1, None]
    r.maintain(keep_versions=1)
    assert r.which("2.csv")[0].requeued_rows is None, "the rows are no longer kept"


def test_rows_that_fail_again_are_quarantined_again_and_can_come_back_from_there(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open()
    r.requeue(0)
    failing(shop).run()
    assert (r.head.version, r.head.counts.quarantined_rows) == (2, 3)
    places = [("1.csv", 2), ("1.csv", 3), ("2.csv", 1)]
    for version in (0, 2):
        assert [(row["file"], row["row"]) for row in r.quarantine(version).to_pylist()] == places
    exported = r.quarantine(2, export=True).to_pylist()
    assert [(row["_file"], row["_file_row"]) for row in exported] == places
    r.requeue(2)
    failing(shop).run()
    assert [(row["file"], row["row"]) for row in r.quarantine(4).to_pylist()] == places
    r.requeue(4)
    with pytest.raises(tm.TidemillError, match="of files `1.csv`, `2.csv`, which version 4 quarantined"):
        shop.having(fails_for_b).run()
    shop.run()
    assert shop.seen()["totals"] == {"a": (10,), "b": (90,)}
    with pytest.raises(tm.InvalidInput, match="requeue version 0: row 0 .* was requeued already by version 1"):
        r.requeue(0)


def windowed(late: str, max_ahead: str | None) -> Build:
    def last(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if row is not None and not state.isTimingOut:
            state.update((state.getOption or 0) + row.n)
        return None

    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(lambda plan: 1_704_067_200_000 + 1000 * len(plan.splits[0].path))  # 2024-01-01, and seconds
        read = world.read(p, "shop", mode="FAILFAST")
        rows = read.withWatermark("ts", "1 second", late=late, maxAhead=max_ahead)
        for name, hours in (("long", 4), ("short", 2)):
            rows.groupBy("k").mapWithState(
                tm.StateSpec.function(last).timeout(f"{hours} hours", clock="event"), "bigint", "int", name=name
            )
        read.groupBy("k").agg(rows=tm.count(), name="counts")
        rows.select("id").write(tm.Json(world.sink("ids")), name="ids")

    return build


class Late(Shop):
    def late(self, late: str, max_ahead: str | None = None) -> Late:
        return self.but(windowed(late, max_ahead))

    def states(self) -> dict[str, Any]:
        r = self.open(init=False)
        found = {name: state(r, name) for name in ("long", "short", "counts")}
        return {**found, "ids": sorted(r.outputs(sink="ids").column("id").to_pylist())}


@pytest.mark.parametrize("tasks", [1, 3])
def test_late_rows_come_back_once_their_watermark_keeps_late_rows(tasks: int, tmp_path: Path) -> None:
    shop = Late(tmp_path, tasks)
    shop.put("1.csv", "id,k,n,ts\n1,a,1,2024-01-01T10:00:00\n")
    quarantining, keeping = shop.late("quarantine"), shop.late("keep")
    quarantining.open()
    quarantining.run()
    shop.put("2.csv", "id,k,n,ts\n2,a,5,2024-01-01T01:00:00\n3,b,7,2024-01-01T10:00:01\n")
    quarantining.run()
    strict = quarantining.open()
    assert (strict.head.counts.late_rows, strict.head.counts.applied_rows) == (1, 1)
    (row,) = strict.quarantine(1, export=True).to_pylist()
    assert (row["_kind"], row["_operator"], row["_file_row"], row["id"], row["n"]) == ("late", "long,short", 1, 2, 5)
    with pytest.raises(
        tm.InvalidInput,
        match=r'row 0 \(file `2.csv`, row 1\): it is late for operator `long` and `short`, .*expected late="keep"',
    ):
        strict.requeue(1)
    assert strict.head.version == 1
    before = keeping.states()
    keeping.open(init=False).requeue(1)
    keeping.run()
    after = keeping.states()
    assert (after["long"], after["short"]) == ({"a": 6, "b": 7}, {"a": 6, "b": 7})
    assert (after["counts"], after["ids"]) == (before["counts"], before["ids"])
    counts = strict.head.counts
    assert (counts.input_rows, counts.late_rows + counts.applied_rows) == (1, 1)


def test_rows_too_far_ahead_come_back_below_their_watermark_alone(tmp_path: Path) -> None:
    shop = Late(tmp_path).late("keep", "1 day")
    shop.put("1.csv", "id,k,n,ts\n1,a,1,2024-01-01T10:00:00\n2,b,2,2034-01-01T10:00:00\n")
    r = shop.open()
    shop.run()
    (row,) = r.quarantine(0, export=True).to_pylist()
    assert (row["_kind"], row["_operator"], row["id"]) == ("ahead", "long,short", 2)
    assert shop.states() == {"long": {"a": 1}, "short": {"a": 1}, "counts": {"a": 1, "b": 1}, "ids": [1]}
    rows = r.quarantine(0, export=True)
    time = pa.array([datetime.fromisoformat("2024-01-01T09:00:00Z")], rows.schema.field("ts").type)
    r.requeue(0, rows=rows.set_column(rows.column_names.index("ts"), "ts", time))
    shop.run()
    both = {"a": 1, "b": 2}
    assert shop.states() == {"long": both, "short": both, "counts": {"a": 1, "b": 1}, "ids": [1, 2]}


def test_unreadable_rows_are_parsed_again_by_the_schema_that_the_source_has_now(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "shop").sql("SELECT k, CAST(n AS DOUBLE) AS n FROM rows")
        rows.groupBy("k").agg(n=tm.sum("n"), name="sums")

    world = World(tmp_path, build, schema="k string, n int", header=True, mode="PERMISSIVE")
    world.put("1", 'k,n\na,1\nb,1.5\n"x, y",2.5\nc,"3,5"\n')
    r = world.open()
    run(r)
    still = r"it is still unreadable: column `n`: found `1.5`, expected int\nrow 1 .*\nrow 2"
    with pytest.raises(
        tm.InvalidInput, match=r"3 of 3 rows cannot come back: row 0 \(file `1.csv`, line 3\): " + still
    ):
        r.requeue(0)
    wider = world.but(schema="k string, n double").open()
    with pytest.raises(tm.InvalidInput, match=r"1 of 3 rows cannot come back: row 2 .* found `3,5`, expected double"):
        wider.requeue(0)
    rows = wider.quarantine(0, export=True).slice(2)
    for name, value in (("k", pa.array(["c"])), ("n", pa.array([3.5]))):
        rows = rows.set_column(rows.column_names.index(name), name, value)
    wider.requeue(0, source="shop", rows=rows)
    run(wider, tasks=3)
    assert state(wider, "sums") == {"a": 1.0, "c": 3.5}


def test_steps_see_the_whole_row_and_the_file_that_it_was_first_read_from(tmp_path: Path) -> None:
    fails = [True]

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if fails:
            raise ValueError("not yet")
        state.update(f"{row.name} {row.dt} {row.double} {row.items}")
        return None

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql(
            "SELECT k, dt, n * 2 AS double, len(more) AS items, _metadata.file_name AS name FROM rows WHERE n > 0"
        )
        spec = tm.StateSpec.function(track)
        rows.groupBy("k").mapWithState(spec, "string", "int", name="op", on_error="quarantine")

    world = World(tmp_path, build, format="json", schema="k string, n int, more array<int>, dt date")
    world.put("dt=2024-01-02/1.json", [{"k": "b", "n": 3, "more": [1, 2]}])
    r = world.open()
    run(r)
    for version in (0, 2):
        (row,) = r.quarantine(version, export=True).to_pylist()
        assert (row["k"], row["n"], row["more"], str(row["dt"])) == ("b", 3, [1, 2], "2024-01-02")
        r.requeue(version)
        if version:
            fails.clear()
        run(r)
    assert r.state("op").column("state").to_pylist() == ["1.json 2024-01-02 6 2"]


def test_rows_come_back_to_several_sources_and_branches_of_a_union(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        both = world.read(p, "one", "one").unionByName(world.read(p, "two", "two"))
        both.groupBy("k").agg(n=tm.sum("n"), name="sums")

    world = World(tmp_path, build, schema="k string, n int", header=True, mode="PERMISSIVE")
    for name, text in (("one", "k,n\na,1\nb,x\n"), ("two", "k,n\na,2\nc,y\n")):
        world.put("1", text, name)
    r = world.open()
    run(r)
    assert r.quarantine(0, source="two").column("text").to_pylist() == ["c,y"]
    given = r.quarantine(0, export=True).to_pylist()
    rows = [row | {"k": row["_text"][0], "n": 10} for row in given]
    fixed = pa.Table.from_pylist(rows, schema=r.quarantine(0, export=True).schema)
    made = r.requeue(0, rows=fixed, source=None)
    assert [(split.source, split.requeued.rows) for split in made.requeued] == [("one", 1), ("two", 1)]
    run(r, tasks=2)
    assert state(r, "sums") == {"a": 3, "b": 10, "c": 10}
    assert r.head.counts.input_rows == 2
    with pytest.raises(tm.InvalidInput, match="there is no row"):
        r.requeue(0, source="one", rows=fixed)


def test_corrected_rows_of_one_source_come_back_if_another_has_the_column_with_another_type(tmp_path: Path) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        for name, schema in (("one", "k string, n int"), ("two", "n string, k int")):
            world.read(p, name, name, schema=schema).groupBy("k").agg(rows=tm.count(), name=f"of-{name}")

    world = World(tmp_path, build, mode="PERMISSIVE")
    world.put("1", "b,x\n", "one")
    world.put("1", "y,z\n", "two")
    r = world.open()
    run(r)
    with pytest.raises(tm.InvalidInput, match="export one source at a time"):
        r.quarantine(0, export=True)
    given = r.quarantine(0, source="one", export=True)
    fixed = pa.Table.from_pylist([row | {"k": "b", "n": 1} for row in given.to_pylist()], schema=given.schema)
    r.requeue(0, source="one", rows=fixed)
    run(r)
    assert state(r, "of-one") == {"b": 1}


def test_rows_of_a_random_mix_of_failures_come_back_to_the_state_without_failures(tmp_path: Path) -> None:
    """The model: sums of all rows, each once. Functions fail at random for some keys until they are repaired."""
    chance = random.Random(20)
    bad = set("bd")

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if key in bad:
            raise ValueError("bad key")
        state.update((state.getOption or 0) + row.n)
        return (key, row.n)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p)
        rows.groupBy("k").mapWithState(
            tm.StateSpec.function(track), "bigint", "k string, n int", name="sums", on_error="quarantine"
        )
        rows.groupBy("k").agg(n=tm.sum("n"), rows=tm.count(), name="all")

    world = World(tmp_path, build, schema="k string, n int", mode="PERMISSIVE", maxFilesPerTrigger=2)
    r = world.open()
    model: dict[str, int] = {}
    lost: list[int] = []
    for turn in range(12):
        for _ in range(chance.randrange(3)):
            given = [(chance.choice("abcde"), chance.randrange(100)) for _ in range(chance.randrange(1, 30))]
            for key, n in given:
                model[key] = model.get(key, 0) + n
            world.arrive(given)
        run(r, tasks=chance.choice([1, 2, 3]))
        if turn in (6, 9):
            bad.pop()
        for commit in r.commits(since=len(lost)):
            lost.append(commit.version)
            if commit.quarantine and chance.random() < 0.6:
                r.requeue(commit.version)
        for commit in list(r.commits()):
            assert commit.counts.applied_rows + commit.counts.quarantined_rows == commit.counts.input_rows
    bad.clear()
    for _ in range(3):
        for commit in list(r.commits()):
            with contextlib.suppress(tm.InvalidInput):  # nothing in quarantine, or requeued already
                r.requeue(commit.version)
        run(r, tasks=2)
    assert state(r, "sums") == state(r, "all") == model
    assert not r.verify(deep=True).problems
