"""The engine on Spark's RDDs: `mapPartitions`, with an exchange of bytes by range before each level.

A chunk goes through the JVM as one record of bytes, so the largest chunk bounds the memory. INVARIANT: partition i of a
level is its range i, even if it received nothing, so every range is applied exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..batch.work import Data, Work
from ..settings import Settings
from .executors import ExecutorWatch, count_executors
from .failure import failed
from .shipping import ship
from .spark_job import collect_partitions, look_up_classes, run_spark_job
from .worker import Shipment, apply, is_alone, pack_pairs, partition, run_reporting, run_whole, scatter

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_Task = Callable[[Iterable[bytes]], Iterator[Any]]


class SparkEngine:
    """Runs a work on classic Spark, local or on a cluster. Several works may run at once."""

    name = "spark"

    def __init__(
        self, context: SparkContext, tasks: int | None = None, executor_wait_ms: int = Settings.executor_wait
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._executor_wait_ms = executor_wait_ms
        look_up_classes(context)

    @property
    def parallelism(self) -> int:
        """How many tasks run at once: the given number, or the cores that Spark has."""
        try:
            return self._tasks or max(1, self._context.defaultParallelism)
        except Exception as error:
            raise failed(error, self.name) from error

    @property
    def is_remote(self) -> bool:
        """Whether the master is another one than `local…`, which runs tasks on this machine."""
        return not str(self._context.master).startswith("local")

    def execute(self, work: Work) -> list[bytes]:
        """Run the work and return all receipts. An interrupt cancels the job, then is raised.

        `StoreUnavailable` is raised, and the job cancelled, if a cluster grants no executor for too long.
        """
        if not work.ranges:
            return []
        with ship(work) as shipment:
            try:
                return run_spark_job(
                    self._context, lambda: collect_partitions(_planned(self._context, work, shipment)), self._look()
                )
            except Exception as error:
                raise failed(error, self.name) from error

    def _look(self) -> Callable[[], None]:
        """Return what to call while a job runs. A local master needs no executors."""
        if not self.is_remote:
            return lambda: None
        context = self._context
        return ExecutorWatch(lambda: count_executors(context), str(context.master), self._executor_wait_ms).look


def _planned(context: SparkContext, work: Work, shipment: Shipment) -> RDD[bytes]:
    """Return the RDD of all receipts."""
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
    """Return an RDD with an empty partition for each task. A task knows its number from its partition's index."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    return RDD(context.parallelize([], tasks)._jrdd, context, NoOpSerializer())


def _exchanged(sent: RDD[bytes], ranges: int) -> RDD[bytes]:
    """Return an RDD whose partition i holds the bytes sent to range i. `sent` yields a packed range, then its bytes.

    This is `RDD.partitionBy` without its buckets. `partitionBy` collects up to 10 × ranges items of a task in memory
    and pickles those of one range as one record, which chunks of a hot key would take beyond 2 GiB.
    """
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    sent._bypass_serializer = True  # type: ignore[attr-defined]
    jvm = sent.ctx._jvm
    assert jvm is not None
    pairs = jvm.PairwiseRDD(sent._jrdd.rdd()).asJavaPairRDD()
    by_range = pairs.partitionBy(jvm.PythonPartitioner(ranges, 0))
    return RDD(jvm.PythonRDD.valueOfPair(by_range), sent.ctx, NoOpSerializer())


# The tasks. Each reads its input to the end, because Spark discards the worker process otherwise (SPARK-26549).
# INVARIANT: they use only functions of `worker`, which are shipped by value. A worker without Tidemill could not even
# open a task that uses a function of this module, and would report nothing that a user understands.


def _whole(shipment: Shipment) -> _Task:
    pickle, paths = shipment

    def task(nothing: Iterable[bytes]) -> Iterator[Data]:
        yield from nothing
        yield from run_reporting(run_whole, pickle, paths)

    return task


def _scatter(shipment: Shipment) -> _Task:
    pickle, paths = shipment

    def task(nothing: Iterable[bytes]) -> Iterator[Data]:
        yield from nothing
        index = partition()
        yield from pack_pairs(run_reporting(lambda work: scatter(work, index), pickle, paths))

    return task


def _apply(shipment: Shipment, level: int) -> _Task:
    pickle, paths = shipment

    def task(received: Iterable[bytes]) -> Iterator[Data]:
        index = partition()
        return pack_pairs(run_reporting(lambda work: apply(work, level, index, received), pickle, paths))

    return task


def _receipts(shipment: Shipment, level: int) -> _Task:
    pickle, paths = shipment

    def task(received: Iterable[bytes]) -> Iterator[Data]:
        index = partition()
        return (data for _, data in run_reporting(lambda work: apply(work, level, index, received), pickle, paths))

    return task
