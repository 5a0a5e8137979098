"""What tests of several files start from: a file that waits, and a pipeline with three versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journeys.bad_input import counting
from tests.journeys.place import Place, placed
from tests.world import World
from tidemill.cli.main import main

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A file with two rows waits, and the code counts them."""
    made = World(tmp_path, counting("n"), name="bad", format="json", maxFilesPerTrigger=None)
    made.put("a", [{"k": "x", "v": 1}, {"k": "y", "v": 2}])
    return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return placed(tmp_path)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line; gives exit status, stdout and stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        return main([str(one) for one in arguments]), *capfd.readouterr()

    return run
