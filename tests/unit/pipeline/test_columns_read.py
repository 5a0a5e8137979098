"""A source reads only the columns that something uses. The outputs are the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.unit.sources.reading import blocks
from tests.world import World, over
from tidemill.errors import InvalidInput
from tidemill.pipeline.job import compile_job
from tidemill.sources.contract import ReadContext

SCHEMA = "k string, at timestamp, v int, w double, note string"
Made = Any


def source(folder: Path, schema: str = SCHEMA, **options: Any) -> tm.Files:
    return tm.Files(str(folder), schema=schema, **options)


def write(folder: Path, rows: int = 6, drop: tuple[str, ...] = ()) -> Path:
    table = pa.table(
        {
            "k": pa.array(["a", "b"] * (rows // 2)),
            "at": pa.array([datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in range(rows)]),
            "v": pa.array(range(rows), pa.int32()),
            "w": pa.array([0.5] * rows),
            "note": pa.array([f"row {row}" for row in range(rows)]),
        }
    )
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table.drop_columns(list(drop)), path)
    return path


def by_key(stream: tm.Stream) -> Made:
    return stream.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="totals")


def by_window(stream: tm.Stream) -> Made:
    windowed = stream.withWatermark("at", "1 minute").groupBy(tm.window("at", "2 minutes"), "k")
    return windowed.agg(best=tm.max_by("v", "w"), name="totals", outputMode="append")


def quarantined(stream: tm.Stream) -> Made:
    windowed = stream.withWatermark("at", "0 seconds", late="quarantine").groupBy(tm.window("at", "2 minutes"), "k")
    return windowed.agg(n=tm.count(), name="totals")


def watched(stream: tm.Stream) -> Made:
    return stream.withWatermark("at", "1 minute").groupBy("k").agg(total=tm.sum("w"), name="totals")


def two(stream: tm.Stream) -> Made:
    by_key(stream)
    return stream.groupBy("k").agg(last=tm.last("note"), name="notes")


def written(stream: tm.Stream) -> Made:
    by_key(stream)
    return stream.write(tm.Parquet("never written"))


def stepped(stream: tm.Stream) -> Made:
    return by_key(stream.sql("SELECT k, v FROM rows"))


def mapped(stream: tm.Stream) -> Made:
    return stream.groupBy("k").mapWithState(
        tm.StateSpec.function(lambda value, state: None), "int", "x int", value="v", name="totals"
    )


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (by_key, {"k", "v"}),
        (by_window, {"k", "at", "v", "w"}),
        (watched, {"k", "at", "w"}),
        (two, {"k", "v", "note"}),
        (quarantined, None),
        (written, None),
        (stepped, None),
        (mapped, None),
    ],
)
def test_columns_that_nothing_reads_are_known(tmp_path: Path, build: Made, expected: set[str] | None) -> None:
    pipeline = tm.Pipeline("columns")
    build(pipeline.read(source(tmp_path)))
    job = compile_job(pipeline)
    (root,) = [node.number for node in job.nodes if node.source is not None]
    assert job.reads(root) == expected


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    (block,) = blocks(source(tmp_path), context=ReadContext(columns=frozenset({"v", "k"})))
    assert block.rows.schema.names == ["k", "v", "_row"]
    assert block.rows.column("v").to_pylist() == list(range(6))
    (counted,) = blocks(source(tmp_path), context=ReadContext(columns=frozenset()))
    assert (counted.rows.schema.names, counted.rows.num_rows) == (["_row"], 6)


def test_columns_of_folders_are_asked_for_by_name_too(tmp_path: Path) -> None:
    folder = tmp_path / "day=3"
    folder.mkdir()
    write(folder)
    found = source(tmp_path, f"{SCHEMA}, day int", recursiveFileLookup=False)
    (only,) = blocks(found, context=ReadContext(columns=frozenset({"day"})))
    assert only.rows.column("day").to_pylist() == [3] * 6
    (without,) = blocks(found, context=ReadContext(columns=frozenset({"v"})))
    assert without.rows.schema.names == ["v", "_row"]


def test_a_file_that_lacks_an_unread_column_is_refused(tmp_path: Path) -> None:
    write(tmp_path, drop=("note",))
    with pytest.raises(InvalidInput, match="the file lacks `note`; found `k`"):
        blocks(source(tmp_path), context=ReadContext(columns=frozenset({"v"})))


def test_text_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x\n2,y\n")
    csv = tm.Files(str(tmp_path), format="csv", schema="v int, note string")
    (block,) = blocks(csv, context=ReadContext(columns=frozenset({"v"})))
    assert block.rows.schema.names == ["v", "note", "_row"]


@pytest.mark.parametrize("build", [by_key, by_window, quarantined, watched, two, stepped])
def test_outputs_equal_those_of_reading_all_columns(
    tmp_path: Path, build: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outputs(root: str) -> list[Any]:
        repository = World(tmp_path, over(build), root=root, format="parquet", schema=SCHEMA).open()
        done = repository.run(engine="local")
        rows = [sorted(map(str, repository.outputs(version=one.batchId, sink=sink).to_pylist()))
                for one in done for sink in repository.opened.job.outputs]  # fmt: skip
        return [rows, [(one.numInputRows, one.late_rows) for one in done]]

    for rows in (10, 6):
        write(World(tmp_path).inbox, rows)
    found = outputs("some")
    monkeypatch.setattr("tidemill.pipeline.job.Job.reads", lambda self, node: None)
    assert found == outputs("all")
    assert any(found[0])
