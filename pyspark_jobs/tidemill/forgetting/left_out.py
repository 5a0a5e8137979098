"""What a caller of `forget` agreed to leave: operators, sinks and folders that cannot be searched, by name.

Commits keep the names as `left_label` writes them, so that `verify` does not report the same again.
"""

from __future__ import annotations

from collections.abc import Iterable


def left_label(kind: str, name: str) -> str:
    """Return how a message and a commit name something that cannot be searched.

    >>> left_label("sink", "daily")
    'sink `daily`'
    """
    return f"{kind} `{name}`"


def is_left_out(left: Iterable[str], kind: str, name: str) -> bool:
    """Whether a list names something, with or without its kind and with or without backticks.

    >>> is_left_out(["daily"], "sink", "daily"), is_left_out(["operator daily"], "sink", "daily")
    (True, False)
    """
    return any(_plain(one) in (name, _plain(left_label(kind, name))) for one in left)


def _plain(text: str) -> str:
    return text.replace("`", "").strip()
