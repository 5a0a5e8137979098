"""What tests of several files start from: input files of tests of bad input, and a pipeline with three versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.place import Place, placed


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text('{"k": "x", "v": 1}\n{"k": "y", "v": 2}\n')
    return data


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return placed(tmp_path)
