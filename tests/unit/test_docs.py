"""The code in the pages: it is Python, and what it calls is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tidemill as tm

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
OF_STREAMS = {
    name for kind in (tm.Pipeline, tm.Stream, tm.GroupedStream, tm.Repository) for name in dir(kind) if name[0] != "_"
}


@pytest.mark.parametrize("text", BLOCKS)
def test_blocks_are_python_and_name_what_there_is(text: str) -> None:
    names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute) and _of_tm(node)}
    assert {name for name in names if not hasattr(tm, name)} == set()


def _of_tm(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "tm"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_name_in_passing_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = {name.partition(".")[0] for name in re.findall(r"`tm\.(\w+(?:\.\w+)?)", text)}
    assert {name for name in named if not hasattr(tm, name)} == set()
    of_repository = set(re.findall(r"`r\.(\w+)\(", text))
    assert {name for name in of_repository if name not in OF_STREAMS} == set()


def test_links_between_pages_lead_somewhere() -> None:
    lost = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(((?!https?:|#|mailto:)[^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert lost == []
    assert len(BLOCKS) > 10
