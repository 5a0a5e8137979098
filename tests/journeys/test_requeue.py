"""Quarantined rows that come back: unreadable rows corrected in a file, failed keys, late rows. Files are real.

The naive model: after the rows came back, the state equals that of a pipeline that read the correct rows as a file in
that later batch.
"""

from __future__ import annotations

import contextlib
import csv
import json
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm

SCHEMA = "id int, k string, n int, ts timestamp"
BROKEN = {1: "id,k,n,ts\n1,a,10,2024-01-01T00:00:01\n2,b,oops,2024-01-01T00:00:02\n3,a,x,2024-01-01T00:00:03\n"}
GOOD = "id,k,n,ts\n4,a,1,2024-01-01T00:00:04\n5,c,2,2024-01-01T00:00:05\n"
CORRECT = "id,k,n,ts\n2,b,20,2024-01-01T00:00:02\n3,a,30,2024-01-01T00:00:03\n"


def add(key: Any, row: Any, state: Any) -> Any:
    state.update((state.getOption or 0) + row.n)
    return (key, state.get)


def fails_for_b(key: Any, row: Any, state: Any) -> Any:
    if key == "b":
        raise ValueError("no b today")
    return add(key, row, state)


def by_key(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
    return add(key, row, state)


def pipeline(
    folder: Path, late: str = "drop", function: Any = None, on_error: str = "fail", **options: Any
) -> tm.Pipeline:
    p = tm.Pipeline("shop")
    rows = p.read(
        tm.Files(
            str(folder), format="csv", header=True, schema=options.pop("schema", SCHEMA), mode="PERMISSIVE", **options
        ),
        name="shop",
    )
    called = function or add

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        return called(key, row, state)

    rows.groupBy("k").mapWithState(
        tm.StateSpec.function(track), "bigint", "k string, total bigint", name="totals", on_error=on_error
    )
    rows.groupBy("k").agg(rows=tm.count(), n=tm.sum("n"), name="counts")
    rows.select("id", "n").write(tm.Json(str(folder.parent / "plain")), name="plain")
    return p


class Shop:
    """A folder with files, and a repository beside it."""

    def __init__(self, folder: Path, tasks: int = 1) -> None:
        self.inbox, self.root, self.tasks = folder / "inbox", folder / "root", tasks
        self.inbox.mkdir(parents=True)

    def put(self, name: str, text: str) -> None:
        (self.inbox / name).write_text(text)

    def open(self, **options: Any) -> tm.Repository:
        return tm.open(pipeline(self.inbox, **options), root=str(self.root))

    def run(self, **options: Any) -> list[Any]:
        return self.open(**options).run(engine="local", tasks=self.tasks)

    def seen(self, **options: Any) -> dict[str, Any]:
        r = self.open(**options)
        return {
            **{name: {row["k"]: tuple(row[c] for c in row if c not in ("k", "updated_at", "deadline"))
                      for row in r.state(name).to_pylist()} for name in ("totals", "counts")},
            "plain": sorted((row["id"], row["n"]) for row in r.outputs(sink="plain").to_pylist()),
        }  # fmt: skip


def begin(folder: Path, tasks: int = 1, **options: Any) -> Shop:
    shop = Shop(folder, tasks)
    shop.put("1.csv", BROKEN[1])
    shop.open(**options).init()
    shop.run(**options)
    return shop


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


def failed(folder: Path, tasks: int = 1) -> Shop:
    """The function failed for key `b`, whose rows are in quarantine, in two files."""
    shop = Shop(folder, tasks)
    shop.put("1.csv", "id,k,n,ts\n1,a,10,2024-01-01T00:00:01\n2,b,20,2024-01-01T00:00:02\n3,b,30,2024-01-01T00:00:03\n")
    shop.put("2.csv", "id,k,n,ts\n4,b,40,2024-01-01T00:00:04\n")
    shop.open().init()
    shop.run(function=fails_for_b, on_error="quarantine")
    return shop


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


def test_rows_of_a_failed_key_can_be_corrected(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open(function=fails_for_b, on_error="quarantine")
    rows = r.quarantine(0, export=True)
    renamed = rows.set_column(rows.column_names.index("k"), "k", pa.array(["z"] * rows.num_rows))
    r.requeue(0, rows=renamed.slice(0, 2).select(["_row_id", "_version", "ts", "n", "k", "id"]))
    shop.run(function=fails_for_b, on_error="quarantine")
    assert shop.seen()["totals"] == {"a": (10,), "z": (50,)}
    r.requeue(0, rows=renamed.slice(2))  # the rest, later
    shop.run(function=fails_for_b, on_error="quarantine")
    assert shop.seen()["totals"] == {"a": (10,), "z": (90,)}


def test_rows_that_fail_again_are_quarantined_again_and_can_come_back_from_there(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open()
    r.requeue(0)
    shop.run(function=fails_for_b, on_error="quarantine")
    assert (r.head.version, r.head.counts.quarantined_rows) == (2, 3)
    assert {file[:15] for file in r.quarantine(2).column("file").to_pylist()} == {"/requeued/main/"}
    r.requeue(2)
    shop.run()
    assert shop.seen()["totals"] == {"a": (10,), "b": (90,)}
    with pytest.raises(tm.InvalidInput, match="requeue version 0: row 0 .* was requeued already by version 1"):
        r.requeue(0)


def windowed(folder: Path, late: str, max_ahead: str | None = None) -> tm.Pipeline:
    p = tm.Pipeline("late")
    p.batch_time(lambda plan: 1_704_067_200_000 + 1000 * len(plan.splits[0].path))  # 2024-01-01, and seconds
    read = p.read(tm.Files(str(folder), format="csv", header=True, schema=SCHEMA), name="shop")
    rows = read.withWatermark("ts", "1 second", late=late, maxAhead=max_ahead)

    def last(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if row is not None and not state.isTimingOut:
            state.update((state.getOption or 0) + row.n)
        return None

    for name, hours in (("long", 4), ("short", 2)):
        rows.groupBy("k").mapWithState(
            tm.StateSpec.function(last).timeout(f"{hours} hours", clock="event"), "bigint", "int", name=name
        )
    read.groupBy("k").agg(rows=tm.count(), name="counts")
    rows.select("id").write(tm.Json(str(folder.parent / "ids")), name="ids")
    return p


class Late(Shop):
    def open(self, **options: Any) -> tm.Repository:
        return tm.open(windowed(self.inbox, **options), root=str(self.root))

    def states(self, **options: Any) -> dict[str, Any]:
        r = self.open(**options)
        found = {name: {row["k"]: row["state"] for row in r.state(name).to_pylist()} for name in ("long", "short")}
        counts = {row["k"]: row["rows"] for row in r.state("counts").to_pylist()}
        return {**found, "counts": counts, "ids": sorted(r.outputs(sink="ids").column("id").to_pylist())}


@pytest.mark.parametrize("tasks", [1, 3])
def test_late_rows_come_back_once_their_watermark_keeps_late_rows(tasks: int, tmp_path: Path) -> None:
    shop = Late(tmp_path, tasks)
    shop.put("1.csv", "id,k,n,ts\n1,a,1,2024-01-01T10:00:00\n")
    shop.open(late="quarantine").init()
    shop.run(late="quarantine")
    shop.put("2.csv", "id,k,n,ts\n2,a,5,2024-01-01T01:00:00\n3,b,7,2024-01-01T10:00:01\n")
    shop.run(late="quarantine")
    strict = shop.open(late="quarantine")
    assert (strict.head.counts.late_rows, strict.head.counts.applied_rows) == (1, 1)
    (row,) = strict.quarantine(1, export=True).to_pylist()
    assert (row["_kind"], row["_operator"], row["_file_row"], row["id"], row["n"]) == ("late", "long,short", 1, 2, 5)
    with pytest.raises(
        tm.InvalidInput,
        match=r'row 0 \(file `2.csv`, row 1\): it is late for operator `long` and `short`, .*expected late="keep"',
    ):
        strict.requeue(1)
    assert strict.head.version == 1
    before = shop.states(late="keep")
    shop.open(late="keep").requeue(1)
    shop.run(late="keep")
    after = shop.states(late="keep")
    assert (after["long"], after["short"]) == ({"a": 6, "b": 7}, {"a": 6, "b": 7})
    assert (after["counts"], after["ids"]) == (before["counts"], before["ids"])
    counts = strict.head.counts
    assert (counts.input_rows, counts.late_rows + counts.applied_rows) == (1, 1)


def test_rows_too_far_ahead_come_back_below_their_watermark_alone(tmp_path: Path) -> None:
    shop = Late(tmp_path)
    options = {"late": "keep", "max_ahead": "1 day"}
    shop.put("1.csv", "id,k,n,ts\n1,a,1,2024-01-01T10:00:00\n2,b,2,2034-01-01T10:00:00\n")
    shop.open(**options).init()
    shop.run(**options)
    r = shop.open(**options)
    (row,) = r.quarantine(0, export=True).to_pylist()
    assert (row["_kind"], row["_operator"], row["id"]) == ("ahead", "long,short", 2)
    assert shop.states(**options) == {"long": {"a": 1}, "short": {"a": 1}, "counts": {"a": 1, "b": 1}, "ids": [1]}
    rows = r.quarantine(0, export=True)
    time = pa.array([datetime.fromisoformat("2024-01-01T09:00:00Z")], rows.schema.field("ts").type)
    r.requeue(0, rows=rows.set_column(rows.column_names.index("ts"), "ts", time))
    shop.run(**options)
    both = {"a": 1, "b": 2}
    assert shop.states(**options) == {"long": both, "short": both, "counts": {"a": 1, "b": 1}, "ids": [1, 2]}


def test_unreadable_rows_are_parsed_again_by_the_schema_that_the_source_has_now(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.csv").write_text('k,n\na,1\nb,1.5\n"x, y",2.5\nc,"3,5"\n')

    def open_with(schema: str) -> tm.Repository:
        p = tm.Pipeline("parsed")
        rows = p.read(tm.Files(str(inbox), format="csv", header=True, schema=schema, mode="PERMISSIVE"), name="shop")
        rows.sql("SELECT k, CAST(n AS DOUBLE) AS n FROM rows").groupBy("k").agg(n=tm.sum("n"), name="sums")
        return tm.open(p, root=str(tmp_path / "root"))

    r = open_with("k string, n int")
    r.init()
    r.run(engine="local")
    still = r"it is still unreadable: column `n`: found `1.5`, expected int\nrow 1 .*\nrow 2"
    with pytest.raises(
        tm.InvalidInput, match=r"3 of 3 rows cannot come back: row 0 \(file `1.csv`, line 3\): " + still
    ):
        r.requeue(0)
    wider = open_with("k string, n double")
    with pytest.raises(tm.InvalidInput, match=r"1 of 3 rows cannot come back: row 2 .* found `3,5`, expected double"):
        wider.requeue(0)
    rows = wider.quarantine(0, export=True).slice(2)
    for name, value in (("k", pa.array(["c"])), ("n", pa.array([3.5]))):
        rows = rows.set_column(rows.column_names.index(name), name, value)
    wider.requeue(0, source="shop", rows=rows)
    wider.run(engine="local", tasks=3)
    assert {row["k"]: row["n"] for row in wider.state("sums").to_pylist()} == {"a": 1.0, "c": 3.5}


def test_steps_see_the_whole_row_and_the_file_that_it_was_first_read_from(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    (inbox / "dt=2024-01-02").mkdir(parents=True)
    (inbox / "dt=2024-01-02" / "1.json").write_text('{"k": "b", "n": 3, "more": [1, 2]}\n')
    fails = [True]

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if fails:
            raise ValueError("not yet")
        state.update(f"{row.name} {row.dt} {row.double} {row.items}")
        return None

    p = tm.Pipeline("steps")
    rows = p.read(tm.Files(str(inbox), format="json", schema="k string, n int, more array<int>, dt date"), name="in")
    rows.sql(
        "SELECT k, dt, n * 2 AS double, len(more) AS items, _metadata.file_name AS name FROM rows WHERE n > 0"
    ).groupBy("k").mapWithState(tm.StateSpec.function(track), "string", "int", name="op", on_error="quarantine")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    for version in (0, 2):
        (row,) = r.quarantine(version, export=True).to_pylist()
        assert (row["k"], row["n"], row["more"], str(row["dt"])) == ("b", 3, [1, 2], "2024-01-02")
        r.requeue(version)
        if version:
            fails.clear()
        r.run(engine="local")
    assert r.state("op").column("state").to_pylist() == ["1.json 2024-01-02 6 2"]


def test_columns_of_the_source_with_names_of_the_export_get_a_prefix(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.json").write_text('{"_version": 1, "_Kind": "x"}\n{"_version": "no", "_Kind": "y"}\n')
    p = tm.Pipeline("names")
    rows = p.read(tm.Files(str(inbox), format="json", schema="_version int, _Kind string", mode="PERMISSIVE"))
    rows.groupBy("_Kind").agg(n=tm.sum("_version"), name="op")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    found = r.quarantine(0, export=True)
    assert found.column_names[-3:] == ["source._version", "source._Kind", "_text"]
    for name, value in (("source._version", pa.array([5], pa.int32())), ("source._Kind", pa.array(["y"]))):
        found = found.set_column(found.column_names.index(name), name, value)
    r.requeue(0, rows=found)
    r.run(engine="local")
    assert {row["_Kind"]: row["n"] for row in r.state("op").to_pylist()} == {"x": 1, "y": 5}


def test_rows_without_a_place_in_a_file_cannot_come_back_and_say_why(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.json").write_text('{"k": "a", "n": 1}\n{"k": "b", "n": 2}\n')

    def fail(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        raise ValueError("never")

    def halved(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1)

    p = tm.Pipeline("lost")
    read = p.read(tm.Files(str(inbox), format="json", schema="k string, n int"))
    first = read.map_batches(halved, "k string, n int").groupBy("k")
    first.mapWithState(tm.StateSpec.function(fail), "int", "int", name="after-map", on_error="quarantine")
    sums = read.groupBy("k").agg(n=tm.sum("n"), name="sums", outputMode="update")
    sums.groupBy("k").mapWithState(tm.StateSpec.function(fail), "int", "int", name="behind", on_error="quarantine")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    rows = r.quarantine(0, export=True)
    ids = {row["_operator"]: row["_row_id"] for row in rows.to_pylist()}
    with pytest.raises(tm.InvalidInput, match="operator `behind` got it from another operator, not from a source"):
        r.requeue(0)
    with pytest.raises(tm.InvalidInput, match="the whole row is not known, because a step before the operator"):
        r.requeue(0, source="source")
    given = pa.table({"_version": [0], "_row_id": [ids["after-map"]], "k": ["z"], "n": pa.array([9], pa.int32())})
    assert r.requeue(0, rows=given).requeued[0].requeued.operators == ("after-map",)


def test_requeued_rows_are_read_before_files_and_wait_again_after_replan(tmp_path: Path) -> None:
    shop = begin(tmp_path)
    r = shop.open()
    rows = r.quarantine(0, export=True).slice(0, 1)
    for name, value in (("id", 2), ("k", "b"), ("n", 20)):
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, pa.array([value], rows.schema.field(name).type))
    r.requeue(0, rows=rows)
    shop.put("3.csv", GOOD)

    def fails(key: Any, row: Any, state: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(tm.InvalidInput, match="broken"):
        shop.run(function=fails)
    plan = r.opened.log.plan(2, r.opened.origin(r.head).parent)
    assert [split.path[:10] for split in plan.splits] == ["/requeued/"]
    assert plan.outstanding_files == 1
    assert r.head.batch_time_ms <= plan.batch_time_ms <= plan.oldest_waiting_ms
    with pytest.raises(tm.InvalidInput, match="unknown file to skip"):
        r.skip(plan.splits[0].path, "not a file")
    r.replan("broken code")
    assert r.status().requeued_rows == {"shop": 1}
    shop.run()
    assert [(c.kind, c.counts.input_rows) for c in r.commits()][2:] == [("void", 0), ("batch", 1), ("batch", 2)]
    assert shop.seen()["totals"] == {"a": (11,), "b": (20,), "c": (2,)}


def test_a_requeue_ends_an_open_plan_and_a_sweep_does_not_pass_rows_that_wait(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    shop.put("3.csv", GOOD)

    def fails(key: Any, row: Any, state: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(tm.InvalidInput, match="broken"):
        shop.run(function=fails)
    r = shop.open()
    assert r.requeue(0, dry_run=True).lines() == [
        "3 rows of source `shop` that version 0 quarantined (failed) will be read again by operator `totals`",
        "the plan of version 1 ends, and its files are planned again",
    ]
    made = r.requeue(0)
    assert (made.version, made.plan_id == r.opened.log.plan(1, r.opened.origin(r.commit(0)).parent).plan_id) == (
        1,
        True,
    )
    assert r.sweep(engine="local") == []
    assert [split.requeued.rows for split in r.head.waiting] == [3]


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_damaged_requeued_rows_are_found_by_verify_and_by_the_batch(damage: str, tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open()
    made = r.requeue(0)
    (file,) = (tmp_path / "root" / "shop" / "requeued" / "main").iterdir()
    assert made.requeued[0].path == f"/requeued/main/{file.name}"
    file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:-1] + b"!")
    problems = r.verify(deep=True).problems
    assert [problem.object for problem in problems] == [f"requeued/main/{file.name}"]
    with pytest.raises(tm.CorruptState, match=f"read the requeued rows `requeued/main/{file.name}`"):
        shop.run()


ROW = {"_version": 0, "_row_id": 0, "id": 2, "k": "b", "n": 20, "ts": None}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.requeue(7), "read version 7 of branch `main` in .*: versions go from 0 to 1"),
        (lambda r: r.requeue(-1), "requeue version -1: it is before the first batch, so nothing was quarantined"),
        (lambda r: r.requeue(None), "requeue: the version is missing"),
        (lambda r: r.requeue("0"), "version='0', expected a whole number"),
        (lambda r: r.requeue(1), "requeue version 1: it quarantined no rows"),
        (lambda r: r.requeue(0, source="shpo"), "unknown source `shpo`; did you mean `shop`"),
        (lambda r: r.requeue(0, reason=None), "requeue: found reason=None, expected text"),
        (lambda r: r.requeue(0, rows=[ROW]), "requeue: rows=list, expected a pyarrow.Table or the path of a"),
        (lambda r: r.requeue(0, rows="gone.csv"), "requeue: there is no file `gone.csv` with corrected rows"),
        (lambda r: r.requeue(0, rows="rows.xlsx"), "expected a name that ends in .parquet, .csv, .json"),
        (lambda r: r.requeue(0, rows=table(_version=3)), "found corrected rows of version 3"),
        (lambda r: r.requeue(0, rows=table(_row_id=9)), "there is no row 9 among the 2 rows that it quarantined"),
        (lambda r: r.requeue(0, rows=table(_row_id=None)), "found a corrected row without `_row_id`"),
        (lambda r: r.requeue(0, rows=pa.concat_tables([table(), table()])), "row 0 is given 2 times"),
        (lambda r: r.requeue(0, rows=table().slice(0, 0)), "found no corrected rows, expected at least one"),
        (lambda r: r.requeue(0, rows=table().drop_columns(["_row_id"])), "corrected rows have no column `_row_id`"),
        (lambda r: r.requeue(0, rows=table().drop_columns(["n"])), "rows of source `shop`: column `n` is missing"),
        (lambda r: r.requeue(0, rows=table(m=1)), "unknown column of corrected rows `m`"),
        (lambda r: r.requeue(0, rows=table(n="many")), "corrected rows: column `n`"),
        (lambda r: r.requeue(0, rows=table(id=None, k=None, n=None)), "row 0 .* all its columns are still empty"),
        (lambda r: r.requeue(0), "2 of 2 rows cannot come back: row 0 .file `1.csv`, line 3.: it is still unreadable"),
    ],
)
def test_bad_input_is_one_clear_error_and_changes_nothing(
    call: Callable[[tm.Repository], Any], message: str, unchanged: Shop
) -> None:
    before = sorted(unchanged.root.rglob("*"))
    with pytest.raises(tm.InvalidInput, match=message):
        call(unchanged.open())
    assert sorted(unchanged.root.rglob("*")) == before


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Version 0 quarantined two rows, version 1 none."""
    shop = begin(tmp_path_factory.mktemp("bad"))
    shop.put("2.csv", GOOD)
    shop.run()
    return shop


def table(**changed: Any) -> pa.Table:
    types = {"_version": pa.int64(), "_row_id": pa.int64(), "id": pa.int32(), "n": pa.int32(), "k": pa.string()}
    row = {**ROW, **changed}
    kinds = {name: types.get(name) if not isinstance(value, str) else None for name, value in row.items()}
    kinds["ts"] = pa.timestamp("us", "UTC")
    return pa.table({name: pa.array([value], kinds[name]) for name, value in row.items()})


def test_an_invalid_corrected_file_names_line_and_column(tmp_path: Path) -> None:
    shop = begin(tmp_path)
    for text, message in (
        ("_version,_row_id,id,k,n,ts\n0,0,2,b,many,\n", r"line 2, column `n`: found `many`, expected int"),
        ("_version,_row_id,id,k,m,ts\n0,0,2,b,1,\n", "the header has `m`, which the schema lacks"),
        ("", "found no corrected rows, expected at least one"),
    ):
        (tmp_path / "fixed.csv").write_text(text)
        with pytest.raises(tm.InvalidInput, match=message):
            shop.open().requeue(0, rows=tmp_path / "fixed.csv")
    (tmp_path / "fixed.parquet").write_bytes(b"no")
    with pytest.raises(tm.InvalidInput, match="requeue: read the corrected rows in"):
        shop.open().requeue(0, rows=tmp_path / "fixed.parquet")


def test_a_row_of_a_file_that_a_later_version_read_again_does_not_come_back(tmp_path: Path) -> None:
    shop = begin(tmp_path, overwritten="new")
    shop.put("1.csv", GOOD)
    shop.run(overwritten="new")
    with pytest.raises(tm.InvalidInput, match="2 of 2 rows cannot come back: row 0 .*: version 1 read its file since"):
        shop.open(overwritten="new").requeue(0)


def test_requeued_rows_of_a_source_that_the_code_lost_stop_the_run(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    shop.open().requeue(0)
    (tmp_path / "other").mkdir()
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(tmp_path / "other"), format="csv", header=True, schema=SCHEMA), name="store")
    spec = tm.StateSpec.function(lambda batch_time, key, row, state: add(key, row, state))
    rows.groupBy("k").mapWithState(spec, "bigint", "k string, total bigint", name="totals")
    rows.groupBy("k").agg(rows=tm.count(), n=tm.sum("n"), name="counts")
    r = tm.open(p, root=str(tmp_path / "root"))
    lost = "rows of source `shop` were requeued, which this code does not have"
    assert (r.status().problem or "").startswith(lost)
    with pytest.raises(tm.InvalidInput, match=lost):
        r.run(engine="local")
    assert r.head.version == 1
    shop.run()
    assert shop.seen()["totals"] == {"a": (10,), "b": (90,)}


def test_rows_come_back_to_several_sources_and_branches_of_a_union(tmp_path: Path) -> None:
    for name, text in (("in", "k,n\na,1\nb,x\n"), ("other", "k,n\na,2\nc,y\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text(text)
    p = tm.Pipeline("union")
    options = {"format": "csv", "header": True, "schema": "k string, n int", "mode": "PERMISSIVE"}
    both = p.read(tm.Files(str(tmp_path / "in"), **options), name="one").unionByName(
        p.read(tm.Files(str(tmp_path / "other"), **options), name="two")
    )
    both.groupBy("k").agg(n=tm.sum("n"), name="sums")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    assert r.quarantine(0, source="two").column("text").to_pylist() == ["c,y"]
    given = r.quarantine(0, export=True).to_pylist()
    rows = [row | {"k": row["_text"][0], "n": 10} for row in given]
    fixed = pa.Table.from_pylist(rows, schema=r.quarantine(0, export=True).schema)
    made = r.requeue(0, rows=fixed, source=None)
    assert [(split.source, split.requeued.rows) for split in made.requeued] == [("one", 1), ("two", 1)]
    r.run(engine="local", tasks=2)
    assert {row["k"]: row["n"] for row in r.state("sums").to_pylist()} == {"a": 3, "b": 10, "c": 10}
    assert r.head.counts.input_rows == 2
    with pytest.raises(tm.InvalidInput, match="there is no row"):
        r.requeue(0, source="one", rows=fixed)


def test_corrected_rows_of_one_source_come_back_if_another_has_the_column_with_another_type(tmp_path: Path) -> None:
    p = tm.Pipeline("two")
    for name, schema, text in (("one", "k string, n int", "b,x\n"), ("two", "n string, k int", "y,z\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text(text)
        rows = p.read(tm.Files(str(tmp_path / name), format="csv", schema=schema, mode="PERMISSIVE"), name=name)
        rows.groupBy("k").agg(rows=tm.count(), name=f"of-{name}")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    r.run(engine="local")
    with pytest.raises(tm.InvalidInput, match="export one source at a time"):
        r.quarantine(0, export=True)
    given = r.quarantine(0, source="one", export=True)
    fixed = pa.Table.from_pylist([row | {"k": "b", "n": 1} for row in given.to_pylist()], schema=given.schema)
    r.requeue(0, source="one", rows=fixed)
    r.run(engine="local")
    assert [(row["k"], row["rows"]) for row in r.state("of-one").to_pylist()] == [("b", 1)]


def test_rows_of_a_random_mix_of_failures_come_back_to_the_state_without_failures(tmp_path: Path) -> None:
    """The model: sums of all rows, each once. Functions fail at random for some keys until they are repaired."""
    chance = random.Random(20)
    inbox, bad = tmp_path / "inbox", set("bd")
    inbox.mkdir()

    def track(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        if key in bad:
            raise ValueError("bad key")
        state.update((state.getOption or 0) + row.n)
        return (key, row.n)

    p = tm.Pipeline("mix")
    options = {"maxFilesPerTrigger": 2, "mode": "PERMISSIVE"}
    rows = p.read(tm.Files(str(inbox), format="csv", schema="k string, n int", **options), name="in")
    rows.groupBy("k").mapWithState(
        tm.StateSpec.function(track), "bigint", "k string, n int", name="sums", on_error="quarantine"
    )
    rows.groupBy("k").agg(n=tm.sum("n"), rows=tm.count(), name="all")
    r = tm.open(p, root=str(tmp_path / "root"))
    r.init()
    model: dict[str, int] = {}
    lost: list[int] = []
    number = 0
    for turn in range(12):
        for _ in range(chance.randrange(3)):
            number += 1
            given = [(chance.choice("abcde"), chance.randrange(100)) for _ in range(chance.randrange(1, 30))]
            for key, n in given:
                model[key] = model.get(key, 0) + n
            (inbox / f"{number:03d}.csv").write_text("".join(f"{key},{n}\n" for key, n in given))
        r.run(engine="local", tasks=chance.choice([1, 2, 3]))
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
        r.run(engine="local", tasks=2)
    assert {row["k"]: row["state"] for row in r.state("sums").to_pylist()} == model
    assert {row["k"]: row["n"] for row in r.state("all").to_pylist()} == model
    assert not r.verify(deep=True).problems


def test_a_rewind_undoes_a_requeue_or_makes_its_rows_wait_again(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open()
    r.requeue(0)  # version 1
    shop.run()  # version 2
    done = shop.seen()
    r.rewind(1, "read them again")
    assert shop.seen()["totals"] == {"a": (10,)}
    assert r.status().requeued_rows == {"shop": 3}
    with pytest.raises(tm.InvalidInput, match="row 0 .* was requeued already by version 1"):
        r.requeue(0)
    shop.run()
    assert shop.seen() == done
    r.rewind(0, "the requeue was a mistake")
    assert r.status().requeued_rows == {}
    made = r.requeue(0)
    assert (made.version, [split.requeued.rows for split in made.waiting]) == (6, [3])
    shop.run()
    assert shop.seen() == done
    r.rewind(-1, "all over again")
    with pytest.raises(
        tm.InvalidInput, match="3 of 3 rows cannot come back: row 0 .* waits again, because the version"
    ):
        r.requeue(0)
    assert not r.verify(deep=True).problems


def test_requeued_rows_are_kept_until_no_kept_version_waits_for_them(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    shop.put("3.csv", GOOD)
    r = shop.open()
    r.tag("bad-day", 0)
    r.requeue("bad-day")  # version 1
    r.skip("3.csv", "not needed")  # version 2
    folder = tmp_path / "root" / "shop" / "requeued" / "main"
    r.maintain(keep_versions=1)
    with pytest.raises(tm.InvalidInput, match="no longer kept"):
        r.quarantine(1)
    assert len(list(folder.iterdir())) == 1
    assert not r.verify(deep=True).problems
    shop.run()  # version 3 reads them
    assert shop.seen()["totals"] == {"a": (10,), "b": (90,)}
    r.maintain(keep_versions=1)
    assert list(folder.iterdir()) == []
    assert not r.verify(deep=True).problems
    why = "version 1 requeued rows of it and is no longer kept, so nothing says which rows came back"
    with pytest.raises(tm.InvalidInput, match=why):
        r.requeue("bad-day")


def test_rows_of_an_operator_that_was_renamed_since_come_back(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("a,1\nb,-1\n")

    def opened(name, function):
        p = tm.Pipeline("shop")
        rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string, v int"))
        rows.groupBy("k").mapWithState(
            tm.StateSpec.function(function), stateSchema="int", outputSchema="k string, v int",
            name=name, on_error="quarantine",
        )  # fmt: skip
        return tm.open(p, root=str(tmp_path / "root"))

    def strict(time, key, row, state):
        if row.v < 0:
            raise ValueError("negative")
        state.update(row.v)

    def lenient(time, key, row, state):
        state.update(row.v)

    before = opened("spend", strict)
    before.init()
    before.run(engine="local")
    after = opened("money", lenient)
    after.migrate({}, rename={"spend": "money"}, reason="a better name")
    after.requeue(0, reason="negative amounts are right")
    after.run(engine="local")
    assert sorted(zip(*(after.state("money")[name].to_pylist() for name in ("k", "state")), strict=True)) == [
        ("a", 1),
        ("b", -1),
    ]
