"""Running a Spark job so that an interrupt ends it: the call waits in a thread of its own, the caller can be woken.

pyspark's own waiting does not survive a signal: it leaves the connection to the JVM half-read and, in 3.5, turns the
interrupt into another error. INVARIANT: when `run_job` has been interrupted, its job has been cancelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
_CANCEL_SECONDS = 15.0


def run_job(context: SparkContext, call: Callable[[], T]) -> T:
    """What `call` returns or raises. It runs in the caller's scheduler pool and job group, under a tag of its own."""
    from pyspark import InheritableThread

    tag = f"tidemill-{uuid.uuid4().hex}"
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            context.addJobTag(tag)
            context.setInterruptOnCancel(True)
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            outcome.set_exception(error)

    thread = InheritableThread(target=run, name=tag, daemon=True)
    thread.start()
    try:
        return outcome.result()
    except BaseException:
        if not outcome.done():
            context.cancelJobsWithTag(tag)
            thread.join(_CANCEL_SECONDS)
        raise
