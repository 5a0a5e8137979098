"""The script of the page in Airflow: one plain file that has the report's charts and style, and three components.

It is made of `assets/` and of the scripts of `tidemill report`, so both pages draw a pipeline in the same way.
"""

from __future__ import annotations

import functools
import importlib.resources
import json

from ...report.drawing import scripts, styles
from . import PAGE_NAME, SUMMARY_NAME, TAB_NAME

_PARTS = ("pipelines.js", "components.js")


@functools.cache
def bundle() -> str:
    """Return the script. Loaded by Airflow's pages, it defines a component for each of its names."""
    here = importlib.resources.files(__package__).joinpath("assets")
    parts = "\n".join(here.joinpath(name).read_text("utf-8") for name in _PARTS)
    css = styles() + "\n" + here.joinpath("pipelines.css").read_text("utf-8")
    given = f"const STYLE = {json.dumps(css)}, NAMES = {json.dumps([PAGE_NAME, TAB_NAME, SUMMARY_NAME])};"
    return f'{scripts()}\n(function () {{\n"use strict";\n{given}\n{parts}\n}})();\n'
