"""The input files of tests of bad input."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text('{"k": "x", "v": 1}\n{"k": "y", "v": 2}\n')
    return data
