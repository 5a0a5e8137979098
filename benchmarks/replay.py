"""Measure a replay: a year of daily retail files in one session, and of one operator of five, beside the peer.

    python benchmarks/replay.py [--days 305] [--rounds 3] [--folder DIR] [--no-peer]

The year is that of Online Retail if its daily files are in ../shared/data/online-retail or in DIR, otherwise made up.
The peer is Structured Streaming with RocksDB, `availableNow`, one file a micro-batch, from an empty checkpoint, with
the same function in `applyInPandasWithState`. It and Tidemill's replay (which writes state, outputs and commits of a
branch) take turns. Sessions are warm: starting Spark does not count for either. Both must count the same lines.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from events import machine, show

import tidemill as tm
from tests.model import retail

STATE = "lines long, total decimal(20,3)"
OUTPUT = "customer double, lines long, total decimal(20,3), closed boolean"
FIVE = ("by-country", "by-day", "by-stock", "invoices", "spend")


def spend_only(folder: Path) -> tm.Pipeline:
    """Return the pipeline that is compared with the peer: one Python function, called for each row."""
    p = tm.Pipeline("retail")
    sales = p.read(
        tm.Files(str(folder), format="csv", header=True, escape='"', maxFilesPerTrigger=1, schema=retail.SCHEMA)
    )
    sales.groupBy("CustomerID").mapWithState(
        tm.StateSpec.function(retail.spend), name="spend", stateSchema=STATE, outputSchema=OUTPUT
    )
    return p


def five_operators(folder: Path) -> tm.Pipeline:
    """Return a pipeline with five operators on one read: one Python function and four of the Rust engine."""
    p = tm.Pipeline("retail")
    sales = p.read(
        tm.Files(str(folder), format="csv", header=True, escape='"', maxFilesPerTrigger=1, schema=retail.SCHEMA)
    )
    sales.groupBy("CustomerID").mapWithState(
        tm.StateSpec.function(retail.spend), name="spend", stateSchema=STATE, outputSchema=OUTPUT
    )
    amounts = sales.sql("SELECT Country, StockCode, InvoiceDate, Quantity, Quantity * UnitPrice AS amount FROM rows")
    amounts.groupBy("Country").agg(lines=tm.count(), money=tm.sum("amount"), name="by-country")
    amounts.groupBy("StockCode").agg(units=tm.sum("Quantity"), money=tm.sum("amount"), name="by-stock")
    amounts.groupBy(tm.window("InvoiceDate", "1 day")).agg(money=tm.sum("amount"), name="by-day")
    sales.groupBy("InvoiceNo").dropDuplicates(name="invoices")
    return p


def total(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Keep the lines and the total of a customer, as `retail.spend` does: the function for the peer."""
    import pandas as pd

    lines, amount = state.get if state.exists else (0, Decimal("0.000"))
    rows = []
    for frame in frames:
        for quantity, price in zip(frame["Quantity"], frame["UnitPrice"], strict=True):
            lines, amount = lines + 1, amount + quantity * price
            rows.append((key[0], lines, amount, False))
    state.update((lines, amount))
    yield pd.DataFrame(rows, columns=["customer", "lines", "total", "closed"])


def peer(spark: Any, folder: Path, out: Path) -> tuple[float, dict[Any, int]]:
    """Return the seconds of one query from an empty checkpoint, and how many lines it counted by key."""
    import pyarrow.dataset as ds

    rows = (
        spark.readStream.schema(retail.SCHEMA)
        .option("header", True)
        .option("escape", '"')
        .option("maxFilesPerTrigger", 1)
        .csv(str(folder))
    )
    query = rows.groupBy("CustomerID").applyInPandasWithState(total, OUTPUT, STATE, "update", "NoTimeout")
    checkpoint = tempfile.mkdtemp(prefix="tidemill-peer-", dir=out.parent)
    writer = query.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    started = time.perf_counter()

    def write(frame: Any, batch: int) -> None:
        frame.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    run = writer.foreachBatch(write).trigger(availableNow=True).start()
    run.awaitTermination()
    seconds = time.perf_counter() - started
    emitted = ds.dataset(str(out), format="parquet").to_table(columns=["customer", "lines"])
    counted = emitted.group_by("customer").aggregate([("lines", "max")])
    found = zip(counted["customer"].to_pylist(), counted["lines_max"].to_pylist(), strict=True)
    shutil.rmtree(checkpoint)
    shutil.rmtree(out)
    return seconds, dict(found)


def replayed(pipeline: tm.Pipeline, root: str, engine: str, spark: Any, operators: Any = None) -> float:
    """Return the seconds of a replay of everything into a new branch, which is dropped again."""
    r = tm.open(pipeline, root=root)
    started = time.perf_counter()
    made = r.replay(0, into="again", operators=operators, engine=engine, spark=spark if engine == "spark" else None)
    seconds = time.perf_counter() - started
    assert made.left == 0 and len(made.versions) == r.head.version + 1
    for name in operators or r.head.state:
        assert r.diff("main", "again", operator=name).total == 0, f"`{name}` differs"
    r.drop_branch("again")
    return seconds


def session() -> Any:
    """Return a Spark session for both, with the peer's state in RocksDB."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from peer import ROCKSDB
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    builder = builder.config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Run the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=305, help="files, one for each day with sales")
    parser.add_argument("--rounds", type=int, default=3, help="replays of each kind; the peer runs at most twice")
    parser.add_argument("--folder", type=Path, default=retail.REAL, help="folder of daily files")
    parser.add_argument("--no-peer", action="store_true", help="do not run Structured Streaming")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(base) / "days"
        folder.mkdir()
        if given.folder.is_dir():
            for file in sorted(given.folder.glob("*.csv"))[: given.days]:
                shutil.copy(file, folder)
            source = "Online Retail"
        else:
            retail.make_small(folder, given.days)
            source = "made-up days"
        print(f"{machine()}; {source}, {len(list(folder.iterdir()))} files, medians of {given.rounds}")
        spark = session()
        one_root, five_root = f"{base}/one", f"{base}/five"
        for pipeline, root in ((spend_only(folder), one_root), (five_operators(folder), five_root)):
            r = tm.open(pipeline, root=root)
            r.init()
            r.run(engine="local")
        state = tm.open(spend_only(folder), root=one_root).state("spend")
        expected = dict(zip(state["CustomerID"].to_pylist(), state["lines"].to_pylist(), strict=True))
        seconds: dict[str, list[float]] = {"local": [], "spark": [], "peer": []}
        for number in range(given.rounds):
            for engine in ("local", "spark"):
                seconds[engine].append(replayed(spend_only(folder), one_root, engine, spark))
            if number < 2 and not given.no_peer:
                took, found = peer(spark, folder, Path(base) / "out")
                assert found == expected, "the peer has counted other lines"
                seconds["peer"].append(took)
        for name, found in seconds.items():
            if found:
                show(f"{name}: {given.days} batches of `spend` again", found)
        if seconds["peer"]:
            for engine in ("local", "spark"):
                ratio = statistics.median(seconds["peer"]) / statistics.median(seconds[engine])
                print(f"  the peer takes {ratio:.1f} times as long as a replay on {engine}")
        shares: dict[str, list[float]] = {name: [] for name in ("all five", *FIVE)}
        for _ in range(given.rounds):
            for name in shares:
                chosen = None if name == "all five" else [name]
                shares[name].append(replayed(five_operators(folder), five_root, "local", None, chosen))
        for name, found in shares.items():
            show(f"local: replay of {name}", found)
        spark.stop()


if __name__ == "__main__":
    main()
