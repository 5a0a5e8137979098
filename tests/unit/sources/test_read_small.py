"""Small files that are read together: which of them are left to be read alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import InternalError
from tidemill.sources.file_columns import columns_of_files
from tidemill.sources.text import opener, read_small_texts
from tidemill.sources.text_format import CsvFormat, TextLimits

SCHEMA = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.string())])
COLUMNS = columns_of_files(SCHEMA, None)
FILES = opener(SCHEMA, CsvFormat(matching="none"), TextLimits(3, 1 << 20, 1 << 20), "UTC")


def read(*files: bytes | None, reader: Any = FILES) -> list[list[int] | None]:
    """How many rows the files have that are read together, None for each that is left."""
    loaded = [None if data is None else (data, f"mark of {data!r}") for data in files]
    found, at = [], 0
    for one in read_small_texts(loaded, reader, COLUMNS):
        count = 1 if one is None else len(one.counts)
        if one is not None:
            assert one.fingerprints == [f"mark of {data!r}" for data in files[at : at + count]]
            assert one.rows.num_rows == sum(one.counts)
            assert one.rows.schema.names == ["a", "b", "_row"]
        found.append(None if one is None else list(one.counts))
        at += count
    assert at == len(files)
    return found


def test_good_files_are_read_together_with_rows_numbered_by_file() -> None:
    assert read(b"1,x\n2,y\n", b"3,z\n") == [[2, 1]]
    (small,) = read_small_texts([(b"1,x\n2,y\n", "m"), (b"3,z\n", "n")], FILES, COLUMNS)
    assert small is not None
    assert small.rows.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"], "_row": [0, 1, 0]}


@pytest.mark.parametrize(
    "other",
    [None, b"", b"much,x\n", b"\x1f\x8b damaged", b"1,a\n" * 4],
    ids=["gone", "empty", "reject", "damaged", "more than a block"],
)
def test_any_other_file_is_left(other: bytes | None) -> None:
    assert read(b"1,x\n", b"2,y\n", other, b"3,z\n") == [[1, 1], None, [1]]
    assert read(other, other) == [None, None]


def test_a_file_on_which_the_reader_panics_is_left() -> None:
    class Panics:
        def read_small(self, files: list[bytes], most_bytes: int) -> Any:
            if b"panic" in files:
                raise InternalError("a panic")
            return FILES.read_small(files, most_bytes)

    assert read(b"1,x\n", b"panic", b"3,z\n", reader=Panics()) == [None, None, [1]]


def test_the_rows_of_one_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sources.text.SMALL_ROWS_BYTES", 1)
    assert read(b"1,x\n", b"2,y\n") == [[1], [1]]
