"""From a report to one HTML page that needs no other file and no network. Pure, apart from reading `assets/`.

INVARIANT: data cannot become markup or code. In the page it is JSON with every `<`, `>` and `&` escaped; the scripts
show it as text; the plain tables escape it. The content security policy allows only this style and these scripts, by
their hashes, and no request.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

from .data import Report
from .drawing import asset, scripts, styles
from .plain_tables import plain_tables

_ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def page(report: Report, served: bool = False) -> str:
    """Return the page of a report. `served`: a server makes it, so it can ask for the look-up of a key."""
    style, script = styles(), f"{scripts()}\n{asset('start_served.js' if served else 'start.js')}"
    values = {
        "title": html.escape(f"{report.pipeline}: Tidemill report"),
        "policy": _policy(style, script),
        "style": style,
        "plain": plain_tables(report),
        "data": data_of(report),
        "script": script,
    }
    return _PLACE.sub(lambda found: values[found[1]], asset("page.html"))


def data_of(report: Report) -> str:
    """Return a report as JSON that may stand in a `script` element: ASCII, without `<`, `>` and `&`."""
    return json.dumps(report.as_dict(), separators=(",", ":"), allow_nan=False).translate(_ESCAPED)


def _policy(style: str, script: str) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{_sha256(script)}'",
        "style-src": f"'sha256-{_sha256(style)}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
