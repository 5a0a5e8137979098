"""Where Tidemill reads another value than Spark on purpose, and why. docs/compatibility.md says it to users."""

from __future__ import annotations

DIGITS = "only ASCII digits are digits"
COMMA = "Spark drops commas from decimals, so that `1,5` would be 15"
YEARS = "years are 1 to 9999, in UTC"
GUESS = "a missing month or day would be a guess"
REST = "what follows a date must be a time of day"
WRAPS = "Spark reads 128 as -128"
DAYS = "Spark reads a number in a string as days since 1970, or as a year"

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
    "timestamp": _TIME | {"0001-01-01": YEARS, "9999-12-31": YEARS},
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
