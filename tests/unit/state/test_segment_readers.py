"""Segments as other tools see them: DuckDB and Polars read every type, and golden files of format 1 stay what they are.

Spark's reading of the same files is in `tests/spark/test_native_aggregates.py`.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars
import pytest

from tests.golden import segments
from tidemill._native import Run
from tidemill.errors import CorruptState

FOLDER = segments.FOLDER


@pytest.mark.parametrize("name", segments.GOOD)
def test_a_golden_segment_is_read_and_written_unchanged(name: str) -> None:
    schema, run = segments.GOOD[name]()
    for folder in (FOLDER, segments.SEALED):
        data = (folder / f"{name}.parquet").read_bytes()
        found = Run.read(schema, data, name)
        assert [segments.comparable(row) for row in found.rows().to_pylist()] == [
            segments.comparable(row) for row in run.rows().to_pylist()
        ]
        assert found.write() == (segments.SEALED / f"{name}.parquet").read_bytes()


def test_a_golden_segment_with_a_changed_footer_is_an_error() -> None:
    schema, _ = segments.GOOD["every-type"]()
    data = (segments.SEALED / "other-footer.parquet").read_bytes()
    with pytest.raises(CorruptState, match="its footer does not match its checksum"):
        Run.read(schema, data, "other-footer")


@pytest.mark.parametrize(("name", "why"), segments.CORRUPT)
def test_a_corrupt_golden_segment_is_an_error(name: str, why: str) -> None:
    schema, _ = segments.GOOD["every-type"]()
    with pytest.raises(CorruptState, match=rf"cannot read segment `{name}` of state map `golden`: .*{why}"):
        Run.read(schema, (FOLDER / f"{name}.parquet").read_bytes(), name)


def test_a_flipped_bit_in_any_byte_of_a_row_group_is_detected() -> None:
    schema, _ = segments.GOOD["every-type"]()
    good = (FOLDER / "every-type.parquet").read_bytes()
    size = int(good[good.rindex(b"tidemill.row_groups") :].split(b" ")[1])
    for place in range(4, 4 + size):
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(CorruptState, match="row group 0 does not match its checksum"):
            Run.read(schema, bytes(damaged), "s")


@pytest.mark.parametrize("name", segments.GOOD)
def test_duckdb_reads_a_segment(name: str) -> None:
    rows = segments.GOOD[name]()[1].rows()
    found = duckdb.sql(f"SET TimeZone = 'UTC'; FROM read_parquet('{segments.SEALED / name}.parquet')").to_arrow_table()
    assert found.column_names == rows.schema.names
    for column in rows.schema.names:
        expected = rows.column(column).to_pylist()
        assert [segments.comparable(cell) for cell in found[column].to_pylist()] == [
            segments.comparable(cell) for cell in expected
        ], column


@pytest.mark.parametrize("name", segments.GOOD)
def test_polars_reads_a_segment(name: str) -> None:
    rows = segments.GOOD[name]()[1].rows()
    found = polars.read_parquet(segments.SEALED / f"{name}.parquet")
    assert found.columns == rows.schema.names
    for column in rows.schema.names:
        expected = rows.column(column).to_pylist()
        assert [segments.comparable(cell) for cell in found[column].to_list()] == [
            segments.comparable(cell) for cell in expected
        ], column


def test_every_golden_file_has_a_test() -> None:
    assert {path.stem for path in Path(FOLDER).glob("*.parquet")} == {*segments.GOOD, *(n for n, _ in segments.CORRUPT)}
