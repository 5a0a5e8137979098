"""The code in the pages runs, page by page, and prints what the pages show. How to write blocks: `pages.py`.

`WRITE_PAGES=1 python -m pytest tests/docs/test_pages.py` puts what is printed into the pages; look at what it changed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import tidemill as tm
from tests.docs.pages import (
    ROOT,
    RUN,
    SHOWN,
    Block,
    Runner,
    agrees,
    blocks_of,
    comparable,
    name_of,
    pages,
    rewrite,
    without_blocks,
)
from tests.model import retail
from tidemill.units import time_ms

PAGES = {name_of(page): page for page in pages()}
BLOCKS = [(name, block) for name, page in PAGES.items() for block in blocks_of(page)]
OF_STREAMS = {
    name for kind in (tm.Pipeline, tm.Stream, tm.GroupedStream, tm.Repository) for name in dir(kind) if name[0] != "_"
}


def repository_of_four_batches(runner: Runner) -> None:
    """`r`, a repository with an operator `spend` and versions 0 to 3, a day each, of which 2 is of 1 March 2026."""
    p = tm.Pipeline("retail")
    spec = tm.StateSpec.function(lambda value, state: state.update(value))
    p.read(tm.Rows("customer long, amount long")).groupBy("customer").mapWithState(
        spec, "long", "customer long", value="amount", name="spend"
    )
    tester = tm.testing.Tester(p, start_ms=time_ms("2026-02-27"), batch_interval_ms=86_400_000)
    for amount in range(4):
        tester.batch([(1, amount)])
    vars(runner.module).update(tester=tester, r=tester.repository)


def year_of_sales(runner: Runner) -> None:
    """`sales`, the daily files of Online Retail but the last two, which are in `late`."""
    if not retail.REAL.is_dir():
        pytest.skip("real data not there: put the 305 daily files of Online Retail into ../shared/data/online-retail")
    for folder, files in (
        ("sales", sorted(retail.REAL.glob("*.csv"))[:-2]),
        ("late", sorted(retail.REAL.glob("*.csv"))[-2:]),
    ):
        (runner.here / folder).mkdir()
        for file in files:
            shutil.copy(file, runner.here / folder)


PAGES_NEED: dict[str, Callable[[Runner], None]] = {
    "docs/concepts.md": repository_of_four_batches,
    "docs/guides/pull-request.md": year_of_sales,
}
"""What a page takes as given, by its name: run before its first block."""
SLOW_PAGES = {"docs/guides/pull-request.md": pytest.mark.servers("replay a year of real data twice", seconds=80)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=SLOW_PAGES.get(name, ()))
        for name in PAGES
        if any(name == of and b.language in RUN for of, b in BLOCKS)
    ],
)
def test_the_blocks_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner(PAGES[name], monkeypatch)
    if name in PAGES_NEED:
        PAGES_NEED[name](runner)
    printed: str | None = None
    for block in blocks_of(PAGES[name]):
        if block.language == "text" and block.follows and printed is not None:
            if os.environ.get("WRITE_PAGES") and not agrees(block.text, printed):
                rewrite(PAGES[name], block, printed)
                continue
            place = f"{name}, line {block.line}: the page shows\n{comparable(block.text)}\n\nprinted was\n"
            assert agrees(block.text, printed), place + comparable(printed)
        runs = block.language in RUN and block.not_run is None
        printed = runner.run(block) if runs else None


def test_every_block_has_a_known_language() -> None:
    unknown = {f"{name}:{block.line}": block.language for name, block in BLOCKS if block.language not in RUN | SHOWN}
    assert unknown == {}


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{name}:{block.line}") for name, block in BLOCKS if block.language in SHOWN]
)
def test_data_in_blocks_is_valid(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    if block.language == "toml":
        tomllib.loads(block.text)


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{name}:{block.line}") for name, block in BLOCKS if block.language == "python"]
)
def test_blocks_of_python_use_only_existing_names(block: Block) -> None:
    """Also in blocks that do not run."""
    names = {node.attr for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Attribute) and _of_tm(node)}
    assert {name for name in names if not hasattr(tm, name)} == set()


def _of_tm(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "tm"


def test_blocks_that_do_not_run_say_why(record_property: Callable[[str, object], None]) -> None:
    """`python -m pytest tests/docs/test_pages.py -k say_why -s` lists them."""
    listed = [
        f"{name}:{block.line}: {block.not_run}" for name, block in BLOCKS if block.language in RUN and block.not_run
    ]
    print("\n" + "\n".join(listed))
    record_property("blocks that do not run", len(listed))
    running = sum(block.language in RUN for _, block in BLOCKS) - len(listed)
    assert all(len(line.partition(": ")[2]) > 3 for line in listed)
    assert running > len(listed)


@pytest.mark.parametrize("name", PAGES)
def test_names_of_the_api_in_texts_of_pages_exist(name: str) -> None:
    text = PAGES[name].read_text("utf-8")
    named = {found.partition(".")[0] for found in re.findall(r"`tm\.(\w+(?:\.\w+)?)", text)}
    assert {found for found in named if not hasattr(tm, found)} == set()
    of_repository = set(re.findall(r"`r\.(\w+)\(", text))
    assert {found for found in of_repository if found not in OF_STREAMS} == set()


@pytest.mark.parametrize("name", PAGES)
def test_paragraphs_in_items_of_lists_are_indented_by_four(name: str) -> None:
    """With fewer spaces the Markdown of the site ends the list, and its numbers start again at 1."""
    lines = without_blocks(PAGES[name]).split("\n")
    belongs = [line for before, line in pairwise(lines) if not before.strip() and re.match(r" {1,3}\S", line)]
    nested = [line for line in lines if re.match(r" {1,3}(?:[-*]|\d+\.) ", line)]
    assert (belongs, nested) == ([], [])


def test_links_between_pages_lead_somewhere() -> None:
    """Anchors, and the pages as a site: `test_site.py`."""
    lost = [
        f"{name}: {link}"
        for name, page in PAGES.items()
        for link in re.findall(r"\]\(((?!https?:|#|mailto:)[^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert lost == []
    assert len(BLOCKS) > 50


def test_the_runner_detects_different_output() -> None:
    assert agrees("a  1\n…\nz", "a 1\nb\nc\nz\n") and agrees("in 0.1 s", "in 12.7 s") and agrees("x …", "x y z")
    assert not agrees("a\n…\nz", "a\nb") and not agrees("3 rows", "4 rows") and not agrees("a\nb", "a")
    assert ROOT.joinpath("README.md").is_file()
