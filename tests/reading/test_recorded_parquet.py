"""What Tidemill reads of Parquet files, compared with what Spark 4.3 read once: rows, or one error for the file.

INVARIANT: each difference stands in `differences`, with its reason, and in `recorded/tidemill.json`, with what Tidemill
reads instead.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reading.differences import PARQUET_FILES as FILES_THAT_DIFFER
from tests.reading.make import RECORDED
from tests.reading.parquet_files import ARROW_FILES, INPUTS, SPARK_FILES
from tests.reading.reading import PARQUET, read_parquet

SPARK = json.loads((RECORDED / "parquet.json").read_text())["files"]
OURS = json.loads((RECORDED / "tidemill.json").read_text())["parquet files"]


@pytest.mark.parametrize("name", list(INPUTS))
def test_a_file_is_read_as_spark_reads_it(name: str, tmp_path: Path) -> None:
    assert read_parquet(tmp_path, name) == OURS.get(name, SPARK[name])


@pytest.mark.parametrize("name", [name for name in INPUTS if SPARK[name] != "ERROR"])
def test_row_groups_that_are_read_apart_have_the_same_rows(name: str, tmp_path: Path) -> None:
    assert read_parquet(tmp_path, name, split_bytes=1) == read_parquet(tmp_path, name)


def test_every_input_is_recorded() -> None:
    assert list(SPARK) == list(INPUTS)
    assert list(PARQUET) == [*ARROW_FILES, *SPARK_FILES]


def test_each_difference_is_one_and_has_its_reason() -> None:
    assert set(OURS) == set(FILES_THAT_DIFFER)
    assert [name for name in OURS if OURS[name] == SPARK[name]] == []
