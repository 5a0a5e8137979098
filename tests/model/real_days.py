"""A part of the real retail data: the same days in every run, and in an exhaustive run the whole year."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.model.retail import REAL


def real_days(into: Path, most: int) -> Path:
    """Return a folder with the first days of real sales, at `into` or in an exhaustive run that of the year."""
    if not REAL.is_dir():
        pytest.skip("real data not there: put the 305 daily files of Online Retail into ../shared/data/online-retail")
    if EXHAUSTIVE:
        return REAL
    into.mkdir()
    for day in sorted(REAL.glob("*.csv"))[:most]:
        (into / day.name).symlink_to(day)
    return into
