"""Files that go to quarantine as a whole: what is counted, which limits see it, and how they come back. Files are real.

The naive model: after a file was corrected and requeued, the state has the rows of all files, each once.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.cli.main import main
from tidemill.sources import bad_file as bad_file_module

ROWS = [("a", 1), ("b", 2), ("a", 3)]
GOOD = [("c", 10)]


def csv_text(rows: list[tuple[str, int]], header: str = "k,n") -> bytes:
    swapped = header == "n,k"
    return (header + "\n" + "".join(f"{n},{k}\n" if swapped else f"{k},{n}\n" for k, n in rows)).encode()


def json_text(rows: list[tuple[str, int]]) -> bytes:
    return "".join(json.dumps({"k": k, "n": n}) + "\n" for k, n in rows).encode()


def parquet(rows: list[tuple[str, int]], **more: object) -> bytes:
    sink = pa.BufferOutputStream()
    columns = {"k": pa.array([k for k, _ in rows]), "n": pa.array([n for _, n in rows], pa.int32())}
    pq.write_table(pa.table(columns | more), sink, compression="none", use_dictionary=False)
    return sink.getvalue().to_pybytes()


def with_damaged_page(data: bytes) -> bytes:
    """Return Parquet whose first page is no page; the footer, which counts the rows, is whole."""
    return data[:4] + b"\xff" * 12 + data[16:]


@dataclass(frozen=True)
class Kind:
    """A way in which a file is bad: its format, its bytes, how many rows it says it has, and the reason."""

    format: str
    name: str
    bad: bytes
    correct: bytes
    rows: int
    reason: str


def without_n(rows: list[tuple[str, int]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [k for k, _ in rows]}), sink)
    return sink.getvalue().to_pybytes()


KINDS = {
    "header": Kind("csv", "b.csv", csv_text(ROWS, "k,m"), csv_text(ROWS), 3, "`n`"),
    "truncated gzip": Kind("csv", "b.csv", gzip.compress(csv_text(ROWS))[:-9], csv_text(ROWS), 0, "gzip"),
    "zip": Kind("csv", "b.csv", b"PK\x03\x04" + bytes(40), csv_text(ROWS), 0, "zip"),
    "UTF-16": Kind("csv", "b.csv", csv_text(ROWS).decode().encode("utf-16"), csv_text(ROWS), 0, "UTF-16"),
    "UTF-16 of JSON": Kind("json", "b.json", json_text(ROWS).decode().encode("utf-16"), json_text(ROWS), 0, "UTF-16"),
    "no Parquet": Kind("parquet", "b.parquet", json_text(ROWS), parquet(ROWS), 0, "Parquet"),
    "no column": Kind("parquet", "b.parquet", without_n(ROWS), parquet(ROWS), 3, "`n`"),
    "damaged page": Kind("parquet", "b.parquet", with_damaged_page(parquet(ROWS)), parquet(ROWS), 3, "Parquet"),
    "folder": Kind("csv", "d=x/b.csv", csv_text(ROWS), csv_text(ROWS), 3, "folder `d=x`"),
}
WRITERS: dict[str, Callable[[list[tuple[str, int]]], bytes]] = {"csv": csv_text, "json": json_text, "parquet": parquet}


def totalling(p: tm.Pipeline, world: World) -> None:
    world.read(p, "shop").groupBy("k").agg(n=tm.sum("n"), rows=tm.count(), name="totals")


def world_of(folder: Path, kind: Kind, **options: object) -> World:
    """Return a world in which a good file and a bad one wait."""
    columns = "k string, n int" + (", d int" if kind.name.startswith("d=") else "")
    header = {"header": True} if kind.format == "csv" else {}
    given = {"badFiles": "quarantine", "maxFilesPerTrigger": None} | header | options
    world = World(folder, totalling, format=kind.format, schema=columns, **given)
    good = "d=1/a" if kind.name.startswith("d=") else "a"
    world.put(f"{good}.{kind.format}", WRITERS[kind.format](GOOD))
    world.put(kind.name, kind.bad)
    return world


def totals(r: tm.Repository) -> dict[str, tuple[int, int]]:
    return {row["k"]: (row["n"], row["rows"]) for row in r.state("totals").to_pylist()}


def model(rows: list[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for k, n in rows:
        total, count = found.get(k, (0, 0))
        found[k] = (total + n, count + 1)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_bad_file_is_counted_kept_and_read_once_after_it_was_corrected(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    world = world_of(tmp_path, kind)
    r = world.open()
    (progress,) = r.run(engine="local")
    counts = (progress.numInputRows, progress.applied_rows, progress.quarantined_rows, progress.quarantined_files)
    assert counts == (1 + kind.rows, 1, kind.rows, 1) and progress.input_files == 2
    (row,) = r.quarantine().to_pylist()
    assert (row["file"], row["kind"], row["line"], row["text"]) == (kind.name, "file", None, None)
    assert (
        kind.reason in row["reason"] and ("none of its 3 rows" if kind.rows else "cannot be counted") in row["reason"]
    )
    assert totals(r) == model(GOOD)
    if kind.name.startswith("d="):  # a file in a wrong folder is corrected by a move, and is then a new one
        return
    world.put(kind.name, kind.correct)
    assert run(r) == []  # no error that the file was modified, and nothing is read by itself
    r.requeue(0, reason="corrected")
    (progress,) = r.run(engine="local")
    assert (progress.numInputRows, progress.applied_rows, progress.quarantined_files) == (3, 3, 0)
    assert totals(r) == model(GOOD + ROWS)
    with pytest.raises(tm.InvalidInput, match="version 2 read the file since"):
        r.requeue(0)
    world.put(kind.name, kind.correct + b"\n")
    with pytest.raises(tm.InvalidInput, match="was modified after it was read"):
        run(r)
    world.put(kind.name, kind.correct)
    assert not r.verify(deep=True).problems


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_bad_file_fails_the_batch_in_every_mode_by_default(tmp_path: Path, name: str, mode: str) -> None:
    r = world_of(tmp_path, KINDS[name], badFiles="fail", mode=mode).open()
    with pytest.raises(tm.InvalidInput) as caught:
        run(r)
    assert KINDS[name].name in caught.value.first_line and caught.value.hint
    assert r.head is None


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ("0", "2 quarantined rows|3 quarantined rows \\(1 quarantined file among them\\) of 4"),
        ("50%", "3 quarantined rows"),
        ("3", None),
        ("100%", None),
    ],
)
def test_the_limit_sees_the_rows_of_a_bad_file(tmp_path: Path, limit: str, error: str | None) -> None:
    r = world_of(tmp_path, KINDS["header"]).open(conf={"tidemill.fail_if_quarantined": limit})
    if error is None:
        assert run(r) == [0]
        return
    with pytest.raises(tm.InvalidInput, match=error):
        run(r)
    assert r.head is None


@pytest.mark.parametrize(("limit", "is_refused"), [("0", True), ("49%", True), ("50%", False), ("1", False)])
def test_the_limit_sees_a_file_whose_rows_cannot_be_counted(tmp_path: Path, limit: str, is_refused: bool) -> None:
    r = world_of(tmp_path, KINDS["zip"]).open(conf={"tidemill.fail_if_quarantined": limit})
    if is_refused:
        with pytest.raises(tm.InvalidInput, match="1 quarantined file of 2, expected at most") as caught:
            run(r)
        assert "b.csv" in str(caught.value)
    else:
        assert run(r) == [0]


def test_an_unchanged_file_can_be_requeued_because_the_declaration_was_corrected(tmp_path: Path) -> None:
    kind = dataclasses.replace(KINDS["header"], bad=csv_text([*ROWS], "k,m"))
    world = world_of(tmp_path, kind)
    r = world.open()
    run(r)
    r.requeue(0)
    run(r)  # still without the column, so it is in quarantine again
    assert totals(r) == model(GOOD) and r.quarantine(2).num_rows == 1
    corrected = world.but(missingColumns="null").open()
    with pytest.raises(tm.InvalidInput, match="version 2 put the file in quarantine since"):
        corrected.requeue(0)
    corrected.requeue(2)
    run(corrected)
    assert {k: rows for k, (_, rows) in totals(corrected).items()} == {"a": 2, "b": 1, "c": 1}


def test_a_replay_with_code_that_reads_the_file_reads_it_once(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind)
    r = world.open()
    run(r)
    world.put(kind.name, kind.correct)
    r.requeue(0)
    run(r)
    r.replay(into="again", from_version=0, files="current")
    again = world.open("again")
    assert totals(again) == totals(r) == model(GOOD + ROWS)
    assert [one.counts.input_files for one in again.commits() if one.kind == "batch"] == [2, 0]
    r.promote("again", reason="the file is read where it belongs")
    assert totals(r) == model(GOOD + ROWS)
    assert run(r) == [] and not r.verify(deep=True).problems


def test_a_replay_repeats_what_was_recorded(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind)
    r = world.open()
    run(r)
    r.requeue(0)
    run(r)
    r.replay(into="again", from_version=0)
    again = world.open("again")
    assert [one.counts for one in again.commits()] == [one.counts for one in r.commits()]
    assert totals(again) == totals(r)


def test_a_rewind_puts_the_file_back_into_quarantine(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind)
    r = world.open()
    run(r)
    world.put("b", kind.correct)
    r.requeue(0)
    run(r)
    r.rewind(0, reason="too early")
    assert run(r) == [] and totals(r) == model(GOOD)
    r.requeue(0)
    run(r)
    assert totals(r) == model(GOOD + ROWS)


def test_a_bad_file_can_be_skipped_and_a_lost_one_is_named(tmp_path: Path) -> None:
    r = world_of(tmp_path, KINDS["header"]).open()
    run(r)
    os.rename(tmp_path / "in/b.csv", tmp_path / "away.csv")
    with pytest.raises(tm.InvalidInput, match="is gone from its source"):
        r.requeue(0)
    os.rename(tmp_path / "away.csv", tmp_path / "in/b.csv")
    r.skip("b.csv", reason="a test export")
    with pytest.raises(tm.InvalidInput, match="version 1 skipped the file since"):
        r.requeue(0)


def test_an_overwritten_file_is_read_at_once_where_the_source_says_so(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind, overwritten="new")
    r = world.open()
    run(r)
    world.put("b", kind.correct)
    run(r)
    assert totals(r) == model(GOOD + ROWS)


def test_an_export_has_the_file_and_a_row_given_for_it_is_refused(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind)
    r = world.open()
    run(r)
    exported = r.quarantine(0, export=True)
    assert exported.column("_kind").to_pylist() == ["file"]
    filled = pa.Table.from_pylist([exported.to_pylist()[0] | {"k": "a", "n": 1}], schema=exported.schema)
    with pytest.raises(tm.InvalidInput, match="stands for a whole file, so correct the file"):
        r.requeue(0, rows=filled)
    world.put("b", kind.correct)
    r.requeue(0, rows=exported)
    run(r)
    assert totals(r) == model(GOOD + ROWS)


def test_ranges_that_were_planned_before_agree_that_the_file_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan with ranges is of code with badFiles="fail". Then the new code carries it out."""
    folder = tmp_path / "in"
    kind = dataclasses.replace(KINDS["damaged page"], name="b.parquet")
    world = world_of(tmp_path, kind, badFiles="fail")
    (folder / "a.parquet").unlink()
    table = pa.table({"k": [f"k{i % 7}" for i in range(4000)], "n": pa.array(range(4000), pa.int32())})
    pq.write_table(table, folder / "b.parquet", row_group_size=1000, compression="none", use_dictionary=False)
    whole = (folder / "b.parquet").read_bytes()
    last = pq.ParquetFile(folder / "b.parquet").metadata.row_group(3).column(0).data_page_offset
    damaged = whole[:last] + b"\xff" * 12 + whole[last + 12 :]
    world.put("b.parquet", damaged)
    strict = world.open(conf={"tidemill.split_bytes": 4096})
    with pytest.raises(tm.InvalidInput, match=r"b\.parquet"):
        run(strict)
    plan = strict.opened.log.plan(0)
    assert plan is not None and len(plan.splits) > 1
    r = world.but(badFiles="quarantine").open()
    (progress,) = r.run(engine="local", tasks=2)
    assert (progress.numInputRows, progress.quarantined_rows, progress.quarantined_files) == (4000, 4000, 1)
    world.put("b.parquet", whole)
    r.requeue(0)
    run(r)
    assert sum(rows for _, rows in totals(r).values()) == 4000


@pytest.mark.parametrize("name", ["header", "damaged page"])
def test_a_file_that_is_larger_than_what_is_kept_is_checked_before_its_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bad_file_module, "_KEPT_BYTES", 0)
    kind = KINDS[name]
    r = world_of(tmp_path, kind).open()
    (progress,) = r.run(engine="local")
    assert (progress.applied_rows, progress.quarantined_rows) == (1, 3)
    assert totals(r) == model(GOOD)


def test_a_file_comes_back_without_a_row_that_stays_unreadable(tmp_path: Path) -> None:
    """A version quarantined a file and a row of another file, and only the file was corrected."""
    kind = KINDS["header"]
    world = world_of(tmp_path, kind, mode="PERMISSIVE")
    r = world.open()
    world.put("c", b"k,n\nd,4\nd,much\n")
    run(r)
    world.put("b", kind.correct)
    with pytest.raises(tm.InvalidInput, match="1 of 2 rows cannot come back: row . .file `c.csv`, line 3"):
        r.requeue(0)
    assert run(r) == []
    rows = r.quarantine(0, export=True)
    r.requeue(0, rows=rows.filter(pc.equal(rows.column("_kind"), "file")))
    run(r)
    assert totals(r) == model([*GOOD, *ROWS, ("d", 4)])


def test_a_file_that_cannot_come_back_is_named_with_the_way_out(tmp_path: Path) -> None:
    kind = KINDS["header"]
    world = world_of(tmp_path, kind, mode="PERMISSIVE")
    r = world.open()
    world.put("c", b"k,n\nd,much\n")
    run(r)
    (tmp_path / "in/b.csv").unlink()
    with pytest.raises(tm.InvalidInput, match="1 of 2 rows cannot come back: row . .file `b.csv`") as caught:
        r.requeue(0)
    assert caught.value.hint is not None and "leave this one out" in caught.value.hint


def test_the_command_line_reports_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = tmp_path / "shop.py"
    code.write_text(
        "import tidemill as tm\n"
        "p = tm.Pipeline('shop')\n"
        f"rows = p.read(tm.Files({str(tmp_path / 'in')!r}, format='csv', header=True, schema='k string, n int',\n"
        "    badFiles='quarantine'), name='shop')\n"
        "rows.groupBy('k').agg(n=tm.sum('n'), rows=tm.count(), name='totals')\n"
    )
    world = world_of(tmp_path, KINDS["header"])
    world.open()

    def call(*words: str) -> str:
        capfd.readouterr()
        assert main([words[0], f"{code}:p", "--root", str(tmp_path / "root"), *words[1:]]) == 0
        return "".join(capfd.readouterr())

    said = call("run", "--engine", "local")
    assert "3 quarantined rows, 1 quarantined file; see `tidemill quarantine`" in said
    assert "3 quarantined with 1 file" in call("status")
    assert "1 file in quarantine" in call("log")
    assert "none of its 3 rows is read" in call("quarantine", "--json")
    dry = call("requeue", "--version", "0", "--dry-run")
    assert (
        "file `b.csv` of source `shop`, which version 0 put in quarantine as a whole" in dry and "is unchanged" in dry
    )
    world.put("b", KINDS["header"].correct)
    assert "it was changed since" in call("requeue", "--version", "0", "--dry-run")
    assert "requeued 1 file of version 0 in version 1" in call("requeue", "--version", "0", "--yes")
    call("run", "--engine", "local")
