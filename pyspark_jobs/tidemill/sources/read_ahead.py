"""Reading ahead: one item is made by a thread while the one before it is used.

INVARIANT: items and errors come in the order in which they would come without it, and no thread outlives the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """`items`, each made while the caller is busy with the one before; an error is raised where its item would come."""
    end = object()
    with ThreadPoolExecutor(1, "tidemill-read") as thread:
        following = thread.submit(next, items, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
