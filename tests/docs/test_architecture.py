"""Every file and folder that ARCHITECTURE.md names exists, and every promise in it names one test to begin with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PLACES = [ROOT, ROOT / "pyspark_jobs/tidemill", ROOT / "native/core/src"]
NAMED = sorted(set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.(?:py|pyi|rs))`", TEXT)))


@pytest.mark.parametrize("path", NAMED)
def test_a_path_that_the_page_names_exists(path: str) -> None:
    assert any((place / path).exists() for place in PLACES)


def test_every_promise_names_its_place_and_one_test_and_every_room_is_listed() -> None:
    promises = TEXT.partition("\n## Promises\n")[2].partition("\n## ")[0]
    listed = [" ".join(one.split()) for one in re.split(r"^- ", promises, flags=re.M)[1:]]
    listed = [one for one in listed if one.startswith("**")]
    assert len(listed) == 31
    named = {one: re.findall(r"`([^`]+)`", one) for one in listed}
    tests = {one: [name for name in names if name.startswith("tests/")] for one, names in named.items()}
    assert [one for one in listed if len(tests[one]) != 1] == []
    places = {one: [name for name in named[one] if name not in tests[one] and name in NAMED] for one in listed}
    assert [one for one in listed if len(places[one]) != 1] == []
    package = ROOT / "pyspark_jobs/tidemill"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    assert {room for room in rooms if f"`{room}`" not in TEXT} == set()


def test_rooms_are_in_the_order_of_the_layers() -> None:
    layers = next(
        one
        for one in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
        if one.get("containers") == ["tidemill"]
    )["layers"]
    of = {room: place for place, layer in enumerate(layers) for room in re.split(r" [|:] ", layer)}
    table = TEXT.partition("| room in ")[2].partition("\n\n")[0].splitlines()[2:]
    rooms = [room for row in table for room in re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])]
    assert sorted(rooms) == sorted(of.keys() - {"__main__"})
    assert rooms == sorted(rooms, key=of.__getitem__)


def test_every_cell_of_a_table_is_short() -> None:
    """The page is read in five minutes."""
    cells = [cell.strip() for line in TEXT.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert len(cells) > 40
    assert [cell for cell in cells if len(cell) > 200] == []
