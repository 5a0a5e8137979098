"""What a replay says while it runs: the files that are left, and an estimate of the time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.place import Place, placed
from tidemill.cli import progress
from tidemill.cli.main import main


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return placed(tmp_path)


@dataclasses.dataclass
class Batch:
    input_files: int
    numFilesOutstanding: int


@pytest.mark.parametrize(
    ("elapsed", "outstanding", "said"),
    [
        (0.5, 10, ""),
        (4, 10, ", about 20 s left"),
        (30, 10, ", about 2 min left"),
        (30, 0, ""),
        (60, 600, ", about 300 min left"),
    ],
)
def test_the_time_left_follows_from_the_files_that_were_read(
    elapsed: float, outstanding: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: list[float] = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    estimate = progress.Estimate()
    now[0] += elapsed
    batch: Any = Batch(input_files=2, numFilesOutstanding=outstanding)
    assert estimate.after(batch) == said


def test_a_batch_without_files_gives_no_estimate() -> None:
    batch: Any = Batch(input_files=0, numFilesOutstanding=5)
    assert progress.Estimate().after(batch) == ""


def test_a_replay_counts_the_files_that_are_left(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["replay", f"{place.folder / 'shop.py'}:twice", "--root", str(place.folder / "root"), "--from", "0"]
    assert main([*asked, "--into", "fix", "--engine", "local"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("version ")]
    assert [line.rsplit(", ", 1)[1] for line in lines] == ["3 files left", "1 file left", "0 files left"]
