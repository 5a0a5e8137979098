"""Real Structured Streaming over the micro-batches of a case, one file a micro-batch, under a clock of the test's own.

After each file the query runs until it has nothing left to do (or, where the case says so, for one trigger), so the
outputs of a step are those of its data micro-batch and of the micro-batch without data that Spark runs where the
watermark moved. INVARIANT: all of a step happens at its batch time: the trigger's clock stands still meanwhile.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.oracle.case import Case, Columns, Outcome, declared, plain, tracked
from tidemill.sources.rows import Rows


def outcome(spark: Any, case: Case) -> Outcome:
    """Return Spark's output for each micro-batch."""
    if case.streaming == "dstream":
        return Outcome(declared(case), [tracked(*found) for found in case.spark(spark)])
    with tempfile.TemporaryDirectory(prefix="tidemill-oracle-") as base:
        before = {key: spark.conf.get(key, None) for key in case.conf}
        for key, value in case.conf.items():
            spark.conf.set(key, value)
        run = _Run(spark, case, Path(base))
        try:
            return Outcome(_columns(run.frame), [run.step(number) for number in range(len(case.batches))])
        finally:
            run.stop()
            for key, value in before.items():
                spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def columns(spark: Any, case: Case) -> Columns:
    """Return the columns of Spark's output without running the query."""
    if case.streaming == "dstream":  # pairs of objects, without a schema
        return declared(case)
    with tempfile.TemporaryDirectory(prefix="tidemill-oracle-") as folder:
        return _columns(_query(spark, case, folder))


def _columns(frame: Any) -> Columns:
    return [[field.name, field.dataType.simpleString()] for field in frame.schema]


def _query(spark: Any, case: Case, folder: str) -> Any:
    source = spark.readStream.schema(case.schema).option("latestFirst", "false").parquet(folder)
    first = case.schema.split()[0]
    several = [source.where(source[first] == name) for name in case.sources]
    return case.spark(several if several else source)


class _Run:
    """The streaming query of a case; it starts with its first step."""

    def __init__(self, spark: Any, case: Case, base: Path) -> None:
        self.spark, self.case, self.base = spark, case, base
        self.folder = base / "in"
        self.folder.mkdir()
        self.frame = _query(spark, case, str(self.folder))
        self.sink = spark._jvm.org.apache.spark.sql.execution.streaming.sources.MemorySink()
        self.clock = spark._jvm.org.apache.spark.util.ManualClock(case.batch_times_ms[0])
        self.query: Any = None

    def step(self, number: int) -> list[str]:
        """Run one micro-batch and return its output."""
        self.sink.clear()
        rows = self.case.batches[number]
        if rows is not None:
            _write(self.folder, number, self.case.schema, rows)
        self.clock.setTime(self.case.batch_times_ms[number])
        self.query = self.query or self._start()
        if self.case.triggers == "all":
            self.query.processAllAvailable()
        else:
            self._await(number)
        return plain(self._rows(), self.case.digits)

    def stop(self) -> None:
        """Ends the query, if it was started."""
        if self.query is not None:
            self.query.stop()

    def _start(self) -> Any:
        """Start the query with a clock, by the method that `DataStreamWriter.start` calls, which has that option."""
        from pyspark.sql.streaming import StreamingQuery

        jvm, frame = self.spark._jvm, self.frame._jdf
        # With an interval of 0 there is a trigger whenever there may be something to do; with one of 1 ms one trigger
        # a time, as the clock stands still.
        interval_ms = 0 if self.case.triggers == "all" else 1
        nothing = jvm.scala.Option.empty()
        manager = self.spark._jsparkSession.sessionState().streamingQueryManager()
        started = manager.startQuery(
            nothing,
            nothing,
            jvm.scala.Option.apply(f"{self.base}/checkpoint"),
            frame,
            getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty(),
            self.sink,
            getattr(jvm.org.apache.spark.sql.streaming.OutputMode, self.case.mode.capitalize())(),
            False,
            True,
            jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(interval_ms),
            self.clock,
            nothing,
            nothing,
        )
        return StreamingQuery(started)

    def _await(self, number: int) -> None:
        """Wait until the micro-batch `number` is reported. Raise an error of the query."""
        while (self.query.lastProgress or {"batchId": -1})["batchId"] < number:
            if not self.query.isActive:
                self.query.awaitTermination()
            time.sleep(0.01)

    def _rows(self) -> list[Any]:
        from pyspark.sql import DataFrame

        jvm, session = self.spark._jvm, self.spark._jsparkSession
        columns = self.frame._jdf.queryExecution().analyzed().output()
        plan = jvm.org.apache.spark.sql.execution.streaming.sources.MemoryPlan(self.sink, columns)
        rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), self.spark).collect()
        return [tuple(map(_as_arrow, row)) for row in rows]


def _as_arrow(value: Any) -> Any:
    """Structs as dicts and maps as lists of pairs, as pyarrow gives those of Tidemill."""
    if hasattr(value, "asDict"):
        return {name: _as_arrow(item) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return [(_as_arrow(key), _as_arrow(item)) for key, item in value.items()]
    return [_as_arrow(item) for item in value] if isinstance(value, list) else value


def _write(folder: Path, number: int, schema: str, rows: Sequence[Any]) -> None:
    hidden = folder / f"_{number:04d}.parquet"
    pq.write_table(Rows(schema).table(rows), hidden)
    os.rename(hidden, folder / f"{number:04d}.parquet")


def end_jvm() -> None:
    """End the JVM that an earlier test started in this process, because its class path cannot change."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


def session() -> Any:
    """A session for Structured Streaming: two cores, few partitions, UTC, no UI. It has a JVM of its own."""
    import sys

    from pyspark.sql import SparkSession

    end_jvm()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraClassPath", tempfile.mkdtemp(prefix="tidemill-oracle-classes-"))
        .config(
            "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        )  # a third less of the machine
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.streaming.clock", "org.apache.spark.util.ManualClock")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made
