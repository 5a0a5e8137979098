"""Real Structured Streaming over the micro-batches of a case, one file a micro-batch.

After each file the query runs until it has nothing left to do, so the outputs of a step are those of its data
micro-batch and of the micro-batch without data that Spark runs where the watermark moved.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.oracle.case import Case, plain
from tidemill.sources.rows import Rows


def outputs(spark: Any, case: Case) -> list[list[str]]:
    """What Spark gives for each micro-batch, as `case.plain` writes rows."""
    with tempfile.TemporaryDirectory(prefix="tidemill-oracle-") as base:
        folder = Path(base) / "in"
        folder.mkdir()
        for key, value in case.conf.items():
            spark.conf.set(key, value)
        rows: list[Any] = []
        frame = case.spark(spark.readStream.schema(case.schema).option("latestFirst", "false").parquet(str(folder)))
        query = (
            frame.writeStream.outputMode(case.mode)
            .option("checkpointLocation", f"{base}/checkpoint")
            .foreachBatch(lambda found, _: rows.extend(found.collect()))
            .start()
        )
        try:
            return [_step(query, folder, number, case, rows) for number in range(len(case.batches))]
        finally:
            query.stop()
            for key in case.conf:
                spark.conf.unset(key)


def _step(query: Any, folder: Path, number: int, case: Case, rows: list[Any]) -> list[str]:
    rows.clear()
    _write(folder, number, case.schema, case.batches[number])
    query.processAllAvailable()
    return plain(rows, case.digits)


def _write(folder: Path, number: int, schema: str, rows: Sequence[Any]) -> None:
    hidden = folder / f"_{number:04d}.parquet"
    pq.write_table(Rows(schema).table(rows), hidden)
    os.rename(hidden, folder / f"{number:04d}.parquet")


def session() -> Any:
    """A session for Structured Streaming: two cores, few partitions, UTC, no UI."""
    import sys

    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made
