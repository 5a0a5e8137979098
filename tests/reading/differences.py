"""Where Tidemill reads another value than Spark on purpose, and why. docs/compatibility.md says it to users."""

from __future__ import annotations

DIGITS = "only ASCII digits are digits"
COMMA = "Spark drops commas from decimals, so that `1,5` would be 15"
YEARS = "years are 1 to 9999, in UTC"
GUESS = "a missing month or day would be a guess"
REST = "what follows a date must be a time of day"
WRAPS = "Spark reads 128 as -128"
OTHER = "a file without any column of the schema is another file"
DAYS = "Spark reads a number in a string as days since 1970, or as a year"
WIDER = "every value fits, but Spark has no conversion"
NARROWER = "a value that is too large would become another one, as in Spark"
UNSIGNED = "Spark reads unsigned numbers from 2^31 on as negative ones"
NUMBER = "a date or a time is not a number; Spark reads what is stored, whatever its unit"
UNSCALED = "Spark reads the digits without the decimal point"
INSTANT = "an instant is not a local time; Spark reads both in UTC"
NANOS = "Spark does not read nanoseconds"
NOT_UTF8 = "text must be UTF-8; Spark returns the bytes"
CODEC = "Spark has no Brotli codec"
EXACT_NAME = "a name in the same case is preferred; Spark refuses both"
NULLS = "a column without values fits every type that may be null"
VARIANT = "a variant is stored as a struct, which can be read"

_WHOLE = {"１": DIGITS}
_DECIMAL = {"１": DIGITS, "1,000": COMMA, "1,234.5": COMMA}
_TIME = {"2024": GUESS, "2024-01": GUESS, "-2024-01-01": YEARS, "10000-01-01": YEARS}

CSV_VALUES: dict[str, dict[str, str]] = {
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "decimal(10,2)": _DECIMAL,
    "decimal(38,18)": _DECIMAL,
    "date": _TIME
    | dict.fromkeys(
        [
            "2024-01-05 10:",
            "2024-01-05 10:00:",
            "2024-01-05 junk",
            "2024-01-05T",
            "2024-01-05 24:00:00",
            "2024-01-05 10:60:00",
            "2024-01-05 10:00:60",
            "2024-01-05 10:00:00+19:00",
            "2024-01-05 010:00:00",
            "2024-01-05 10:00:00z",
            "2024-01-05 10:00:00,123",
        ],
        REST,
    ),
    "timestamp": _TIME | {"0001-01-01": YEARS},
    "timestamp_ntz": _TIME,
}
JSON_VALUES: dict[str, dict[str, str]] = {
    "tinyint": {"128": WRAPS},
    "double": {"-0": "Spark reads -0 as 0.0, but -0.0 as -0.0"},
    "decimal(10,2)": {'"1,000.5"': COMMA},
    "date": {'"1"': DAYS, '"12345"': DAYS},
    "timestamp": {'"12345"': DAYS},
    "timestamp_ntz": {'"12345"': DAYS},
}
CSV_FILES: dict[str, str] = {
    "split-32": "an unclosed quote would make the rest of the file one value, so it is a reject",
}
JSON_FILES: dict[str, str] = {
    "line-18": "Spark ignores what follows the object on a line",
    "line-33": "Spark ignores a second object on a line, so its row would be lost",
}
PARQUET_FILES: dict[str, str] = {
    **dict.fromkeys(["zero-rows as nope int", "columns as c int", "cases as a int", "clashing-cases as b int"], OTHER),
    **dict.fromkeys(
        [
            "int8 as v decimal(3,0)",
            "uint8 as v decimal(10,0)",
            "uint8 as v decimal(20,0)",
            "uint8 as v decimal(12,2)",
            "uint16 as v decimal(10,0)",
            "uint16 as v decimal(20,0)",
            "uint16 as v decimal(12,2)",
            "uint32 as v decimal(20,0)",
            "float16 as v float",
            "float16 as v double",
        ],
        WIDER,
    ),
    **dict.fromkeys(
        [
            "uint8 as v tinyint",
            "int16 as v tinyint",
            "uint16 as v tinyint",
            "uint16 as v smallint",
            "int32 as v tinyint",
            "int32 as v smallint",
            "int32-small as v tinyint",
            "struct as v struct<name: string, age: tinyint>",
        ],
        NARROWER,
    ),
    **dict.fromkeys(
        [
            "uint32 as v double",
        ],
        UNSIGNED,
    ),
    **dict.fromkeys(
        [
            "int32-small as v date",
            "date as v int",
            "timestamp-ms as v bigint",
            "timestamp-ntz-ms as v bigint",
            "timestamp-us as v bigint",
            "timestamp-ntz-us as v bigint",
            "timestamp-ntz-ns as v bigint",
            "timestamp-ns as v bigint",
            "time-s as v int",
            "time-ms as v int",
            "time-us as v bigint",
            "time-ns as v bigint",
        ],
        NUMBER,
    ),
    **dict.fromkeys(
        [
            "decimal-1-0-int as v int",
            "decimal-1-0-int as v bigint",
            "decimal-1-0-int as v double",
            "decimal-4-4-int as v int",
            "decimal-4-4-int as v bigint",
            "decimal-4-4-int as v double",
            "decimal-9-2-int as v int",
            "decimal-9-2-int as v bigint",
            "decimal-9-2-int as v double",
            "decimal-10-2-int as v bigint",
            "decimal-18-3-int as v bigint",
        ],
        UNSCALED,
    ),
    **dict.fromkeys(
        [
            "timestamp-ms as v timestamp_ntz",
            "timestamp-ntz-ms as v timestamp",
            "timestamp-us as v timestamp_ntz",
            "timestamp-ntz-us as v timestamp",
            "seconds as v timestamp_ntz",
            "spark-timestamp-micros-corrected as v timestamp_ntz",
            "spark-timestamp-millis-corrected as v timestamp_ntz",
            "spark-timestamp-micros-legacy as v timestamp_ntz",
            "spark-timestamp-millis-legacy as v timestamp_ntz",
            "spark-timestamp_ntz-micros-corrected as v timestamp",
            "spark-timestamp_ntz-micros-legacy as v timestamp",
        ],
        INSTANT,
    ),
    **dict.fromkeys(
        [
            "timestamp-ntz-ns as v timestamp_ntz",
            "timestamp-ns as v timestamp",
        ],
        NANOS,
    ),
    **dict.fromkeys(
        [
            "binary-not-utf8 as v string",
        ],
        NOT_UTF8,
    ),
    **dict.fromkeys(
        [
            "brotli-v1 as i int, l bigint, d double, t string, b boolean",
            "brotli-v2 as i int, l bigint, d double, t string, b boolean",
        ],
        CODEC,
    ),
    **dict.fromkeys(
        [
            "clashing-cases as a int",
            "clashing-cases as A int",
        ],
        EXACT_NAME,
    ),
    **dict.fromkeys(
        [
            "null-type as v string, a int",
            "null-type as v timestamp",
            "null-type as v array<int>",
            "null-type as v struct<x: int>",
            "list-of-null as v array<string>",
            "struct-with-null-field as v struct<x: string, y: int>",
            "spark-void as a int, v string",
            "spark-void as v int",
        ],
        NULLS,
    ),
    **dict.fromkeys(
        [
            "spark-variant as v struct<value: binary, metadata: binary>",
        ],
        VARIANT,
    ),
}
