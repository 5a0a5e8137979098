"""Parquet: columns by name, types widened where nothing is lost, a file that does not fit is one reject."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sources_reading import blocks, file, rejects, rows, values
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [True], "b": ["x"], "a": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    found = blocks(Files(tmp_path, schema="a int, b string"))
    assert found[0].rows.schema.names == ["a", "b", "_row"]
    assert values(found) == [(1, "x")]


@pytest.mark.parametrize(
    ("kind", "array", "value"),
    [
        ("bigint", pa.array([5], pa.int8()), 5),
        ("bigint", pa.array([5], pa.uint32()), 5),
        ("decimal(20,0)", pa.array([2**64 - 1], pa.uint64()), Decimal(2**64 - 1)),
        ("double", pa.array([0.5], pa.float32()), 0.5),
        ("double", pa.array([5], pa.int32()), 5.0),
        ("decimal(12,2)", pa.array([5], pa.int32()), Decimal("5.00")),
        ("decimal(12,3)", pa.array([Decimal("1.10")], pa.decimal128(10, 2)), Decimal("1.100")),
        ("string", pa.array(["x"], pa.large_string()), "x"),
        ("string", pa.array(["x"]).dictionary_encode(), "x"),
        (
            "timestamp",
            pa.array([1], pa.timestamp("ms", tz="America/New_York")),
            datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
        ),
        ("timestamp_ntz", pa.array([1000], pa.timestamp("ns")), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("array<bigint>", pa.array([[1]], pa.large_list(pa.int32())), [1]),
        ("struct<a: double>", pa.array([{"a": 1.5}], pa.struct([("a", pa.float32())])), {"a": 1.5}),
    ],
)
def test_types_are_widened_where_nothing_is_lost(tmp_path: Path, kind: str, array: pa.Array, value: object) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    assert values(blocks(Files(tmp_path, schema=f"v {kind}"))) == [(value,)]


@pytest.mark.parametrize(
    ("kind", "array", "reason"),
    [
        ("int", pa.array([5], pa.int64()), "column `v` is bigint, expected int"),
        ("float", pa.array([0.5], pa.float64()), "column `v` is double, expected float"),
        ("double", pa.array([5], pa.int64()), "column `v` is bigint, expected double"),
        ("string", pa.array([5], pa.int64()), "column `v` is bigint, expected string"),
        ("timestamp", pa.array([5], pa.timestamp("us")), "column `v` is timestamp_ntz, expected timestamp"),
        ("decimal(10,2)", pa.array([Decimal("1.123")]), "column `v` is decimal(4,3), expected decimal(10,2)"),
        ("int", pa.array([5], pa.time32("s")), "column `v` is time32[ms], expected int"),
        ("timestamp_ntz", pa.array([1001], pa.timestamp("ns")), "would lose data"),
    ],
)
def test_a_file_with_another_type_is_one_reject(tmp_path: Path, kind: str, array: pa.Array, reason: str) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    found = blocks(Files(tmp_path, schema=f"v {kind}", mode="PERMISSIVE"))
    [reject] = rejects(found)
    assert values(found) == []
    assert (reject["file"], reject["line"]) == ("a.parquet", None)
    assert reason in reject["reason"]
    with pytest.raises(InvalidInput) as caught:
        blocks(Files(tmp_path, schema=f"v {kind}"))
    assert caught.value.first_line.startswith("read file `a.parquet` of source `source`: ")


def test_a_missing_column_names_what_there_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1], "w": [2]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="column `x` is missing; found `v`, `w`"):
        blocks(Files(tmp_path, schema="x int"))


@pytest.mark.parametrize("damage", ["nothing like it", "cut", "empty"])
def test_a_damaged_file_is_one_reject(tmp_path: Path, damage: str) -> None:
    pq.write_table(pa.table({"v": pa.array(range(1000), pa.int32())}), tmp_path / "b.parquet")
    whole = (tmp_path / "b.parquet").read_bytes()
    file(tmp_path, "a.parquet", {"nothing like it": b"v\n1\n", "cut": whole[: len(whole) // 2], "empty": b""}[damage])
    found = blocks(Files(tmp_path, schema="v int", mode="PERMISSIVE"), block_rows=400)
    [reject] = rejects(found)
    assert (reject["file"], len(rows(found))) == ("a.parquet", 1000)
    assert reject["reason"].startswith("not a sound Parquet file: ")


def test_large_files_are_read_by_row_groups_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array(range(10_000), pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000, compression="none", use_dictionary=False)
    source = Files(tmp_path, schema="v bigint")
    splits = source.splits(source.discover("source"), split_bytes=25_000)
    assert [(split.row_groups, split.first_row) for split in splits] == [
        ((first, min(first + 2, 9)), first * 1000) for first in (0, 3, 6, 9)
    ]
    found = [block for split in splits for block in source.read(split, 700, ReadContext())]
    assert [(row["v"], row["_row"]) for row in rows(found)] == [(i, i) for i in range(10_000)]
    assert [block.rows.num_rows for block in found] == [700, 700, 700, 700, 200] * 3 + [700, 300]


def test_a_large_file_that_is_no_parquet_is_one_split(tmp_path: Path) -> None:
    file(tmp_path, "a.parquet", b"x" * 1000)
    source = Files(tmp_path, schema="v bigint")
    assert len(source.splits(source.discover("source"), split_bytes=10)) == 1


def test_a_schema_is_asked_for() -> None:
    with pytest.raises(InvalidInput) as caught:
        Files("somewhere")
    assert caught.value.first_line == "tm.Files('somewhere', format='parquet') has no schema"
