"""The page of a report in a real Chromium: drawn in both colours, quiet, without requests, and used by hand."""

from __future__ import annotations

import dataclasses
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import MISSING, Browser, chromium
from tests.journeys.shop import arrive, opened, world
from tests.world import run
from tidemill.report.data import Report
from tidemill.report.page import page

EXAMPLE = Path(__file__).parents[2] / "docs/pictures/report/example.py"
pytestmark = [
    pytest.mark.servers("start Chromium"),
    pytest.mark.skipif(chromium() is None, reason=MISSING),
]
EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened_browser:
        yield opened_browser


@pytest.fixture(scope="module")
def report() -> Report:
    found: Report = runpy.run_path(str(EXAMPLE))["example"]()
    return found


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("report") / "report.html"
    written.write_text(page(report), "utf-8")
    return written


def assert_quiet(browser: Browser, file: Path) -> None:
    """The page asked for itself alone, and nothing was reported."""
    assert (browser.requests, browser.errors, browser.messages) == ([file.as_uri()], [], [])


def text_of(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


def inked(browser: Browser) -> list[int]:
    """How many colours the pixels of each chart have."""
    found: list[int] = browser.evaluate(
        "[...document.querySelectorAll('canvas')].map((one) => new Set(new Uint32Array("
        "one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer)).size)"
    )
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_chart_is_drawn_without_a_request_or_an_error(browser: Browser, file: Path, dark: bool) -> None:
    browser.open(file, dark=dark)
    assert_quiet(browser, file)
    colours = inked(browser)
    assert len(colours) == 10 and min(colours) > 3
    background = browser.evaluate("getComputedStyle(document.querySelector('.tidemill-report')).backgroundColor")
    assert background == ("rgb(13, 13, 13)" if dark else "rgb(249, 249, 247)")
    assert browser.evaluate("document.querySelectorAll('.graph .node').length") > 15


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_their_background(browser: Browser, file: Path, dark: bool) -> None:
    """A contrast of 4.5, as WCAG asks for."""
    browser.open(file, dark=dark)
    weak = browser.evaluate(
        """(() => {
        const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map((one) => {
            const part = one / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = (one) => { for (; one; one = one.parentElement) {
            const color = getComputedStyle(one).backgroundColor; if (color !== 'rgba(0, 0, 0, 0)') return color; } };
        return [...document.querySelectorAll('h1,h2,h3,p,dt,dd,small,th,td,button,figcaption,.legend,.legend b')]
          .filter((one) => one.textContent.trim() && one.offsetParent)
          .map((one) => { const a = light(getComputedStyle(one).color), b = light(behind(one));
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.className, one.textContent.slice(0, 30)]; })
          .filter(([contrast]) => contrast < 4.5); })()"""
    )
    assert weak == []


def test_the_button_changes_the_colours_of_page_and_charts(browser: Browser, file: Path) -> None:
    browser.open(file)
    before = browser.picture(".chart")
    browser.click("button.theme")
    assert text_of(browser, "button.theme") == "Light colours"
    assert browser.evaluate("getComputedStyle(document.querySelector('.tidemill-report')).backgroundColor") == (
        "rgb(13, 13, 13)"
    )
    after = browser.picture(".chart")
    browser.click("button.theme")
    assert before != after and text_of(browser, "button.theme") == "Dark colours"


def test_a_click_on_a_commit_shows_its_details(browser: Browser, file: Path, report: Report) -> None:
    browser.open(file)
    assert report.head is not None and text_of(browser, ".panel h3") == report.head.label
    browser.click('.node[data-label="main@42"]')
    assert text_of(browser, ".panel h3") == "main@42"
    assert "039.csv had amounts in euros" in text_of(browser, ".panel") and "main@38" in text_of(browser, ".panel")
    browser.click('.node[data-label="main@39"]')
    assert "3 batches, undone later" in text_of(browser, ".panel")
    browser.click("#tidemill-commits tr:nth-child(2) button")
    assert text_of(browser, ".panel h3") == report.commits[-2].label
    assert_quiet(browser, file)


def test_the_keyboard_moves_between_commits_and_branches(browser: Browser, file: Path, report: Report) -> None:
    browser.open(file)
    browser.evaluate("document.querySelector('.node[tabindex=\"0\"]').focus()")
    browser.key("ArrowLeft")
    before = report.commits[-2]
    assert text_of(browser, ".panel h3") == before.label
    browser.key("ArrowDown")
    assert text_of(browser, ".panel h3") == f"net-of-refunds@{before.version}"
    assert browser.evaluate("document.querySelectorAll('.node[tabindex=\"0\"]').length") == 1
    browser.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        browser.key("Tab")
        reached.add(browser.evaluate("document.activeElement.className.baseVal ?? document.activeElement.className"))
    assert {"theme", "link", "scroll", "more"} <= reached and any("node" in one for one in reached)


def test_more_commits_are_shown_on_request(browser: Browser, file: Path, report: Report) -> None:
    browser.open(file)
    rows = "document.querySelectorAll('#tidemill-commits tbody tr').length"
    first = browser.evaluate(rows)
    while browser.evaluate("!document.querySelector('#tidemill-commits .more').hidden"):
        browser.click("#tidemill-commits .more")
    assert first < browser.evaluate(rows) == len(report.commits)


def test_a_narrow_window_scrolls_only_downwards(browser: Browser, file: Path) -> None:
    browser.open(file, width=360, height=740)
    assert browser.evaluate("document.documentElement.scrollWidth") == 360
    assert min(inked(browser)) > 3


def test_a_key_that_looks_like_markup_is_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    world(tmp_path).put("a", '"' + EVIL.replace('"', '\\"') + '",1\n')
    r = opened(tmp_path)
    run(r)
    r.rewind(-1, reason=EVIL)
    run(r)
    r.branch("fix", at=0)
    file = tmp_path / "report.html"
    file.write_text(page(r.report(keys=[("counts", EVIL)], diff=(-1, 0))), "utf-8")
    browser.open(file)
    browser.click('.node[data-label="main@1"]')
    assert EVIL in text_of(browser, ".panel")
    assert EVIL in text_of(browser, "#tidemill-look-ups h3") and EVIL in text_of(browser, "#tidemill-diff")
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert_quiet(browser, file)


def test_the_policy_of_the_page_stops_scripts_and_requests(browser: Browser, file: Path, tmp_path: Path) -> None:
    """Also if text became markup by mistake."""
    broken = tmp_path / "broken.html"
    injected = '<script>window.ran = 1</script><img src="http://127.0.0.1:9/x.png"><p style="color: red" id="red">x</p>'
    broken.write_text(file.read_text("utf-8").replace('<main id="report">', f'{injected}<main id="report">'), "utf-8")
    browser.open(broken)
    assert browser.evaluate("window.ran") is None and browser.evaluate("document.images[0].naturalWidth") == 0
    assert browser.evaluate("getComputedStyle(document.querySelector('#red')).color") != "rgb(255, 0, 0)"
    assert len([one for one in browser.errors if "Content Security Policy" in one]) >= 3
    assert [one for one in browser.requests if one.startswith("http") and not _was_blocked(browser, one)] == []


def _was_blocked(browser: Browser, url: str) -> bool:
    return any(url in one for one in browser.errors)


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_young_repository_has_a_page(browser: Browser, tmp_path: Path, batches: int) -> None:
    arrive(tmp_path, *"ab"[:batches])
    r = opened(tmp_path)
    run(r)
    file = tmp_path / "report.html"
    file.write_text(page(r.report()), "utf-8")
    browser.open(file)
    assert_quiet(browser, file)
    assert text_of(browser, ".facts dd").startswith(f"version {batches - 1}" if batches else "no batch yet")
    assert browser.evaluate("document.querySelectorAll('canvas').length") == (7 if batches else 0)


def test_strange_values_do_not_break_the_page(browser: Browser, tmp_path: Path, report: Report) -> None:
    """Times outside of the years that a date can have, missing counts, a dropped branch, very long names."""
    odd: dict[str, Any] = {"batch_time_ms": 2**53 - 1, "parent": "gone@3", "tags": ("t" * 200,), "promoted": "gone@7"}
    head = dataclasses.replace(report.commits[-1], **odd)
    marks = [dataclasses.replace(one, time_ms=-(2**52), behind_batch_time_ms=2**53 - 1) for one in report.watermarks]
    made = dataclasses.replace(
        report,
        pipeline="p" * 300,
        head=head,
        commits=[*report.commits[:-1], head],
        watermarks=marks,
        problems=["x " * 400],
    )
    file = tmp_path / "report.html"
    file.write_text(page(made), "utf-8")
    browser.open(file, width=800)
    assert_quiet(browser, file)
    assert browser.evaluate("document.documentElement.scrollWidth") == 800


def test_without_scripts_the_most_important_tables_are_there(file: Path, report: Report) -> None:
    with Browser() as browser:
        browser.without_scripts()
        browser.open(file)
        shown = browser.evaluate("document.body.innerText")
    assert all(one.label in shown for one in report.commits[-10:]) and "had amounts in euros" in shown
