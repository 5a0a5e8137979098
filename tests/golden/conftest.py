"""A copy of the golden repository of format 1, opened with current code. Tests never write to the recorded files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.golden import make

EXPECTED = json.loads((make.FOLDER / "expected.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Golden:
    """A copy of the recorded folders `root`, `input` and `published` in `folder`."""

    folder: Path

    @property
    def repository(self) -> Path:
        """The folder of the pipeline's repository."""
        return self.folder / "root" / "orders"

    def open(self) -> tm.Repository:
        """Open the repository without cached segments, like a new process."""
        pipeline = make.pipeline(str(self.folder / "input"), str(self.folder / "published"))
        return tm.open(pipeline, root=str(self.folder / "root"), conf={"tidemill.cache_bytes": 0})

    def read(self) -> tm.Reader:
        """Read the repository without code, and without cached segments."""
        return tm.read(str(self.folder / "root"), "orders", conf={"tidemill.cache_bytes": 0})

    def adopt(self) -> None:
        """Say that the copy is the repository now, so that it can be written."""
        self.open().adopt("moved by a test", moved=True)

    def commit(self, version: int) -> Path:
        """The file of a commit."""
        return self.repository / f"branches/main/commits/{version:010d}.json"

    def plan(self, number: int) -> Path:
        """The file of a plan."""
        return self.repository / f"branches/main/plans/{number:010d}.json"

    def record(self, version: int) -> dict[str, Any]:
        """A commit as JSON, without its checksum."""
        return without_checksum(self.commit(version))

    def objects(self) -> Iterator[str]:
        """The names of all objects of the repository."""
        for path in sorted(self.repository.rglob("*")):
            if path.is_file():
                yield path.relative_to(self.repository).as_posix()


@pytest.fixture
def golden(tmp_path: Path) -> Golden:
    """Return the copy, as recorded. Git does not keep modification times, so those of input files are set."""
    shutil.copytree(make.FOLDER, tmp_path / "golden")
    copy = Golden(tmp_path / "golden")
    for number in (0, 1, 3):
        for split in json.loads(copy.plan(number).read_bytes())["splits"]:
            os.utime(copy.folder / "input" / split["path"], ns=(split["modified_ms"] * 1_000_000,) * 2)
    return copy


@pytest.fixture
def moved(golden: Golden) -> Golden:
    """Return the copy after it was adopted, so that it can be written."""
    golden.adopt()
    return golden


def without_checksum(path: Path) -> dict[str, Any]:
    """Return a record as JSON without its checksum, so that a test can change it and reach the other checks."""
    found: dict[str, Any] = json.loads(path.read_bytes())
    del found["checksum"]
    return found


def cells(table: pa.Table) -> list[list[Any]]:
    """Return rows in the form of `expected.json`: decimals as text, times as ISO text in UTC with milliseconds."""
    return [[_cell(value) for value in row.values()] for row in table.to_pylist()]


def _cell(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    return value
