"""Run the peer: Structured Streaming over a folder of events, one file for each micro-batch, timed by Spark.

    python benchmarks/peer.py FOLDER QUERY STORE OUT

QUERY is a name of `QUERIES`, STORE is `rocksdb` or `hdfs`. Rows go to OUT as Parquet, one folder `batch=n` for each
micro-batch. The last line of the output is a JSON list of the seconds of each micro-batch (`triggerExecution`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OUTPUT = "key string, total double"
STATE = "total double"


def agg(rows: Any) -> Any:
    """Count and sum by key."""
    from pyspark.sql import functions

    return rows.groupBy("key").agg(functions.count("*").alias("n"), functions.sum("value").alias("s"))


def deduplicate(rows: Any) -> Any:
    """Return the first row of each key."""
    return rows.withWatermark("ts", "1 hour").dropDuplicatesWithinWatermark(["key"])


def sessions(rows: Any) -> Any:
    """Count and sum by key and session."""
    from pyspark.sql import functions

    by = rows.withWatermark("ts", "30 seconds").groupBy(functions.session_window("ts", "10 seconds"), "key")
    return by.agg(functions.count("*").alias("n"), functions.sum("value").alias("s"))


def total_in_pandas(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Yield a running total by key: a function of `applyInPandasWithState`, for Spark and for Tidemill."""
    import pandas as pd

    total = state.get[0] if state.exists else 0.0
    for frame in frames:
        for value in frame["value"]:
            total += value
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


def apply_in_pandas(rows: Any) -> Any:
    """Return the query with `applyInPandasWithState`."""
    return rows.groupBy("key").applyInPandasWithState(total_in_pandas, OUTPUT, STATE, "update", "NoTimeout")


def processor(base: type, as_frames: bool) -> Any:
    """Return a `StatefulProcessor` with one value state: a running total by key."""

    class Total(base):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            total = self.total.get()[0] if self.total.exists() else 0.0
            if as_frames:
                import pandas as pd

                for frame in rows:
                    for value in frame["value"]:
                        total += value
                self.total.update((total,))
                yield pd.DataFrame({"key": [key[0]], "total": [total]})
            else:
                from pyspark.sql import Row

                for row in rows:
                    total += row.value
                self.total.update((total,))
                yield Row(key=key[0], total=total)

        def close(self) -> None:
            pass

    return Total()


def transform_with_state(rows: Any) -> Any:
    """Return the query with `transformWithState`, over rows."""
    from pyspark.sql.streaming import StatefulProcessor

    return rows.groupBy("key").transformWithState(processor(StatefulProcessor, False), OUTPUT, "Update", "None")


def transform_with_state_in_pandas(rows: Any) -> Any:
    """Return the query with `transformWithStateInPandas`."""
    from pyspark.sql.streaming import StatefulProcessor

    return rows.groupBy("key").transformWithStateInPandas(processor(StatefulProcessor, True), OUTPUT, "Update", "None")


QUERIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "agg": (agg, "update"),
    "dedup": (deduplicate, "append"),
    "sessions": (sessions, "append"),
    "apply-in-pandas": (apply_in_pandas, "update"),
    "transform": (transform_with_state, "update"),
    "transform-in-pandas": (transform_with_state_in_pandas, "update"),
}
"""Maps a name to its query and output mode."""


def seconds(folder: Path, query: str, store: str, out: str) -> list[float]:
    """Run the query in its own process; return the seconds of each micro-batch."""
    done = subprocess.run(
        [sys.executable, __file__, str(folder), query, store, out],
        check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    return list(json.loads(done.stdout.splitlines()[-1]))


def main(folder: str, name: str, store: str, out: str) -> None:
    """Run the query over all files of the folder."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    if store == "rocksdb":
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        builder = builder.config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    from events import SCHEMA

    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    query, mode = QUERIES[name]

    def write(frame: Any, batch: int) -> None:
        frame.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    with tempfile.TemporaryDirectory(prefix="tidemill-peer-") as checkpoint:
        writer = query(rows).writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
        run = writer.foreachBatch(write).trigger(availableNow=True).start()
        run.awaitTermination()
        batches = [one for one in run.recentProgress if one["numInputRows"]]
        print(json.dumps([one["durationMs"]["triggerExecution"] / 1000 for one in batches]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
