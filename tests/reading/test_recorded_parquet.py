"""What Tidemill reads of Parquet files, compared with what Spark 4.3 read once: rows, or one error for the file.

INVARIANT: each difference stands in `differences`, with its reason.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.reading.differences import PARQUET_FILES as FILES_THAT_DIFFER
from tests.reading.inputs import ZONE
from tests.reading.make import RECORDED
from tests.reading.make_parquet import ARCHIVE
from tests.reading.parquet_files import ARROW_FILES, INPUTS, SPARK_FILES
from tests.reading.plain import exact
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ROW, ReadContext
from tidemill.sources.files import Files

ROWS = json.loads((RECORDED / "parquet.json").read_text())["files"]
with zipfile.ZipFile(ARCHIVE) as archive:
    DATA = {name: archive.read(name) for name in archive.namelist()}


def read(folder: Path, data: bytes, schema: str, split_bytes: int = 1 << 30) -> Any:
    """Return the rows of a file, or "ERROR" if it cannot be read."""
    (folder / "a.parquet").write_bytes(data)
    source = Files(folder, schema=schema, missingColumns="null")
    rows: list[list[Any]] = []
    try:
        for split in source.splits(source.discover("source"), split_bytes=split_bytes):
            for block in source.read(split, 1000, ReadContext(time_zone=ZONE)):
                columns = [exact(block.rows.column(name)) for name in block.rows.schema.names if name != ROW]
                rows += [[column[row] for column in columns] for row in range(block.rows.num_rows)]
    except InvalidInput:
        return "ERROR"
    return rows


@pytest.mark.parametrize("name", list(INPUTS))
def test_a_file_is_read_as_spark_reads_it(name: str, tmp_path: Path) -> None:
    file, schema = INPUTS[name]
    found = read(tmp_path, DATA[file], schema)
    if name in FILES_THAT_DIFFER:
        assert found != ROWS[name], "no difference any more"
    else:
        assert found == ROWS[name], "Tidemill, Spark"


@pytest.mark.parametrize("name", [name for name in INPUTS if ROWS[name] != "ERROR"])
def test_row_groups_that_are_read_apart_have_the_same_rows(name: str, tmp_path: Path) -> None:
    file, schema = INPUTS[name]
    assert read(tmp_path, DATA[file], schema, split_bytes=1) == read(tmp_path, DATA[file], schema)


def test_every_input_is_recorded() -> None:
    assert list(ROWS) == list(INPUTS)
    assert list(DATA) == [*ARROW_FILES, *SPARK_FILES]
    assert set(FILES_THAT_DIFFER) <= set(INPUTS)
