"""The files that the page is made of: the pinned chart library, and scripts that cannot end their own element."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.docs.pages import ROOT
from tidemill.report.drawing import SCRIPTS, STYLES, scripts, styles

ASSETS = ROOT / "pyspark_jobs/tidemill/report/assets"
README = (ASSETS / "README.md").read_text("utf-8")
PINNED = re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", README, re.M)


def test_the_library_is_pinned() -> None:
    assert {name for name, _ in PINNED} == {"uPlot.iife.min.js", "uPlot.min.css"}
    version = re.search(r"`uplot` ([\d.]+)", README)
    assert version and f"(v{version[1]})" in (ASSETS / "uPlot.iife.min.js").read_text("utf-8")[:100]


@pytest.mark.parametrize(("name", "digest"), PINNED)
def test_a_file_of_the_library_is_unchanged(name: str, digest: str) -> None:
    assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest


def test_every_script_and_style_is_in_the_page() -> None:
    ours = {path.name for path in ASSETS.glob("*.js")} - {"uPlot.iife.min.js", "start.js", "start_served.js"}
    assert ours == set(SCRIPTS) and {path.name for path in ASSETS.glob("*.css")} == set(STYLES)


def test_scripts_and_styles_cannot_end_their_element() -> None:
    assert not re.search(r"</script|<!--", scripts(), re.I) and not re.search(r"</style|@import|url\(", styles(), re.I)


def test_our_scripts_never_make_markup_or_code_of_text() -> None:
    code = "".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|fetch\(", code)
