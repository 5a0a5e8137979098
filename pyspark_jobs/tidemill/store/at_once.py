"""Requests that do not depend on each other, made at once where that saves time. Waiting for S3 is most of a batch.

INVARIANT: where a store makes one request at a time, the calls are made one after the other, in order. So a store that
numbers or schedules calls sees the same ones in the same order each time. No thread outlives a call from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from .contract import Store

_T = TypeVar("_T")
U = TypeVar("U")


def side_by_side(store: Store, calls: Iterable[Callable[[], _T]]) -> list[_T]:
    """Make calls that mostly wait for `store`, several at once if it answers several; return their results in order.

    `calls` is iterated in this thread, only as far as calls can begin, so what they send need not all be in memory.
    If some fail, the error of the first of them in order is raised once all that began have ended, and no further ones
    begin. An interrupt also waits for those that began.
    """
    most = store.requests_at_once
    if most == 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(most, "tidemill-request") as pool:
        begun: list[Future[_T]] = []
        for number, call in enumerate(calls):
            if number >= most:
                begun[number - most].result()
            begun.append(pool.submit(call))
        return [one.result() for one in begun]


def run_both(in_thread: Callable[[], _T], here: Callable[[], U]) -> tuple[_T, U]:
    """Run `in_thread` in a thread and `here` in this one, whatever the store; return both results.

    If both fail, raise the error of `in_thread`. The thread never outlives the call, so an interrupt waits for it too.
    """
    with ThreadPoolExecutor(1, "tidemill-beside") as thread:
        outcome = thread.submit(in_thread)
        try:
            found = here()
        except Exception as error:
            if (failed := outcome.exception()) is not None:
                raise failed from error
            raise
        return outcome.result(), found
