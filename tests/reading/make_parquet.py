"""Make the Parquet files and record what real Spark reads: `python -m tests.reading.make_parquet`. Two minutes.

It rewrites `recorded/parquet.zip`, which holds the files, and `recorded/parquet.json`, which holds their rows.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.reading.inputs import ZONE
from tests.reading.make import RECORDED, write
from tests.reading.parquet_file import ArrowFile, SparkFile
from tests.reading.parquet_files import ARROW_FILES, INPUTS, SPARK_FILES
from tests.reading.plain import exact

ARCHIVE = RECORDED / "parquet.zip"


def main() -> None:
    """Make every file, read each input with Spark, and write both recordings."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        made = {name: of_arrow(file) for name, file in ARROW_FILES.items()}
        made |= {name: of_spark(spark, Path(folder), file) for name, file in SPARK_FILES.items()}
        for name, data in made.items():
            (Path(folder) / f"{name}.parquet").write_bytes(data)
        rows = {key: read(spark, Path(folder) / f"{name}.parquet", schema) for key, (name, schema) in INPUTS.items()}
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in made.items():
            archive.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    write("parquet", {"files": rows})
    spark.stop()


def session() -> Any:
    """Start Spark in the time zone of the inputs; files without a zone are rebased in that of the Java process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", f"-Duser.timezone={ZONE}")
    spark = builder.config("spark.sql.session.timeZone", ZONE).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def of_arrow(file: ArrowFile) -> bytes:
    """Return the bytes of a file that pyarrow writes."""
    sink = io.BytesIO()
    options = {"store_schema": False, "write_statistics": False, "compression": "none"} | file.options
    rows_at_once = options.pop("row_group_size", None)
    with pq.ParquetWriter(sink, file.table.schema, **options) as writer:
        writer.write_table(file.table, rows_at_once)
        writer.add_key_value_metadata({f"org.apache.spark.{name}": text for name, text in file.marks.items()})
    return sink.getvalue()


def of_spark(spark: Any, folder: Path, file: SparkFile) -> bytes:
    """Return the bytes of a file that Spark writes."""
    before = {name: spark.conf.get(name) for name in file.settings}
    for name, value in file.settings.items():
        spark.conf.set(name, value)
    try:
        frame = spark.sql(file.query).coalesce(1)
        frame.write.mode("overwrite").option("compression", "none").parquet(str(folder / "made"))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    (part,) = (folder / "made").glob("part-*.parquet")
    return part.read_bytes()


def read(spark: Any, path: Path, schema: str) -> Any:
    """Return the rows of a file as Spark reads them, or "ERROR"."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        table = spark.read.schema(schema).parquet(str(path)).toArrow()
    except (PySparkException, Py4JError):
        return "ERROR"
    columns = [exact(column) for column in table.columns]
    return [[column[row] for column in columns] for row in range(table.num_rows)]


if __name__ == "__main__":
    main()
