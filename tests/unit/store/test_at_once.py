"""Calls side by side: really at once on S3, strictly in order elsewhere, and no thread that goes on after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tidemill.store import Store, run_both, side_by_side

WAIT_S = 20


class Answers:
    """The part of a store that matters here."""

    def __init__(self, requests_at_once: int) -> None:
        self.requests_at_once = requests_at_once


def store(requests_at_once: int) -> Store:
    return cast(Store, Answers(requests_at_once))


def test_calls_are_made_at_once() -> None:
    barrier = threading.Barrier(3)
    made = side_by_side(store(3), [lambda: barrier.wait(WAIT_S) for _ in range(3)])  # each waits for the others
    assert sorted(made) == [0, 1, 2]


def test_results_come_in_the_order_of_the_calls() -> None:
    first_may_end = threading.Event()

    def first() -> str:
        assert first_may_end.wait(WAIT_S)
        return "first"

    def second() -> str:
        first_may_end.set()
        return "second"

    assert side_by_side(store(2), [first, second]) == ["first", "second"]


def test_a_store_for_one_request_at_a_time_gets_the_calls_in_order_in_this_thread() -> None:
    seen: list[tuple[int, threading.Thread]] = []
    side_by_side(
        store(1), [lambda number=number: seen.append((number, threading.current_thread())) for number in (1, 2)]
    )
    assert seen == [(1, threading.current_thread()), (2, threading.current_thread())]


def test_no_more_calls_are_taken_than_can_begin() -> None:
    taken, running, most = 0, 0, 0
    lock = threading.Lock()

    def call() -> None:
        nonlocal running
        with lock:
            running -= 1

    def calls() -> Iterator[Callable[[], None]]:
        nonlocal taken, running, most
        for _ in range(50):
            with lock:
                taken, running = taken + 1, running + 1
                most = max(most, running)
            yield call

    side_by_side(store(4), calls())
    assert taken == 50
    assert most <= 5  # four that were begun, and the next one


def test_the_first_error_in_order_is_raised_after_all_have_ended() -> None:
    ended: list[str] = []
    second_failed = threading.Event()

    def first() -> None:
        assert second_failed.wait(WAIT_S)
        ended.append("first")
        raise ValueError("first")

    def second() -> None:
        second_failed.set()
        raise ValueError("second")

    def third() -> None:
        assert second_failed.wait(WAIT_S)
        ended.append("third")

    before = threading.active_count()
    with pytest.raises(ValueError, match="first"):
        side_by_side(store(8), [first, second, third])
    assert sorted(ended) == ["first", "third"]
    assert threading.active_count() == before


@pytest.mark.parametrize("requests_at_once", [1, 4])
def test_nothing_begins_after_an_error_was_seen(requests_at_once: int) -> None:
    made: list[int] = []

    def call(number: int) -> None:
        made.append(number)
        if number == 0:
            raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        side_by_side(store(requests_at_once), [lambda number=number: call(number) for number in range(20)])
    assert len(made) <= requests_at_once


def test_an_interrupt_waits_for_the_calls_that_began() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def call() -> None:
        assert may_end.wait(WAIT_S)
        ended.set()

    def calls() -> Iterator[Callable[[], None]]:
        yield call
        may_end.set()
        raise KeyboardInterrupt  # as if it came while the next call was made ready

    with pytest.raises(KeyboardInterrupt):
        side_by_side(store(4), calls())
    assert ended.is_set()


def test_of_two_that_fail_the_one_in_the_thread_is_raised() -> None:
    def fails(word: str) -> Any:
        raise ValueError(word)

    with pytest.raises(ValueError, match="in the thread"):
        run_both(lambda: fails("in the thread"), lambda: fails("here"))
