"""Batches over files: many small ones, a year of daily ones, twenty of one shape, and a large first one.

    python benchmarks/files.py small|replay|script|first [--rounds 3] [--before CHECKOUT] [--data DIR]

- `small`: 10,000 JSON files of 10 rows in one batch, local; the peer is Structured Streaming, `availableNow`.
- `replay`: a year of daily files of Online Retail, one a batch, with one Python function, replayed locally. The files
  are in DIR, which is ../shared/data/online-retail by default.
- `script`: `.agg` over 20 CSV files of 50,000 rows, one a batch, local; the peer is the script that people write
  instead: state in a DuckDB file, `ON CONFLICT`, changed rows to Parquet, one transaction for a file.
- `first`: the first batch is one CSV file of 5 million rows, with a Python function for each, with each engine.

Each measurement is a process of its own, in turn. `CHECKOUT` is a folder in which an earlier version was built.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

SMALL = "k string, n int, note string"
EVENTS = "key string, ts timestamp, value double, price decimal(10,2), name string, note string"
RETAIL = (
    "InvoiceNo string, StockCode string, Description string, Quantity int, InvoiceDate timestamp, "
    "UnitPrice decimal(10,3), CustomerID double, Country string"
)
FILES, ROWS, KEYS = 20, 50_000, 100_000


def main() -> None:
    """Make the files of a case, measure each program in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", help="the checkout of an earlier version")
    parser.add_argument("--data", default=str(Path(__file__).resolve().parents[2] / "shared/data/online-retail"))
    parser.add_argument("--child", nargs=2, metavar=("PROGRAM", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    make, programs = CASES[given.case]
    if given.child:
        program, folder = given.child
        print(json.dumps(programs[program](Path(folder))))
        return
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        folder = Path(given.data) if make is None else Path(base) / "in"
        if make is not None:
            folder.mkdir()
            make(folder)
        compare(given.case, list(programs), folder, given.rounds, given.before)


def compare(case: str, programs: list[str], folder: Path, rounds: int, before: str | None) -> None:
    """Measure programs in turn, and print their medians and ratios to the first."""
    names = [*programs, *(["before"] if before else [])]
    times: dict[str, list[float]] = {name: [] for name in names}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(rounds):
        found = set()
        for name in names:
            python = str(Path(before or "") / ".venv/bin/python") if name == "before" else sys.executable
            program = programs[0] if name == "before" else name
            command = [python, __file__, case, "--child", program, str(folder)]
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            seconds, result = json.loads(done.stdout.splitlines()[-1])
            times[name].append(seconds)
            found.add(json.dumps(result))
        assert len(found) == 1, found
    first = times[programs[0]]
    for name, took in times.items():
        ratios = sorted(one / own for one, own in zip(took, first, strict=True))
        print(
            f"{case}, {name}: {statistics.median(took):.3f} s ({min(took):.3f} to {max(took):.3f}), "
            f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def ran(pipeline: Any, engine: str) -> tuple[float, Any]:
    """Return the seconds of a run of everything that waits, and the opened repository."""
    import tidemill as tm

    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        repository = tm.open(pipeline, root=f"{base}/root")
        repository.init()
        started = time.perf_counter()
        repository.run(engine=engine)
        seconds = time.perf_counter() - started
        found = repository.state("t")
        return seconds, found


# 10,000 small files


def small_files(folder: Path) -> None:
    """Write 10,000 JSON files of 10 rows."""
    for number in range(10_000):
        rows = ({"k": f"k{(number * 10 + row) % 1000}", "n": row, "note": "some text"} for row in range(10))
        (folder / f"{number:05}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def small_here(folder: Path) -> tuple[float, Any]:
    """Sum them in one batch."""
    import tidemill as tm

    p = tm.Pipeline("small")
    rows = p.read(tm.Files(str(folder), format="json", schema=SMALL, maxFilesPerTrigger=10_000))
    rows.groupBy("k").agg(n=tm.sum("n"), name="t")
    seconds, found = ran(p, "local")
    return seconds, [found.num_rows, sum(found["n"].to_pylist())]


def small_spark(folder: Path) -> tuple[float, Any]:
    """Sum them in one micro-batch of a session that is warm."""
    from pyspark.sql import SparkSession, functions

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2)
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).groupBy("id").count().collect()
    rows = spark.readStream.schema(SMALL).json(str(folder)).groupBy("k").agg(functions.sum("n").alias("n"))
    found: list[Any] = []

    def keep(frame: Any, batch: int) -> None:
        found.extend(frame.collect())

    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as checkpoint:
        writer = rows.writeStream.outputMode("complete").option("checkpointLocation", checkpoint)
        started = time.perf_counter()
        writer.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()
        seconds = time.perf_counter() - started
    spark.stop()
    return seconds, [len(found), sum(row.n for row in found)]


# a year of daily files


def spend(batchTime: Any, customer: Any, row: Any, state: Any) -> Any:
    """Count the lines of a customer, and sum their amounts."""
    lines, total = state.getOption or (0, Decimal("0.000"))
    state.update((lines + 1, total + row.Quantity * row.UnitPrice))
    return (customer, lines + 1, total + row.Quantity * row.UnitPrice, False)


def year_here(folder: Path) -> tuple[float, Any]:
    """Replay the year, one file a batch."""
    import tidemill as tm

    p = tm.Pipeline("retail")
    source = tm.Files(str(folder), format="csv", header=True, maxFilesPerTrigger=1, schema=RETAIL, escape='"')
    p.read(source).groupBy("CustomerID").mapWithState(
        tm.StateSpec.function(spend),
        name="t",
        stateSchema="lines long, total decimal(20,3)",
        outputSchema="customer double, lines long, total decimal(20,3), closed boolean",
    )
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as base:
        repository = tm.open(p, root=f"{base}/root")
        repository.init()
        repository.run(engine="local")
        started = time.perf_counter()
        made = repository.replay(0, into="again", engine="local")
        seconds = time.perf_counter() - started
        return seconds, [len(made.versions), repository.state("t").num_rows]


# twenty files


def twenty_files(folder: Path) -> None:
    """Write 20 CSV files of 50,000 rows of 100,000 keys."""
    chance = random.Random(1)
    for number in range(FILES):
        with (folder / f"{number:02}.csv").open("w") as file:
            file.write("key,ts,value,price,name,note\n")
            for row in range(ROWS):
                key, value = chance.randrange(KEYS), chance.randrange(1000)
                at = f"2024-01-{number + 1:02d} {row // 3600 % 24:02d}:{row // 60 % 60:02d}:{row % 60:02d}"
                file.write(f"user-{key},{at},{value}.5,{value}.25,some name {row % 97},a note of some words\n")


def twenty_here(folder: Path) -> tuple[float, Any]:
    """Count and sum by key, one file a batch."""
    import tidemill as tm

    p = tm.Pipeline("script")
    rows = p.read(tm.Files(str(folder), format="csv", header=True, schema=EVENTS, maxFilesPerTrigger=1))
    rows.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="t")
    seconds, found = ran(p, "local")
    return seconds, [found.num_rows, sum(found["n"].to_pylist()), sum(found["s"].to_pylist())]


def twenty_script(folder: Path) -> tuple[float, Any]:
    """Do the same with DuckDB: read, fold into a table, and write what changed, in one transaction for a file."""
    import duckdb

    columns = (
        "{'key': 'VARCHAR', 'ts': 'TIMESTAMP', 'value': 'DOUBLE', 'price': 'DECIMAL(10,2)', 'name': 'VARCHAR', "
        "'note': 'VARCHAR'}"
    )
    base = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    connection = duckdb.connect(str(base / "state.duckdb"))
    connection.sql("CREATE TABLE state (key VARCHAR PRIMARY KEY, n BIGINT, s DOUBLE)")
    connection.sql("CREATE TABLE done (file VARCHAR PRIMARY KEY)")
    started = time.perf_counter()
    for file in sorted(folder.glob("*.csv")):
        connection.begin()
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE batch AS SELECT key, count(*) AS n, sum(value) AS s "
            f"FROM read_csv('{file}', header=true, columns={columns}) GROUP BY key"
        )
        connection.execute(
            "INSERT INTO state SELECT * FROM batch "
            "ON CONFLICT (key) DO UPDATE SET n = state.n + excluded.n, s = state.s + excluded.s"
        )
        out = base / f"{file.stem}.parquet"
        connection.execute(f"COPY (SELECT state.* FROM state JOIN batch USING (key)) TO '{out}' (FORMAT parquet)")
        connection.execute("INSERT INTO done VALUES (?)", [file.name])
        connection.commit()
    seconds = time.perf_counter() - started
    (found,) = connection.execute("SELECT count(*), sum(n)::BIGINT, sum(s) FROM state").fetchall()
    connection.close()
    shutil.rmtree(base)
    return seconds, list(found)


# a large first file


def one_file(folder: Path) -> None:
    """Write a CSV file of 5 million rows."""
    chance = random.Random(1)
    with (folder / "first.csv").open("w") as file:
        file.write("key,ts,value,price,name,note\n")
        for row in range(5_000_000):
            key, at = chance.randrange(KEYS), f"2024-01-01 {row // 3600 % 24:02d}:{row // 60 % 60:02d}:{row % 60:02d}"
            file.write(f"user-{key},{at},{row % 1000}.5,{row % 100}.25,some name {row % 97},a note of some words\n")


def add(batchTime: Any, key: Any, row: Any, state: Any) -> None:
    """Sum the values of a key."""
    state.update((state.getOption or 0.0) + row.value)


def first_batch(engine: str) -> Callable[[Path], tuple[float, Any]]:
    """Return what runs the first batch with an engine. A session of Spark starts within the time."""

    def run(folder: Path) -> tuple[float, Any]:
        import tidemill as tm

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        p = tm.Pipeline("first")
        rows = p.read(tm.Files(str(folder), format="csv", header=True, schema=EVENTS))
        state, output = "double", "key string"
        rows.groupBy("key").mapWithState(tm.StateSpec.function(add), name="t", stateSchema=state, outputSchema=output)
        seconds, found = ran(p, engine)
        return seconds, found.num_rows

    return run


Programs = dict[str, Callable[[Path], tuple[float, Any]]]
CASES: dict[str, tuple[Callable[[Path], None] | None, Programs]] = {
    "small": (small_files, {"tidemill": small_here, "Structured Streaming": small_spark}),
    "replay": (None, {"tidemill": year_here}),
    "script": (twenty_files, {"tidemill": twenty_here, "DuckDB script": twenty_script}),
    "first": (one_file, {"auto": first_batch("auto"), "local": first_batch("local"), "spark": first_batch("spark")}),
}
"""Of each case what makes its files, or None, and its programs; the first is compared with the others."""


if __name__ == "__main__":
    main()
