"""Two things at once: what a thread does aside, while this one goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def both(aside: Callable[[], T], here: Callable[[], U]) -> tuple[T, U]:
    """What `aside` returns, which a thread runs while this one runs `here`, and what that returns. Where both fail, the
    error is that of `aside`. The thread does not outlive the call, so an interrupt waits for it too."""
    with ThreadPoolExecutor(1, "tidemill-aside") as thread:
        outcome = thread.submit(aside)
        try:
            found = here()
        except Exception as error:
            if (failed := outcome.exception()) is not None:
                raise failed from error
            raise
        return outcome.result(), found
