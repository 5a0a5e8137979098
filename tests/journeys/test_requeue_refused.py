"""Quarantined rows that cannot come back, or wait: what is refused, and what corrections, damage and retention do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.requeued import GOOD, ROW, Shop, add, begin, failed, table
from tests.world import World, over, run, state


def test_columns_of_the_source_with_names_of_the_export_get_a_prefix(tmp_path: Path) -> None:
    sums = over(lambda rows: rows.groupBy("_Kind").agg(n=tm.sum("_version"), name="op"))
    world = World(tmp_path, sums, format="json", schema="_version int, _Kind string", mode="PERMISSIVE")
    world.put("1", [{"_version": 1, "_Kind": "x"}, {"_version": "no", "_Kind": "y"}])
    r = world.open()
    run(r)
    found = r.quarantine(0, export=True)
    assert found.column_names[-3:] == ["source._version", "source._Kind", "_text"]
    for name, value in (("source._version", pa.array([5], pa.int32())), ("source._Kind", pa.array(["y"]))):
        found = found.set_column(found.column_names.index(name), name, value)
    r.requeue(0, rows=found)
    run(r)
    assert state(r, "op") == {"x": 1, "y": 5}


def test_rows_without_a_place_in_a_file_cannot_come_back_and_say_why(tmp_path: Path) -> None:
    def fail(batch_time: Any, key: Any, row: Any, state: Any) -> Any:
        raise ValueError("never")

    def halved(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1)

    def build(p: tm.Pipeline, world: World) -> None:
        read = world.read(p)
        first = read.map_batches(halved, "k string, n int").groupBy("k")
        first.mapWithState(tm.StateSpec.function(fail), "int", "int", name="after-map", on_error="quarantine")
        sums = read.groupBy("k").agg(n=tm.sum("n"), name="sums", outputMode="update")
        sums.groupBy("k").mapWithState(tm.StateSpec.function(fail), "int", "int", name="behind", on_error="quarantine")

    world = World(tmp_path, build, format="json", schema="k string, n int")
    world.put("1", [{"k": "a", "n": 1}, {"k": "b", "n": 2}])
    r = world.open()
    run(r)
    rows = r.quarantine(0, export=True)
    ids = {row["_operator"]: row["_row_id"] for row in rows.to_pylist()}
    for source in (None, "source"):
        with pytest.raises(tm.InvalidInput, match="the whole row is not known, because a step before the operator"):
            r.requeue(0, source=source)
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
        shop.having(fails).run()
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
        shop.having(fails).run()
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
    before = sorted(Path(unchanged.root).rglob("*"))
    with pytest.raises(tm.InvalidInput, match=message):
        call(unchanged.open())
    assert sorted(Path(unchanged.root).rglob("*")) == before


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Version 0 quarantined two rows, version 1 none."""
    shop = begin(tmp_path_factory.mktemp("bad"))
    shop.put("2.csv", GOOD)
    shop.run()
    return shop


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
    shop.run()
    with pytest.raises(tm.InvalidInput, match="2 of 2 rows cannot come back: row 0 .*: version 1 read its file since"):
        shop.open().requeue(0)


def test_requeued_rows_of_a_source_that_the_code_lost_stop_the_run(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    shop.open().requeue(0)

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p, "store", "other")
        spec = tm.StateSpec.function(lambda batch_time, key, row, state: add(key, row, state))
        rows.groupBy("k").mapWithState(spec, "bigint", "k string, total bigint", name="totals")
        rows.groupBy("k").agg(rows=tm.count(), n=tm.sum("n"), name="counts")

    r = shop.but(build).open(init=False)
    lost = "rows of source `shop` were requeued, which this code does not have"
    assert (r.status().problem or "").startswith(lost)
    with pytest.raises(tm.InvalidInput, match=lost):
        run(r)
    assert r.head.version == 1
    shop.run()
    assert shop.seen()["totals"] == {"a": (10,), "b": (90,)}


def test_a_rewind_undoes_a_requeue_or_makes_its_rows_wait_again(tmp_path: Path) -> None:
    shop = failed(tmp_path)
    r = shop.open()
    r.requeue(0)  # version 1
    shop.run()  # version 2
    done = shop.seen()
    assert "3 requeued rows of version 0 will be read again" in r.rewind(1, "a test", dry_run=True).lines()
    back = "3 rows that version 1 requeued will be in quarantine again"
    assert r.rewind(0, "a test", dry_run=True).requeued == [back]
    assert r.rewind(-1, "a test", dry_run=True).requeued == [], "the files wait again"
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
    def named(name, function):
        kept = {"stateSchema": "int", "outputSchema": "k string, v int", "name": name, "on_error": "quarantine"}
        return over(lambda rows: rows.groupBy("k").mapWithState(tm.StateSpec.function(function), **kept))

    def strict(time, key, row, state):
        if row.v < 0:
            raise ValueError("negative")
        state.update(row.v)

    def lenient(time, key, row, state):
        state.update(row.v)

    before = World(tmp_path, named("spend", strict))
    before.put("1", "a,1\nb,-1\n")
    before.run()
    after = before.but(named("money", lenient)).open(init=False)
    after.migrate({}, rename={"spend": "money"}, reason="a better name")
    after.requeue(0, reason="negative amounts are right")
    run(after)
    assert state(after, "money") == {"a": 1, "b": -1}
