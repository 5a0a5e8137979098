"""The scripts and styles that draw a report, as text: for one page, or for a page of another program.

They are read from `assets/`, and nothing of Tidemill is imported.
"""

from __future__ import annotations

import functools
import importlib.resources

LIBRARY = "uPlot.iife.min.js"
SCRIPTS = ("elements.js", "format.js", "charts.js", "graph.js", "sections.js", "report.js")
STYLES = ("uPlot.min.css", "report.css")


@functools.cache
def scripts() -> str:
    """Return the scripts: they define `TidemillReport.render(element, data, ask)`, which shows a report in an element.

    `ask(operator, key)` is called if the user looks up a key; without it there is no form.
    """
    parts = "\n".join(asset(name) for name in SCRIPTS)
    notice = f"/*\nuPlot, inlined below:\n\n{asset('uPlot.LICENSE')}\n*/"
    return f'{notice}\n{asset(LIBRARY)}\n(function () {{\n"use strict";\n{parts}\n}})();'


@functools.cache
def styles() -> str:
    """Return the style of everything that `TidemillReport.render` makes."""
    return "\n".join(asset(name) for name in STYLES)


@functools.cache
def asset(name: str) -> str:
    """Return the text of a file in `assets/`."""
    return importlib.resources.files(__package__).joinpath("assets", name).read_text("utf-8").strip()
