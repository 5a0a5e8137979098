"""Photograph the report of the example in Chromium: `report-*.png`. `make pictures` runs it after the drawings."""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WIDTH = 1200
LAST_OF_OVERVIEW = "#tidemill-charts"


def photograph() -> None:
    """Write the overview in light and dark colours, and the part with the look-up."""
    from tests.browser import Browser
    from tidemill.report.page import page

    report = runpy.run_path(str(HERE / "example.py"))["example"]()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = Path(folder) / "report.html"
        file.write_text(page(report), "utf-8")
        for dark in (False, True):
            browser.open(file, width=WIDTH, dark=dark)
            browser.click('.node[data-label="main@42"]')
            browser.evaluate("document.querySelector('.graph-scroll').scrollLeft = 1e6")
            end = browser.evaluate(
                f"document.querySelector('{LAST_OF_OVERVIEW}').getBoundingClientRect().bottom + scrollY"
            )
            _save(f"report-{'dark' if dark else 'light'}", browser.picture(last=end + 7))
        browser.open(file, width=WIDTH)
        _save("report-look-up", browser.picture("#tidemill-look-ups"))


def _save(name: str, png: bytes) -> None:
    (HERE.parent / f"{name}.png").write_bytes(png)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "pyspark_jobs")]
    from tests.browser import MISSING, chromium

    if chromium() is None:
        sys.stderr.write(f"the pictures of the report stay as they are: {MISSING}\n")
    else:
        photograph()
