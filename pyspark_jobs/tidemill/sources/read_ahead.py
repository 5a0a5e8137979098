"""Reading ahead: a thread makes the next item while the caller uses the current one.

INVARIANT: items and errors come in the same order as without it, and no thread outlives the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def read_ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield `items`, each made while the caller uses the previous one. An error is raised in place of its item."""
    end = object()
    with ThreadPoolExecutor(1, "tidemill-read") as thread:
        following = thread.submit(next, items, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
