"""What Tidemill reads, compared with what Spark 4.3 read once: each value and each file, and each difference.

A corrupt record of Spark is a reject here. INVARIANT: each difference stands in `differences`, with its reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.reading.differences import CSV_FILES as CSV_FILES_THAT_DIFFER
from tests.reading.differences import CSV_VALUES as CSV_VALUES_THAT_DIFFER
from tests.reading.differences import JSON_FILES as JSON_FILES_THAT_DIFFER
from tests.reading.differences import JSON_VALUES as JSON_VALUES_THAT_DIFFER
from tests.reading.inputs import CSV_FILES, CSV_VALUES, JSON_FILES, JSON_VALUES, ZONE, Input
from tests.reading.make import RECORDED, written
from tests.reading.plain import plain
from tidemill.sources.contract import ROW, ReadContext
from tidemill.sources.files import Files

CSV = json.loads((RECORDED / "csv.json").read_text())
JSON = json.loads((RECORDED / "json.json").read_text())


def read(folder: Path, data: bytes, format: str, schema: str, options: dict[str, Any]) -> list[tuple[int, Any]]:
    """Return the rows and rejects of a file in their order, each reject as "BAD"."""
    path = folder / f"a.{format}"
    path.write_bytes(data)
    source = Files(folder, format=format, schema=schema, mode="PERMISSIVE", **options)
    (split,) = source.splits(source.discover("source"))
    found: list[tuple[int, Any]] = []
    for block in source.read(split, 1000, ReadContext(time_zone=ZONE)):
        columns = [cells(block.rows.column(name)) for name in block.rows.schema.names if name != ROW]
        numbers = block.rows.column(ROW).to_pylist()
        found += [(number, [column[row] for column in columns]) for row, number in enumerate(numbers)]
        if block.rejects is not None:
            taken = {number for number, _ in found}
            free = (number for number in range(10_000) if number not in taken)
            found += [(number, "BAD") for number, _ in zip(free, block.rejects.to_pylist(), strict=False)]
    return sorted(found, key=lambda pair: pair[0])


def cells(column: pa.Array) -> list[Any]:
    """Return the values of a column in the form of the recordings."""
    kind = column.type
    if kind == pa.date32():
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_map(kind):
        return [None if value is None else plain(dict(value)) for value in column.to_pylist()]
    if pa.types.is_struct(kind):
        children = [cells(child) for child in column.flatten()]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        rows = zip(*children, strict=True)
        return [
            dict(zip(names, row, strict=True)) if is_valid else None
            for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    return [plain(value) for value in column.to_pylist()]


def compare(found: dict[str, Any], recorded: dict[str, Any], known: dict[str, str]) -> None:
    differ = {key: (found[key], recorded[key]) for key in recorded if found[key] != recorded[key]}
    assert {key: pair for key, pair in differ.items() if key not in known} == {}, "Tidemill, Spark"
    assert set(known) - set(differ) == set(), "no difference any more"


@pytest.mark.parametrize("kind", list(CSV_VALUES))
def test_values_of_csv_are_those_of_spark(kind: str, tmp_path: Path) -> None:
    texts = CSV_VALUES[kind]
    found = read(tmp_path, written(texts, "csv"), "csv", f"i int, v {kind}", {"sep": "|"})
    by_text = {text: row if row == "BAD" else row[1] for text, (_, row) in zip(texts, found, strict=True)}
    compare(by_text, CSV["values"][kind], CSV_VALUES_THAT_DIFFER.get(kind, {}))


@pytest.mark.parametrize("kind", list(JSON_VALUES))
def test_values_of_json_are_those_of_spark(kind: str, tmp_path: Path) -> None:
    texts = JSON_VALUES[kind]
    found = read(tmp_path, written(texts, "json"), "json", f"i int, v {kind}", {})
    by_text = {text: row if row == "BAD" else row[1] for text, (_, row) in zip(texts, found, strict=True)}
    compare(by_text, JSON["values"][kind], JSON_VALUES_THAT_DIFFER.get(kind, {}))


def check(folder: Path, given: Input, format: str, recorded: list[Any], reason: str | None) -> None:
    found = [row for _, row in read(folder, given.data.encode(), format, given.schema, given.options)]
    if reason is None:
        assert found == recorded
    else:
        assert found != recorded, "no difference any more"


@pytest.mark.parametrize("name", list(CSV_FILES))
def test_files_of_csv_are_read_as_spark_reads_them(name: str, tmp_path: Path) -> None:
    check(tmp_path, CSV_FILES[name], "csv", CSV["files"][name], CSV_FILES_THAT_DIFFER.get(name))


@pytest.mark.parametrize("name", list(JSON_FILES))
def test_files_of_json_are_read_as_spark_reads_them(name: str, tmp_path: Path) -> None:
    check(tmp_path, JSON_FILES[name], "json", JSON["files"][name], JSON_FILES_THAT_DIFFER.get(name))


def test_every_input_is_recorded() -> None:
    assert {kind: list(texts) for kind, texts in CSV["values"].items()} == {
        kind: list(dict.fromkeys(texts)) for kind, texts in CSV_VALUES.items()
    }
    assert {kind: list(texts) for kind, texts in JSON["values"].items()} == JSON_VALUES
    assert list(CSV["files"]) == list(CSV_FILES)
    assert list(JSON["files"]) == list(JSON_FILES)
