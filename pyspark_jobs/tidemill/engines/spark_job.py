"""Running one Spark job so that an interrupt ends it, and so that little time is added to its work.

The call runs in another thread, because PySpark's own waiting does not survive a signal: it leaves the connection to
the JVM half-read and, in 3.5, turns the interrupt into another error. INVARIANT: when an interrupt or `look`
ends `run_spark_job`, the job has been cancelled.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_T = TypeVar("_T")
_CANCEL_SECONDS = 15.0
_LOOK_SECONDS = 1.0
_CALL_SITE = "a batch of Tidemill"
_CLASSES = ("PythonUtils", "SimplePythonFunction", "PythonRDD", "PairwiseRDD", "PythonPartitioner")


def run_spark_job(context: SparkContext, call: Callable[[], _T], look: Callable[[], None] = lambda: None) -> _T:
    """Return what `call` returns, or raise what it raises.

    The call runs with the caller's local properties and under a job tag of its own. Meanwhile `look` is called every
    second; if it raises, the job is cancelled.
    """
    tag = f"tidemill-{uuid.uuid4().hex}"
    scala: Any = context._jsc.sc()
    properties = scala.getLocalProperties().clone()

    def tagged() -> _T:
        scala.setLocalProperties(properties)
        context._jsc.setCallSite(_CALL_SITE)
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        return call()

    waiter = _Waiter.acquire()
    outcome = waiter.start_call(tagged)
    try:
        while not wait([outcome], _LOOK_SECONDS).done:
            look()
        return outcome.result()
    except BaseException:
        if not outcome.done():
            context.cancelJobsWithTag(tag)
            wait([outcome], _CANCEL_SECONDS)
        raise
    finally:
        if outcome.done():
            waiter.release()


def collect_partitions(rdd: RDD[bytes]) -> list[bytes]:
    """Return all items of `rdd` by partition, some milliseconds sooner than `rdd.collect()` (decision 0001).

    Before a job of `collect_partitions` starts, Spark's ClosureCleaner reads the bytecode of all of `SparkContext` and
    `RDD`. `collectAsync` has its closure in a small class. Each item is one call to the JVM, so this is for few items.
    It needs no socket and no further thread.
    """
    rdd._bypass_serializer = True  # type: ignore[attr-defined]
    found = rdd._jrdd.collectAsync().get()
    return [found.get(place) for place in range(found.size())]


def look_up_classes(context: SparkContext) -> None:
    """Look up the classes that PySpark otherwise looks up for each job, in all of Spark's jars."""
    from py4j.java_gateway import JavaClass

    jvm = context._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            found = getattr(jvm, name)
            if isinstance(found, JavaClass):
                setattr(jvm, name, found)


class _Waiter:
    """A thread that is kept for the next job. A new one would need a new connection to the JVM, which takes 20 ms."""

    _idle: list[_Waiter] = []  # noqa: RUF012 - the pool, shared by all on purpose

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name="tidemill-job", daemon=True).start()

    @classmethod
    def acquire(cls) -> _Waiter:
        """Return an idle waiter, or a new one."""
        try:
            return cls._idle.pop()
        except IndexError:
            return cls()

    def release(self) -> None:
        """Make this waiter idle again. A waiter whose call never ended must not be released."""
        self._idle.append(self)

    def start_call(self, call: Callable[[], _T]) -> Future[_T]:
        """Start a call and return its future."""
        outcome: Future[_T] = Future()
        self._calls.put((call, outcome))
        return outcome

    def _run(self) -> None:
        while True:
            call, outcome = self._calls.get()
            try:
                outcome.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised by the caller who waits
                outcome.set_exception(error)
            del call, outcome
