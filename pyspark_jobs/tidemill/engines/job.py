"""Running a Spark job so that an interrupt ends it, and so that little is added to its work.

The call waits in another thread, its caller can be woken: pyspark's own waiting does not survive a signal. It leaves
the connection to the JVM half-read and, in 3.5, turns the interrupt into another error. INVARIANT: when `run_job` has
been interrupted, its job has been cancelled.
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

T = TypeVar("T")
_CANCEL_SECONDS = 15.0
_CALL_SITE = "a batch of Tidemill"
_CLASSES = ("PythonUtils", "SimplePythonFunction", "PythonRDD", "PairwiseRDD", "PythonPartitioner")


def run_job(context: SparkContext, call: Callable[[], T]) -> T:
    """What `call` returns or raises. It runs with the caller's local properties, under a job tag of its own."""
    tag = f"tidemill-{uuid.uuid4().hex}"
    scala: Any = context._jsc.sc()
    properties = scala.getLocalProperties().clone()

    def tagged() -> T:
        scala.setLocalProperties(properties)
        context._jsc.setCallSite(_CALL_SITE)
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        return call()

    waiter = _Waiter.idle()
    outcome = waiter.start_call(tagged)
    try:
        return outcome.result()
    except BaseException:
        if not outcome.done():
            context.cancelJobsWithTag(tag)
            wait([outcome], _CANCEL_SECONDS)
        raise
    finally:
        if outcome.done():
            waiter.is_idle()


def collected(rdd: RDD[bytes]) -> list[bytes]:
    """All items of `rdd`, by partition: its `collect`, some milliseconds sooner (decision 0001).

    Before a job of `collect` starts, Spark's ClosureCleaner reads the bytecode of all of `SparkContext`, and of all of
    `RDD`, for closures of its own; that of `collectAsync` belongs to a small class. Meant for few items, each of which
    is a call to the JVM; no socket and no thread of another are needed for them.
    """
    rdd._bypass_serializer = True  # type: ignore[attr-defined]
    found = rdd._jrdd.collectAsync().get()
    return [found.get(place) for place in range(found.size())]


def know_classes(context: SparkContext) -> None:
    """Looks up once, in all of Spark's jars, the classes that pyspark looks up for each job (0.4 to 0.8 ms each)."""
    from py4j.java_gateway import JavaClass

    jvm = context._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            found = getattr(jvm, name)
            if isinstance(found, JavaClass):
                setattr(jvm, name, found)


class _Waiter:
    """A thread that is kept for the next job, because each has a connection to the JVM that takes 20 ms to make."""

    _idle: list[_Waiter] = []  # noqa: RUF012 - the pool, shared by all on purpose

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name="tidemill-job", daemon=True).start()

    @classmethod
    def idle(cls) -> _Waiter:
        """One that waits for nothing, else a new one."""
        try:
            return cls._idle.pop()
        except IndexError:
            return cls()

    def is_idle(self) -> None:
        """Gives it back; one whose call never ended is not given back."""
        self._idle.append(self)

    def start_call(self, call: Callable[[], T]) -> Future[T]:
        """The outcome of `call`, to come."""
        outcome: Future[T] = Future()
        self._calls.put((call, outcome))
        return outcome

    def _run(self) -> None:
        while True:
            call, outcome = self._calls.get()
            try:
                outcome.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                outcome.set_exception(error)
            del call, outcome
