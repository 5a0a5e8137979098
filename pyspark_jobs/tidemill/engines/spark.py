"""The engine on Spark's RDDs: `mapPartitions` with an exchange of bytes by range before each level.

Rows never pass the JVM as rows: a chunk goes through it as one record of bytes, by itself, so that memory is bounded
by the largest chunk. INVARIANT: partition i of a level is its range i, also where it received nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..batch.work import Work
from .failure import failed
from .job import collected, know_classes, run_job
from .shipping import shipped
from .worker import Shipment, applied, is_alone, reported, scattered, sent, whole

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_Task = Callable[[Iterable[bytes]], Iterator[bytes]]
_EMPTY: WeakKeyDictionary[SparkContext, dict[int, Any]] = WeakKeyDictionary()
"""Empty RDDs, as Java knows them, by their partitions: to make one takes two milliseconds."""


class SparkEngine:
    """Runs a work on a session of classic Spark, local or a cluster; several may run at once."""

    name = "spark"

    def __init__(self, context: SparkContext, tasks: int | None = None) -> None:
        self._context = context
        self._tasks = tasks
        know_classes(context)

    @property
    def parallelism(self) -> int:
        """Tasks at once: what was asked for, else the cores that Spark has."""
        return self._tasks or max(1, self._context.defaultParallelism)

    def execute(self, work: Work) -> list[bytes]:
        """All receipts. An interrupt cancels the job before it is raised again."""
        if not work.ranges:
            return []
        with shipped(work) as shipment:
            try:
                return run_job(self._context, lambda: collected(_planned(self._context, work, shipment)))
            except Exception as error:
                raise failed(error, self.name) from error


def _planned(context: SparkContext, work: Work, shipment: Shipment) -> RDD[bytes]:
    """The RDD of all receipts."""
    if is_alone(work):
        return _empty(context, 1).mapPartitions(_whole(shipment))
    if work.scatter_tasks:
        sent = _empty(context, work.scatter_tasks).mapPartitions(_scatter(shipment))
        received = _exchanged(sent, work.ranges)
    else:
        received = _empty(context, work.ranges)
    for level in range(work.levels - 1):
        received = _exchanged(received.mapPartitions(_apply(shipment, level)), work.ranges)
    return received.mapPartitions(_receipts(shipment, work.levels - 1))


def _empty(context: SparkContext, tasks: int) -> RDD[bytes]:
    """One empty partition a task: a task is told by its index. Of each number of tasks there is one in a context."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    known = _EMPTY.setdefault(context, {})
    if tasks not in known:
        known[tasks] = context.parallelize([], tasks)._jrdd
    return RDD(known[tasks], context, NoOpSerializer())


def _exchanged(sent: RDD[bytes], ranges: int) -> RDD[bytes]:
    """Partition i holds the bytes that were sent to range i; `sent` yields a packed range and bytes in turn.

    `RDD.partitionBy` does this with buckets: it collects up to 10 × ranges items of a task in memory and pickles
    those of one range as one record, which chunks of a hot key take beyond 2 GiB. So this is it without the buckets.
    """
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    sent._bypass_serializer = True  # type: ignore[attr-defined]
    jvm = sent.ctx._jvm
    assert jvm is not None
    pairs = jvm.PairwiseRDD(sent._jrdd.rdd()).asJavaPairRDD()
    by_range = pairs.partitionBy(jvm.PythonPartitioner(ranges, 0))
    return RDD(jvm.PythonRDD.valueOfPair(by_range), sent.ctx, NoOpSerializer())


# The tasks. Each reads its input to the end, or Spark would not use the worker process again (SPARK-26549).


def _partition() -> int:
    """The number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task runs inside Spark"
    return context.partitionId()


def _whole(shipment: Shipment) -> _Task:
    pickle, paths = shipment

    def task(nothing: Iterable[bytes]) -> Iterator[bytes]:
        yield from nothing
        yield from reported(whole, pickle, paths)

    return task


def _scatter(shipment: Shipment) -> _Task:
    pickle, paths = shipment

    def task(nothing: Iterable[bytes]) -> Iterator[bytes]:
        yield from nothing
        index = _partition()
        yield from sent(reported(lambda work: scattered(work, index), pickle, paths))

    return task


def _apply(shipment: Shipment, level: int) -> _Task:
    pickle, paths = shipment

    def task(received: Iterable[bytes]) -> Iterator[bytes]:
        index = _partition()
        return sent(reported(lambda work: applied(work, level, index, received), pickle, paths))

    return task


def _receipts(shipment: Shipment, level: int) -> _Task:
    pickle, paths = shipment

    def task(received: Iterable[bytes]) -> Iterator[bytes]:
        index = _partition()
        return (data for _, data in reported(lambda work: applied(work, level, index, received), pickle, paths))

    return task
