"""Every file and folder that ARCHITECTURE.md names exists, and every promise in it names a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PLACES = [ROOT, ROOT / "pyspark_jobs/tidemill", ROOT / "native/core/src"]
NAMED = sorted(set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.(?:py|pyi|rs))`", TEXT)))


@pytest.mark.parametrize("path", NAMED)
def test_a_path_that_the_page_names_exists(path: str) -> None:
    assert any((place / path).exists() for place in PLACES)


def test_every_promise_names_a_test_and_every_room_is_listed() -> None:
    _, _, promises = TEXT.partition("| promise |")
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) == 27
    assert [row for row in rows if "`tests/" not in row] == []
    package = ROOT / "pyspark_jobs/tidemill"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    assert {room for room in rooms if f"`{room}`" not in TEXT} == set()
