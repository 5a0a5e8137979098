"""The engine on Spark Connect: `mapInArrow` over rows (place, target, data) for tasks, `repartition` for exchanges.

Without RDDs a partition does not know which ranges it holds, so marker rows name them. INVARIANT: a range is applied by
the partition that has its marker, hence exactly once, even if nothing was sent to it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from ..batch.work import Work
from ..errors import InvalidInput
from ..units import size_bytes
from .failure import failed
from .frames import SCHEMA, addressed, batches, by_target
from .placement import places
from .shipping import ship
from .worker import Shipment, apply, is_alone, run_reporting, run_whole, scatter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS = "64"
_one_at_a_time = threading.Lock()

_Batches = Iterable[pa.RecordBatch]
_Task = Callable[[_Batches], Iterator[pa.RecordBatch]]


class ConnectEngine:
    """Runs a work on a session of Spark Connect. The client needs no Java."""

    name = "connect"

    def __init__(self, spark: SparkSession, tasks: int | None = None) -> None:
        self._spark = spark
        self._tasks = tasks
        self._sizes_batches = _sizes_batches(spark)

    @property
    def parallelism(self) -> int:
        """How many tasks run at once: the given number, or the cores of the server, found once by a small job."""
        if self._tasks is None:
            self._tasks = _server_parallelism(self._spark)
        return self._tasks

    @property
    def is_remote(self) -> bool:
        """Whether the server runs tasks on other machines than its own, as far as its settings say."""
        return not str(self._spark.conf.get("spark.master", "")).startswith("local")

    def execute(self, work: Work) -> list[bytes]:
        """Run the work and return all receipts. An interrupt cancels the job, then is raised."""
        if not work.ranges:
            return []
        with ship(work) as shipment:
            try:
                with self._fitting_batches(), _cancelled_on_interrupt(self._spark):
                    receipts = _planned(self._spark, work, shipment).select("data").collect()
            except Exception as error:
                raise failed(error, self.name) from error
        return [bytes(row[0]) for row in receipts]

    def _fitting_batches(self) -> AbstractContextManager[None]:
        return nullcontext() if self._sizes_batches else _few_rows(self._spark)


def _planned(spark: SparkSession, work: Work, shipment: Shipment) -> DataFrame:
    """Return the data frame of all receipts."""
    if is_alone(work):
        return _numbers(spark, 1).mapInArrow(_whole(shipment), SCHEMA)
    received = _numbers(spark, work.ranges)
    if work.scatter_tasks:
        sent = _numbers(spark, work.scatter_tasks).mapInArrow(_scatter(shipment, work.ranges), SCHEMA)
        received = sent.repartition(work.ranges, "place")
    for level in range(work.levels - 1):
        sent = received.mapInArrow(_apply(shipment, level, work.ranges), SCHEMA)
        received = sent.repartition(work.ranges, "place")
    return received.mapInArrow(_receipts(shipment, work.levels - 1), SCHEMA)


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Return the markers of `count` tasks, each in a partition of its own."""
    numbers = spark.range(0, count, 1, count)
    return numbers.selectExpr("0 as place", "cast(id as int) as target", "cast(null as binary) as data")


@contextmanager
def _cancelled_on_interrupt(spark: SparkSession) -> Iterator[None]:
    tag = f"tidemill-{uuid.uuid4().hex}"
    spark.addTag(tag)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


def _sizes_batches(spark: SparkSession) -> bool:
    """Whether the server limits record batches by bytes. Older servers may send 10,000 chunks as one batch."""
    from pyspark.errors import PySparkException

    try:
        return size_bytes((spark.conf.get(_BYTES_SETTING) or "").removesuffix("b")) <= 1 << 30
    except (PySparkException, InvalidInput):
        return False


@contextmanager
def _few_rows(spark: SparkSession) -> Iterator[None]:
    """Set the limit by rows for one run: 64 chunks of 16 MiB keep a column below Arrow's 2 GiB."""
    with _one_at_a_time:
        before = spark.conf.get(_ROWS_SETTING)
        assert before is not None, "the setting has a default"
        spark.conf.set(_ROWS_SETTING, _ROWS)
        try:
            yield
        finally:
            spark.conf.set(_ROWS_SETTING, before)


def _server_parallelism(spark: SparkSession) -> int:
    """Return how many partitions the server cuts a range into by default: as many as it has cores."""
    numbers = spark.range(1 << 16).selectExpr("spark_partition_id() as number").distinct()
    return max(1, numbers.count())


def _whole(shipment: Shipment) -> _Task:
    pickle, paths = shipment

    def task(received: _Batches) -> Iterator[pa.RecordBatch]:
        for _ in by_target(received):
            yield from batches((0, 0, data) for data in run_reporting(run_whole, pickle, paths))

    return task


def _scatter(shipment: Shipment, ranges: int) -> _Task:
    pickle, paths = shipment
    to = places(ranges)

    def task(received: _Batches) -> Iterator[pa.RecordBatch]:
        for number in by_target(received):
            pairs = run_reporting(lambda work: scatter(work, number), pickle, paths)  # noqa: B023 - used up right here
            yield from batches(addressed(pairs, to, number == 0))

    return task


def _apply(shipment: Shipment, level: int, ranges: int) -> _Task:
    pickle, paths = shipment
    to = places(ranges)

    def task(received: _Batches) -> Iterator[pa.RecordBatch]:
        for number, items in by_target(received).items():
            pairs = run_reporting(lambda work: apply(work, level, number, items), pickle, paths)  # noqa: B023
            yield from batches(addressed(pairs, to, number == 0))

    return task


def _receipts(shipment: Shipment, level: int) -> _Task:
    pickle, paths = shipment

    def task(received: _Batches) -> Iterator[pa.RecordBatch]:
        for number, items in by_target(received).items():
            pairs = run_reporting(lambda work: apply(work, level, number, items), pickle, paths)  # noqa: B023
            yield from batches((0, target, data) for target, data in pairs)

    return task
