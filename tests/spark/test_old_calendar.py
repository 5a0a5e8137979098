"""Random times of the calendar of Spark 2, in every time zone of Java, are rebased as live Spark does it."""

from __future__ import annotations

import io
import os
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.protocol.records import Split
from tidemill.sources.parquet import ParquetColumns, read_parquet

pytestmark = pytest.mark.servers("start Spark")

SCHEMA = pa.schema([("v", pa.timestamp("us", "UTC"))])
PLACES = [(-62_135_769_600, -12_219_292_800), (-12_219_500_000, -12_219_100_000), (-12_219_292_800, -2_100_000_000)]
"""From year 1 until the calendars meet, about that day, and from then on until zones have the offsets of today."""
PER_PLACE = 5


def test_times_are_rebased_as_spark_rebases_them(spark_session: Any) -> None:
    jvm = spark_session.sparkContext._jvm
    seed = int(os.environ.get("TIDEMILL_SEED", random.randrange(1 << 32)))
    print(f"TIDEMILL_SEED={seed}")
    dice = random.Random(seed)
    rebased = jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime.rebaseJulianToGregorianMicros
    zones = [
        *jvm.java.util.TimeZone.getAvailableIDs(),
        "GMT+5:30",
        "GMT-8",
        "GMT+0830",
        "+01:00",
        "UTC+3",
        "GMT+25",
        "?",
    ]
    for zone in zones:
        given = [dice.randrange(low * 10**6, high * 10**6) for low, high in PLACES for _ in range(PER_PLACE)]
        assert read(zone, given) == [rebased(zone, micros) for micros in given], (zone, given)


def read(zone: str, micros: list[int]) -> list[int]:
    """Return the times of a file that Spark wrote in legacy mode in a zone."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA) as writer:
        writer.write_table(pa.table({"v": pa.array(micros).cast(SCHEMA.field("v").type)}))
        marks = {"version": "3.2.0", "legacyDateTime": "", "timeZone": zone}
        writer.add_key_value_metadata({f"org.apache.spark.{name}": text for name, text in marks.items()})
    data = sink.getvalue()
    split = Split("source", "a.parquet", "", len(data), 0)
    (table,) = read_parquet(data, ParquetColumns(SCHEMA, SCHEMA), split)
    found: list[int] = table.column("v").cast(pa.int64()).to_pylist()
    return found
