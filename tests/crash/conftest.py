"""The fixture that all drains of this folder begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.drain import Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Makes the project of `drain` in a folder of that name."""
    return lambda name: make_project(tmp_path / name)
