"""Joining published files and taking rows of some versions: the rows, their columns and order, and row groups."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tidemill.sinks.forms import staged, unstaged
from tidemill.sinks.joined import can_join, joined, only_versions

COLUMNS = pa.schema(
    [
        ("k", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.float64())])),
        pa.field("_batch_id", pa.int64(), nullable=False),
        pa.field("_seq", pa.int64(), nullable=False),
    ]
)


def rows(version: int, count: int = 3) -> pa.Table:
    made = [
        {"k": None if number == 1 else f"ü{number}", "at": 1_700_000_000_000_000 + number, "price": None,
         "tags": ["a", None] if number else [], "inner": {"x": number / 3}, "_batch_id": version, "_seq": number}
        for number in range(count)
    ]  # fmt: skip
    return pa.Table.from_pylist(made, schema=COLUMNS)


def encoded(extension: str, table: pa.Table) -> bytes:
    [file] = staged(table, extension)
    return file.data


def decoded(extension: str, data: bytes) -> pa.Table:
    return unstaged([(data, "")], COLUMNS, extension, "a test")


@pytest.mark.parametrize("extension", [".parquet", ".json"])
def test_rows_keep_values_columns_and_order(extension: str) -> None:
    tables = [rows(2), rows(5, 1), rows(7)]
    data = joined(extension, (encoded(extension, one) for one in tables))
    assert decoded(extension, data) == pa.concat_tables(tables)


@pytest.mark.parametrize("extension", [".parquet", ".json"])
def test_the_rows_of_some_versions_stay(extension: str) -> None:
    data = joined(extension, (encoded(extension, rows(version)) for version in (2, 5, 7)))
    left, count = only_versions(extension, data, {7, 2, 99})
    assert (decoded(extension, left), count) == (pa.concat_tables([rows(2), rows(7)]), 6)
    assert only_versions(extension, data, {2, 5, 7}) == (data, 9)
    assert only_versions(extension, data, {3})[1] == 0


def test_small_parquet_files_share_a_row_group_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def groups() -> int:
        data = joined(".parquet", (encoded(".parquet", rows(version)) for version in range(20)))
        assert decoded(".parquet", data).num_rows == 60
        return pq.ParquetFile(io.BytesIO(data)).metadata.num_row_groups

    assert groups() == 1
    monkeypatch.setattr("tidemill.sinks.joined.GROUP_BYTES", 2 * rows(0).nbytes)
    assert groups() == 10


def test_json_is_joined_byte_by_byte_and_a_missing_line_end_is_added() -> None:
    assert joined(".json", [b'{"a":1}\n{"a":2}\n', b"", b'{"a":3}', b'{"a":4}\n']) == (
        b'{"a":1}\n{"a":2}\n{"a":3}\n{"a":4}\n'
    )


@pytest.mark.parametrize(
    "other", [["k", "_batch_id", "_seq"], ["at", "k", "price", "tags", "inner", "_batch_id", "_seq"]]
)
def test_parquet_files_with_other_columns_are_not_joined(other: Any) -> None:
    with pytest.raises(tm.InvalidInput, match="^join published files: columns "):
        joined(".parquet", [encoded(".parquet", rows(1)), encoded(".parquet", rows(2).select(other))])


def test_a_column_may_allow_nulls_in_one_file_and_not_in_the_other() -> None:
    loose = pa.schema([field.with_nullable(True) for field in COLUMNS])
    files = [encoded(".parquet", rows(1)), encoded(".parquet", rows(2).cast(loose))]
    for given in (files, files[::-1]):
        assert decoded(".parquet", joined(".parquet", given)).num_rows == 6
    wrong = rows(2).cast(loose).set_column(6, loose.field("_seq"), pa.nulls(3, pa.int64()))
    with pytest.raises(tm.InvalidInput, match="^join published files"):
        joined(".parquet", [files[0], encoded(".parquet", wrong)])


def test_a_file_that_is_not_parquet_is_named_as_such() -> None:
    with pytest.raises(tm.CorruptState, match="not Parquet"):
        joined(".parquet", [b"nothing"])
    assert (can_join(".parquet"), can_join(".json"), can_join(".avro")) == (True, True, False)


def test_row_groups_of_files_that_differ_in_whether_nulls_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sinks.joined.GROUP_BYTES", 1)
    nullable = rows(3).cast(pa.schema([field.with_nullable(True) for field in COLUMNS]))
    tables = [nullable, rows(4), rows(5), nullable]
    data = joined(".parquet", (encoded(".parquet", one) for one in tables))
    assert pq.read_table(io.BytesIO(data)).to_pylist() == [row for table in tables for row in table.to_pylist()]
