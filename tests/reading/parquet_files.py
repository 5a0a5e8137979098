"""Parquet files whose rows were recorded from Spark, and the schemas that each is read with.

pyarrow writes most files, and Spark those that are its own: marks of legacy calendars, INT96, its layouts of lists. The
files are made once, by `make_parquet`, and stored in `recorded/parquet.zip`, because writers change. `INPUTS` is all
that tests need.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from tests.reading.parquet_file import DAYS, MOMENTS, NEAR, NUMBERS, TEXTS, TIMES, ArrowFile, SparkFile, as_v, v
from tests.reading.parquet_nested import nested


def _integers() -> dict[str, ArrowFile]:
    found = {}
    for bits in (8, 16, 32, 64):
        limit = 1 << (bits - 1)
        signed = [0, 1, -1, limit - 1, -limit]
        found[f"int{bits}"] = ArrowFile(v(signed, getattr(pa, f"int{bits}")()), as_v(*NUMBERS))
        unsigned = [0, 1, limit - 1, limit, 2 * limit - 1]
        found[f"uint{bits}"] = ArrowFile(v(unsigned, getattr(pa, f"uint{bits}")()), as_v(*NUMBERS))
    found["int64-small"] = ArrowFile(
        v([1, 2], pa.int64()), as_v("int", "timestamp", "date", "timestamp_ntz", "boolean")
    )
    found["int32-small"] = ArrowFile(v([1, 2], pa.int32()), as_v("tinyint", "date", "timestamp", "boolean", "binary"))
    found["bool"] = ArrowFile(v([True, False]), as_v("boolean", "int", "string"))
    return found


def _floats() -> dict[str, ArrowFile]:
    values = [0.0, -0.0, 0.1, -1.5, float("nan"), float("inf"), float("-inf"), 3.4028234663852886e38, 1e-45]
    return {
        "float16": ArrowFile(v([0.0, 1.5, float("nan"), 65504.0], pa.float16()), as_v("float", "double", "string")),
        "float32": ArrowFile(v(values, pa.float32()), as_v("float", "double", "string", "decimal(10,2)", "int")),
        "float64": ArrowFile(v([*values, 1e300, 5e-324], pa.float64()), as_v("float", "double", "string", "bigint")),
    }


def _decimals() -> dict[str, ArrowFile]:
    found = {}
    for precision, scale in ((1, 0), (4, 4), (9, 2), (10, 2), (18, 3), (19, 0), (28, 9), (38, 18)):
        largest = Decimal((0, (9,) * precision, -scale))
        values = [largest, largest.copy_negate(), Decimal(0), Decimal((0, (1,), -scale))]
        reads = as_v(
            f"decimal({precision},{scale})",
            f"decimal({min(38, precision + 2)},{scale})",
            f"decimal({min(38, precision + 4)},{scale + 2})",
            f"decimal({max(1, precision - 1)},{min(scale, max(1, precision - 1))})",
            f"decimal({precision},{max(0, scale - 1)})",
            "int",
            "bigint",
            "double",
            "string",
        )
        reads = tuple(dict.fromkeys(reads))
        table = v(values, pa.decimal128(precision, scale))
        found[f"decimal-{precision}-{scale}-fixed"] = ArrowFile(table, reads)
        if precision <= 18:
            found[f"decimal-{precision}-{scale}-int"] = ArrowFile(table, reads, {"store_decimal_as_integer": True})
    return found


def _times() -> dict[str, ArrowFile]:
    found = {"date": ArrowFile(v(DAYS, pa.date32()), as_v("date", "timestamp_ntz", "timestamp", "int", "string"))}
    for unit in ("ms", "us"):
        found[f"timestamp-{unit}"] = ArrowFile(v(MOMENTS, pa.timestamp(unit, "UTC")), as_v(*TIMES))
        found[f"timestamp-ntz-{unit}"] = ArrowFile(v(MOMENTS, pa.timestamp(unit)), as_v(*TIMES))
        found[f"timestamp-zone-{unit}"] = ArrowFile(
            v(MOMENTS, pa.timestamp(unit, "America/New_York")), as_v("timestamp")
        )
    for zone in (None, "UTC"):
        name = "timestamp-ntz-ns" if zone is None else "timestamp-ns"
        found[name] = ArrowFile(v(NEAR, pa.timestamp("ns", zone)), as_v(*TIMES))
        parts = pa.array([1, 999, -1, 1001], pa.int64()).cast(pa.timestamp("ns", zone))
        table = pa.table({"v": parts})
        found[f"{name}-with-parts"] = ArrowFile(table, as_v("timestamp", "timestamp_ntz"), {"version": "2.6"})
    found["seconds"] = ArrowFile(v(MOMENTS[1:3], pa.timestamp("s", "UTC")), as_v("timestamp", "timestamp_ntz"))
    for unit in ("s", "ms"):
        found[f"time-{unit}"] = ArrowFile(v([1, 86_399], pa.time32(unit)), as_v("int", "timestamp", "string"))
    for unit in ("us", "ns"):
        found[f"time-{unit}"] = ArrowFile(v([1000, 86_399_000], pa.time64(unit)), as_v("bigint", "timestamp_ntz"))
    int96 = {"use_deprecated_int96_timestamps": True}
    found["int96"] = ArrowFile(v(MOMENTS, pa.timestamp("us")), as_v(*TIMES), int96)
    found["int96-near"] = ArrowFile(v(NEAR, pa.timestamp("ns")), as_v("timestamp", "timestamp_ntz"), int96)
    parts = pa.table({"v": pa.array([1, 999, -1, 1001], pa.int64()).cast(pa.timestamp("ns"))})
    found["int96-with-parts"] = ArrowFile(parts, as_v("timestamp", "timestamp_ntz"), int96)
    lists = v([[MOMENTS[0], None], []], pa.list_(pa.timestamp("us")))
    found["int96-in-lists"] = ArrowFile(lists, as_v("array<timestamp>", "array<timestamp_ntz>"), int96)
    beyond = pa.table(
        {"v": pa.array([-62_135_596_800_000_001, 253_402_300_800_000_000]).cast(pa.timestamp("us", "UTC"))}
    )
    found["timestamp-beyond-years"] = ArrowFile(beyond, as_v("timestamp"))
    huge = pa.table({"v": pa.array([2**62, -(2**62)]).cast(pa.timestamp("ms", "UTC"))})
    found["timestamp-ms-overflow"] = ArrowFile(huge, as_v("timestamp"))
    return found


def _texts() -> dict[str, ArrowFile]:
    texts = ["", "a", "é", "\x00", "𝄞", "a,b\n"]
    blobs = [text.encode() for text in texts]
    return {
        "string": ArrowFile(v(texts), as_v(*TEXTS)),
        "large-string": ArrowFile(v(texts, pa.large_string()), as_v("string")),
        "string-view": ArrowFile(v(texts, pa.string_view()), as_v("string")),
        "binary": ArrowFile(v(blobs), as_v(*TEXTS)),
        "binary-not-utf8": ArrowFile(v([b"\xff\xfe", b"\x80"]), as_v("binary", "string")),
        "fixed-binary": ArrowFile(v([b"abcd", b"\x00\x01\x02\x03"], pa.binary(4)), as_v("binary", "string")),
        "dictionary": ArrowFile(v(["x", "y", "x"]), as_v("string", "binary"), {"use_dictionary": True}),
        "arrow-dictionary": ArrowFile(
            pa.table({"v": pa.array(["x", "y", None, "x"]).dictionary_encode()}), as_v("string")
        ),
        "uuid": ArrowFile(pa.table({"v": pa.array([b"0123456789abcdef"], pa.uuid())}), as_v("binary", "string")),
        "json": ArrowFile(pa.table({"v": pa.array(['{"a":1}', None], pa.json_())}), as_v("string", "binary")),
    }


def _layouts() -> dict[str, ArrowFile]:
    """The same rows in every encoding, page version and codec."""
    whole = pa.table(
        {
            "i": pa.array([*range(9), None], pa.int32()),
            "l": pa.array([*(i * 1_000_003 for i in range(9)), None], pa.int64()),
            "d": pa.array([*(i / 8 for i in range(9)), None], pa.float64()),
            "t": pa.array([*(f"text {i % 5}" for i in range(9)), None]),
            "b": pa.array([*(i % 3 == 0 for i in range(9)), None]),
        }
    )
    reads = ("i int, l bigint, d double, t string, b boolean", "t string, i bigint")
    found = {}
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        for version in ("1.0", "2.0"):
            found[f"{codec}-v{version[0]}"] = ArrowFile(
                whole, reads[:1], {"compression": codec, "data_page_version": version}
            )
    encodings = {
        "plain": {},
        "delta": {"i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "t": "DELTA_LENGTH_BYTE_ARRAY"},
        "delta-text": {"t": "DELTA_BYTE_ARRAY"},
        "split": {"d": "BYTE_STREAM_SPLIT"},
        "split-ints": {"i": "BYTE_STREAM_SPLIT", "l": "BYTE_STREAM_SPLIT"},
        "rle": {"b": "RLE"},
    }
    for name, encoding in encodings.items():
        for version in ("1.0", "2.0"):
            options = {"use_dictionary": False, "column_encoding": encoding or None, "data_page_version": version}
            found[f"encoding-{name}-v{version[0]}"] = ArrowFile(whole, reads[:1], options)
    found["checksums"] = ArrowFile(whole, reads, {"write_page_checksum": True})
    found["row-groups"] = ArrowFile(whole, reads, {"row_group_size": 4})
    found["small-pages"] = ArrowFile(
        whole, reads, {"data_page_size": 16, "write_batch_size": 3, "use_dictionary": False}
    )
    found["page-index"] = ArrowFile(whole, reads, {"write_page_index": True})
    found["small-dictionary"] = ArrowFile(whole, reads, {"dictionary_pagesize_limit": 8, "write_batch_size": 2})
    found["zero-rows"] = ArrowFile(whole.slice(0, 0), (*reads, "nope int"))
    found["many-nulls"] = ArrowFile(
        pa.table({"v": pa.array([None] * 100 + [1] + [None] * 100, pa.int32())}), as_v("int")
    )
    found["all-null"] = ArrowFile(pa.table({"v": pa.array([None, None], pa.int32())}), as_v("int", "bigint"))
    found["required"] = ArrowFile(v([1, 2, 3], pa.int32(), nullable=False), as_v("int", "bigint", "string"))
    found["required-text"] = ArrowFile(v(["a", "b"], nullable=False), as_v("string"), {"data_page_version": "2.0"})
    return found


def _columns() -> dict[str, ArrowFile]:
    two = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]})
    return {
        "columns": ArrowFile(
            two,
            (
                "a int",
                "b string",
                "b string, a int",
                "a int, c int",
                "c int",
                "A int, B string",
                "b string, c array<int>, d struct<x: int>, a bigint",
            ),
        ),
        "cases": ArrowFile(pa.table({"Aa": pa.array([1], pa.int32())}), ("Aa int", "aa int", "AA int", "a int")),
        "clashing-cases": ArrowFile(
            pa.table({"a": pa.array([1], pa.int32()), "A": pa.array([2], pa.int32())}), ("a int", "A int", "b int")
        ),
        "odd-names": ArrowFile(
            pa.table({"a b": [1], "é": [2], "x.y": [3], "": [4]}),
            ("`a b` bigint", "`é` bigint", "`É` bigint", "`x.y` bigint"),
        ),
        "null-type": ArrowFile(
            pa.table({"v": pa.nulls(2), "a": pa.array([1, 2], pa.int32())}),
            ("v int, a int", "v string, a int", "v timestamp", "v array<int>", "v struct<x: int>", "a int"),
        ),
        "many-columns": ArrowFile(
            pa.table({f"c{i}": pa.array([i], pa.int32()) for i in range(20)}), ("c19 int, c0 int, c7 bigint, none int",)
        ),
    }


def _legacy() -> dict[str, ArrowFile]:
    """Files with the marks by which Spark sees that values are in the calendar of Spark 2."""
    # Days and microseconds around each point at which the calendars differ by another number of days.
    days = [-719_164, -719_163, -682_945, -646_420, -500_001, -354_280, -141_428, -141_427, 0]
    dates = pa.table({"v": pa.array(days, pa.int32()).cast(pa.date32())})
    micros = [day * 86_400_000_000 + more for day in days for more in (-1, 0, 3_599_999_999, 43_200_000_001)]
    micros += [-2_422_054_408_000_000 + more for more in (-1, 0, 1)]  # Berlin leaves its mean time on 1893-04-01
    micros += [-2_208_988_800_000_000, -1_693_706_400_000_000]
    instants = pa.table({"v": pa.array(micros).cast(pa.timestamp("us", "UTC"))})
    local = pa.table({"v": pa.array(micros).cast(pa.timestamp("us"))})
    millis = pa.table({"v": pa.array([one // 1000 for one in micros]).cast(pa.timestamp("ms", "UTC"))})
    marks: dict[str, dict[str, str]] = {
        "2.4": {"version": "2.4.8"},
        "3.0": {"version": "3.0.1"},
        "3.0-legacy": {"version": "3.0.1", "legacyDateTime": ""},
        "3.1": {"version": "3.1.0"},
        "4-legacy": {"version": "4.3.0", "legacyDateTime": "", "timeZone": "America/New_York"},
        "4-legacy-96": {"version": "4.3.0", "legacyINT96": "", "timeZone": "Asia/Kolkata"},
        "4-legacy-offset": {"version": "4.3.0", "legacyDateTime": "", "legacyINT96": "", "timeZone": "+01:00"},
        "4-legacy-unknown-zone": {"version": "4.3.0", "legacyDateTime": "", "timeZone": "Mars/Olympus"},
        "4-legacy-gmt": {"version": "4.3.0", "legacyDateTime": "", "timeZone": "GMT+5:30"},
        "4-legacy-short": {"version": "4.3.0", "legacyDateTime": "", "timeZone": "PST"},
        "no-version-legacy": {"legacyDateTime": "", "legacyINT96": ""},
        "10": {"version": "10.0.0"},
        "no-number": {"version": "next"},
    }
    found = {}
    for name, mark in marks.items():
        found[f"legacy-{name}-date"] = ArrowFile(dates, as_v("date", "timestamp_ntz"), marks=mark)
        found[f"legacy-{name}-timestamp"] = ArrowFile(instants, as_v("timestamp"), marks=mark)
        found[f"legacy-{name}-ntz"] = ArrowFile(local, as_v("timestamp_ntz"), marks=mark)
        int96 = {"use_deprecated_int96_timestamps": True}
        found[f"legacy-{name}-int96"] = ArrowFile(local, as_v("timestamp", "timestamp_ntz"), int96, mark)
    found["legacy-2.4-millis"] = ArrowFile(millis, as_v("timestamp"), marks=marks["2.4"])
    nested = pa.table({"v": pa.array([[days[0], None]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))})
    found["legacy-2.4-nested"] = ArrowFile(nested, as_v("array<date>"), marks=marks["2.4"])
    return found


ARROW_FILES: dict[str, ArrowFile] = {
    **_integers(),
    **_floats(),
    **_decimals(),
    **_times(),
    **_texts(),
    **_layouts(),
    **_columns(),
    **nested(),
    **_legacy(),
}
_OLD = (
    "SELECT CAST(s AS {kind}) AS v FROM VALUES ('0001-01-01 00:00:00'), ('0300-03-01 12:34:56.789'), "
    "('1000-02-28 00:00:00'), ('1582-10-04 23:59:59.999999'), ('1582-10-15 00:00:00'), ('1850-06-01 12:00:00'), "
    "('1893-04-01 00:06:31'), ('1899-12-31 23:59:59'), ('1916-05-01 00:00:00'), ('2024-10-27 02:30:00'), "
    "('9999-12-31 23:59:59.999999') AS t(s)"
)
_PARQUET = "spark.sql.parquet"
_NESTED = (
    "SELECT array(1, 2) AS a, array(named_struct('x', 1, 'y', 'p'), "
    "named_struct('x', 2, 'y', CAST(NULL AS string))) AS s, "
    "map('k', array(CAST(1.5 AS decimal(10, 2)))) AS m, named_struct('d', DATE'2024-01-05', 'i', array()) AS n "
    "UNION ALL SELECT array(), NULL, map(), NULL"
)
_NESTED_SCHEMA = (
    "a array<int>, s array<struct<x: int, y: string>>, m map<string, array<decimal(10,2)>>, n struct<d: date>"
)


def _spark() -> dict[str, SparkFile]:
    found = {}
    for kind in ("timestamp", "date", "timestamp_ntz"):
        for mode in ("CORRECTED", "LEGACY"):
            settings = {f"{_PARQUET}.datetimeRebaseModeInWrite": mode, f"{_PARQUET}.int96RebaseModeInWrite": mode}
            outputs = (
                ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS") if kind == "timestamp" else ("TIMESTAMP_MICROS",)
            )
            for output in outputs:
                name = f"spark-{kind}-{output.removeprefix('TIMESTAMP_').lower()}-{mode.lower()}"
                reads = as_v("date", "timestamp_ntz") if kind == "date" else as_v("timestamp", "timestamp_ntz")
                more = {f"{_PARQUET}.outputTimestampType": output}
                found[name] = SparkFile(_OLD.format(kind=kind), reads, settings | more)
    for zone in ("America/New_York", "Asia/Kolkata", "Africa/Monrovia", "Asia/Manila"):
        for output in ("INT96", "TIMESTAMP_MICROS"):
            settings = {
                f"{_PARQUET}.datetimeRebaseModeInWrite": "LEGACY",
                f"{_PARQUET}.int96RebaseModeInWrite": "LEGACY",
                f"{_PARQUET}.outputTimestampType": output,
                "spark.sql.session.timeZone": zone,
            }
            name = f"spark-{zone.rpartition('/')[2].lower()}-{output.removeprefix('TIMESTAMP_').lower()}-legacy"
            found[name] = SparkFile(_OLD.format(kind="timestamp"), as_v("timestamp"), settings)
    for legacy in ("true", "false"):
        name = "layout-of-spark-1" if legacy == "true" else "layout-of-spark-4"
        found[f"spark-{name}"] = SparkFile(
            _NESTED,
            (_NESTED_SCHEMA, "a array<bigint>, s array<struct<y: string, z: int>>"),
            {f"{_PARQUET}.writeLegacyFormat": legacy},
        )
        found[f"spark-{name}-decimals"] = SparkFile(
            "SELECT CAST(1.23 AS decimal(5, 2)) AS a, CAST(-1.23 AS decimal(15, 2)) AS b, "
            "CAST(1.23 AS decimal(30, 2)) AS c",
            ("a decimal(5,2), b decimal(15,2), c decimal(30,2)", "a decimal(9,4), b decimal(20,3), c decimal(38,4)"),
            {f"{_PARQUET}.writeLegacyFormat": legacy},
        )
    found["spark-all-types"] = SparkFile(
        "SELECT CAST(1 AS tinyint) AS a, CAST(-2 AS smallint) AS b, 3 AS c, 4L AS d, CAST(0.1 AS float) AS e, "
        "CAST(0.1 AS double) AS f, 'é' AS g, X'00ff' AS h, true AS i, DATE'2024-01-05' AS j, CAST('x' AS char(3)) AS k",
        (
            "a tinyint, b smallint, c int, d bigint, e float, f double, "
            "g string, h binary, i boolean, j date, k string",
            "a bigint, b int, c double, d decimal(21,1), e double, g binary",
        ),
    )
    found["spark-empty"] = SparkFile("SELECT 1 AS v WHERE false", as_v("int"))
    found["spark-void"] = SparkFile("SELECT 1 AS a, NULL AS v", ("a int, v string", "v int"))
    found["spark-intervals"] = SparkFile(
        "SELECT INTERVAL '1' DAY AS v, INTERVAL '2' MONTH AS w", ("v bigint", "w int", "v string")
    )
    found["spark-variant"] = SparkFile(
        "SELECT parse_json('{\"a\": 1}') AS v, 1 AS a", ("a int", "v struct<value: binary, metadata: binary>")
    )
    return found


SPARK_FILES: dict[str, SparkFile] = _spark()
INPUTS: dict[str, tuple[str, str]] = {
    f"{name} as {schema}": (name, schema)
    for files in (ARROW_FILES, SPARK_FILES)
    for name, file in files.items()
    for schema in file.reads
}
"""The name of a file and the schema to read it with, by a name for both."""
