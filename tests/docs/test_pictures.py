"""Pictures are what their sources draw, are legible on light and dark pages, and have words for who cannot see them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT, name_of, pages

FOLDER = ROOT / "docs" / "pictures"
MAKE = runpy.run_path(str(FOLDER / "make.py"))
SOURCES: list[Path] = MAKE["sources"]()


def test_every_picture_has_a_source_and_is_listed() -> None:
    pictures = sorted(MAKE["picture_of"](source).name for source in SOURCES)
    assert pictures == sorted(path.name for path in FOLDER.glob("*.svg"))
    listed = (FOLDER / "README.md").read_text("utf-8")
    assert len(pictures) >= 6 and not [name for name in pictures if f"({name})" not in listed]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_picture_equals_the_drawing_of_its_source(source: Path) -> None:
    """If not: `make pictures`."""
    text = MAKE["picture_of"](source).read_text("utf-8")
    assert ElementTree.fromstring(text).get("data-source") == MAKE["checksum"](source)
    assert text == MAKE["drawn"](source)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_picture_has_colours_for_light_and_dark_and_needs_no_other_file(source: Path) -> None:
    text = MAKE["picture_of"](source).read_text("utf-8")
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"href|url\((?!#)|<image|@import", text)
    sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)"', text)}
    assert min(sizes) >= 12


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_pictures_of_pages_have_words(page: Path) -> None:
    for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)", page.read_text("utf-8")):
        assert len(words.split()) > 3, f"{target}: say what it shows"
