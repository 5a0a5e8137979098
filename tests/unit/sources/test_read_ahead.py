"""Reading ahead: the same items and errors as without it, one item early, and no thread remains."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tidemill.sources.read_ahead import read_ahead


def test_items_keep_their_order_and_the_next_is_made_ahead() -> None:
    made, second = [], threading.Event()

    def numbers() -> Iterator[int]:
        for number in range(5):
            made.append(threading.current_thread().name)
            if number == 1:
                second.set()
            yield number

    found = read_ahead(numbers())
    assert next(found) == 0
    assert second.wait(10), "the second item is not made while the first is used"
    assert list(found) == [1, 2, 3, 4]
    assert threading.current_thread().name not in made


def test_an_error_is_raised_in_place_of_its_item() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    found = read_ahead(numbers())
    assert next(found) == 1
    with pytest.raises(OSError, match="gone"):
        next(found)


def test_no_thread_remains_if_the_caller_stops_early() -> None:
    before = threading.active_count()
    found = read_ahead(iter(range(100)))
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
