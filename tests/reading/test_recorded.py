"""What Tidemill reads, compared with what Spark 4.3 read once: each value and each file, and each difference.

A corrupt record of Spark is a reject here. INVARIANT: each difference stands in `differences`, with its reason, and in
`recorded/tidemill.json`, with what Tidemill reads instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reading import differences
from tests.reading.inputs import CSV_FILES, CSV_VALUES, JSON_FILES, JSON_VALUES
from tests.reading.make import RECORDED
from tests.reading.reading import read_file, read_values

SPARK = {format: json.loads((RECORDED / f"{format}.json").read_text()) for format in ("csv", "json")}
OURS = json.loads((RECORDED / "tidemill.json").read_text())


def check_values(format: str, kind: str, found: dict[str, Any]) -> None:
    known = OURS[f"{format} values"].get(kind, {})
    assert found == SPARK[format]["values"][kind] | known


@pytest.mark.parametrize("kind", list(CSV_VALUES))
def test_values_of_csv_are_those_of_spark(kind: str, tmp_path: Path) -> None:
    check_values("csv", kind, read_values(tmp_path, kind, CSV_VALUES[kind], "csv"))


@pytest.mark.parametrize("kind", list(JSON_VALUES))
def test_values_of_json_are_those_of_spark(kind: str, tmp_path: Path) -> None:
    check_values("json", kind, read_values(tmp_path, kind, JSON_VALUES[kind], "json"))


def check_file(format: str, name: str, found: list[Any]) -> None:
    assert found == OURS[f"{format} files"].get(name, SPARK[format]["files"][name])


@pytest.mark.parametrize("name", list(CSV_FILES))
def test_files_of_csv_are_read_as_spark_reads_them(name: str, tmp_path: Path) -> None:
    check_file("csv", name, read_file(tmp_path, CSV_FILES[name], "csv"))


@pytest.mark.parametrize("name", list(JSON_FILES))
def test_files_of_json_are_read_as_spark_reads_them(name: str, tmp_path: Path) -> None:
    check_file("json", name, read_file(tmp_path, JSON_FILES[name], "json"))


def test_every_input_is_recorded() -> None:
    csv, lines = SPARK["csv"], SPARK["json"]
    assert {kind: list(texts) for kind, texts in csv["values"].items()} == {
        kind: list(dict.fromkeys(texts)) for kind, texts in CSV_VALUES.items()
    }
    assert {kind: list(texts) for kind, texts in lines["values"].items()} == JSON_VALUES
    assert list(csv["files"]) == list(CSV_FILES)
    assert list(lines["files"]) == list(JSON_FILES)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_each_difference_is_one_and_has_its_reason(format: str) -> None:
    values, files = (
        (differences.CSV_VALUES, differences.CSV_FILES)
        if format == "csv"
        else (differences.JSON_VALUES, differences.JSON_FILES)
    )
    ours, spark = OURS[f"{format} values"], SPARK[format]["values"]
    assert {kind: set(texts) for kind, texts in ours.items()} == {kind: set(texts) for kind, texts in values.items()}
    assert [(kind, text) for kind in ours for text in ours[kind] if ours[kind][text] == spark[kind][text]] == []
    assert set(OURS[f"{format} files"]) == set(files)
    assert [name for name in files if OURS[f"{format} files"][name] == SPARK[format]["files"][name]] == []
