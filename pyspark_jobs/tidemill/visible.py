"""Text from files as people see it: control characters are escaped, so that no file can drive a terminal, and so are
those that change the order in which it shows others.

For tables, errors and notes. INVARIANT: what programs read, such as JSON output and exports, has the text as it is.
"""

from __future__ import annotations

import re

_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ORDER = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that end lines or change the order in which a terminal shows others."""
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f{_ORDER}]")
_KEPT = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_ORDER}]")


def visible(text: str) -> str:
    r"""Return a text with its control characters escaped.

    >>> print(visible("a\tb\x1b[31m"))
    a\tb\u{1b}[31m
    """
    return _CONTROL.sub(lambda found: _NAMED.get(found[0], f"\\u{{{ord(found[0]):x}}}"), text)


def visible_lines(text: str) -> str:
    r"""Return a text of several lines with all control characters escaped but line feeds and tabs.

    >>> print(visible_lines("a\x1b[31m\nb"))
    a\u{1b}[31m
    b
    """
    return text if text.isprintable() else _KEPT.sub(lambda found: visible(found[0]), text)


def is_visible(text: str) -> bool:
    """Return whether a text has no control characters."""
    return _CONTROL.search(text) is None
