"""Results in a notebook: a short text and a table, in which no name and no value is HTML of its own."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.notebook import NotebookList, NotebookResult

EVIL = '<script>alert("1")</script>&\x1b[31m\u202e'


class Cells(HTMLParser):
    """The tags of a page and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Printer:
    """What IPython gives to `_repr_pretty_`."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, said: str) -> None:
        self.said += said


def pretty(shown: NotebookResult) -> str:
    printer = Printer()
    shown._repr_pretty_(printer, cycle=False)
    return printer.said


TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "br", "p"}


class Evil(NotebookResult):
    def in_notebook(self) -> dict[str, Any]:
        return {EVIL: EVIL, "list": [EVIL, "b"], "map": {EVIL: EVIL}, "empty": [], "none": None, "long": "x" * 1000}


def test_names_and_values_are_escaped_and_cut() -> None:
    for page in (Evil()._repr_html_(), NotebookList([Evil(), Evil()])._repr_html_()):
        found = Cells(page)
        assert found.tags <= TAGS and "script" not in found.tags
        shown = '<script>alert("1")</script>&\\u{1b}[31m\\u{202e}'
        assert found.texts.count(shown) >= 3 and f"{shown}: {shown}" in found.texts
        assert max(map(len, found.texts)) == 300 and "\x1b" not in page and "\u202e" not in page
    said = pretty(Evil())
    assert said.startswith("Evil(") and "\x1b" not in said and "none=" not in said and "empty=" not in said


def test_a_long_list_shows_its_first_elements_and_how_many_more() -> None:
    found = Cells(NotebookList([Evil()] * 70)._repr_html_())
    assert found.texts[-1] == "20 more" and found.texts.count("b") == 50
    assert Cells(NotebookList([])._repr_html_()).texts == []


def test_a_list_of_results_reaches_another_process() -> None:
    sent = pickle.loads(pickle.dumps(NotebookList([1, 2], remarks=lambda: ["one", "two"])))
    assert (type(sent), sent) == (NotebookList, [1, 2])


@pytest.fixture
def r(tmp_path: Path) -> tm.Repository:
    world = World(tmp_path)
    world.arrive([(EVIL.replace('"', ""), 1)], [("a", 1), ("a", 2)])
    made = world.open()
    assert run(made) == [0, 1]
    made.tag("first", 0)
    made.branch("fix", at=0)
    return made


def test_every_result_has_a_short_text_and_a_table(r: tm.Repository) -> None:
    results = {
        "commit": r.head, "status": r.status(), "check": r.check(), "verify": r.verify(), "init": r.init(),
        "plan": r.rewind(0, "a test", dry_run=True), "upkeep": r.maintain(keep_versions=1, dry_run=True),
        "diff": r.diff(0, 1), "state diff": r.diff(0, 1, operator="counts"), "output diff": r.diff(0, 1, sink="counts"),
        "replay": r.replay(1, into="again", engine="local"),
    }  # fmt: skip
    for name, one in results.items():
        page, said = one._repr_html_(), pretty(one)  # type: ignore[union-attr]
        assert Cells(page).tags <= TAGS and len(said) < 1_500, name
        assert said.startswith(f"{type(one).__name__}(") and f"<strong>{type(one).__name__}</strong>" in page
    assert pretty(r.head) == (
        f"Commit(version=1, kind=batch, batch time={r.status().batch_time!r}, rows=2, files=1, late=0, quarantined=0)"
    )
    assert repr(r.head) == pretty(r.head)
    assert "changes=['the state becomes that of version 0', 'undone: version 1'" in pretty(results["plan"])


def test_lists_of_results_are_lists_that_show_a_table(r: tm.Repository, tmp_path: Path) -> None:
    World(tmp_path).put("z.csv", [("z", 1)])
    lists: dict[str, list[Any]] = {
        "run": r.run(engine="local"), "sweep": r.sweep(engine="local"), "log": r.log(), "commits": r.commits(),
        "branches": r.branches(), "tags": r.tags(), "which": r.which("z.csv"), "files": r.input_files(2),
        "history": r.history("counts", "a"),
    }  # fmt: skip
    for name, one in lists.items():
        assert isinstance(one, list) and one == list(one)
        found = Cells(one._repr_html_())  # type: ignore[attr-defined]
        assert found.tags <= TAGS and (found.texts or name == "sweep"), name
    assert [text for text in Cells(lists["log"]._repr_html_()).texts if text in "012"][::5] != []  # type: ignore[attr-defined]
    assert "tag first" in Cells(r.log()._repr_html_()).texts  # type: ignore[attr-defined]
    r.rewind(0, "a test")
    said = Cells(r.log()._repr_html_()).texts  # type: ignore[attr-defined]
    assert "to version 0" in said and "undone" in said and said.count("remarks") == 1
    assert Cells(lists["tags"]._repr_html_()).texts == ["name", "branch", "version", "first", "main", "0"]  # type: ignore[attr-defined]
    assert r.history("counts", EVIL.replace('"', ""))._repr_html_().count("<script>") == 0  # type: ignore[attr-defined]
