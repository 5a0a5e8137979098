"""Tidemill's own settings, and how durations, sizes and times are written.

Plain values only: no component reads a setting from anywhere else. INVARIANT: an unknown key is an error that
names the nearest known one; keys that begin with `spark.` are passed on as they are.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from .errors import InvalidInput

_DURATION_MS = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "second": 1000, "seconds": 1000, "sec": 1000, "secs": 1000,
    "m": 60_000, "min": 60_000, "mins": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_SIZE_BYTES = {
    unit + suffix: 1024**power
    for power, unit in enumerate(("", "k", "m", "g", "t"))
    for suffix in (("", "b") if not unit else ("", "b", "ib"))
}
_MONTH_US = 31 * 86_400_000_000
_INTERVAL_US = {unit: ms * 1000 for unit, ms in _DURATION_MS.items()} | {
    "us": 1, "microsecond": 1, "microseconds": 1,
    "month": _MONTH_US, "months": _MONTH_US, "year": 12 * _MONTH_US, "years": 12 * _MONTH_US,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_SIGNED_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FILE = "tidemill.toml"


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that `word` was most likely meant to be, or None where nothing is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def unknown(what: str, word: str, choices: Iterable[str], place: str = "") -> InvalidInput:
    """The error for a name that is none of `choices`: it names the nearest, else all of them. `place`: ` in …`."""
    known = sorted(choices)
    near = nearest(word, known)
    return InvalidInput(
        f"unknown {what} `{word}`{place}" + (f"; did you mean `{near}`?" if near else ""),
        hint=None if near else f"known: {', '.join(known)}",
    )


MOST_DURATION_MS = 2**61 // 1000
"""The longest duration: a time and a duration in microseconds add up in 64 bits."""


def duration_ms(value: str | timedelta | int) -> int:
    """A duration as milliseconds: an int is milliseconds already, text is `"30 days"` or `"1 hour 30 minutes"`.

    Months and years are refused, because they have no fixed length; so are negative durations.
    """
    if isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        milliseconds: int | None = None if rest else whole
    elif isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    else:
        milliseconds = _sum_of_parts(value, _DURATION_MS)
    if milliseconds is not None and milliseconds > MOST_DURATION_MS:
        raise InvalidInput(f"read duration {value!r}: expected at most {MOST_DURATION_MS} ms (73,000 years)")
    if milliseconds is not None and milliseconds >= 0:
        return milliseconds
    raise InvalidInput(
        f"read duration {value!r}: expected text such as `30 days`, a timedelta, or whole milliseconds, not negative",
        hint="units: milliseconds, seconds, minutes, hours, days, weeks",
    )


def interval_ms(value: str | timedelta | int) -> int:
    """A duration as Spark reads an interval where it wants a duration: a month is 31 days, a year 12 months, parts may
    be negative (`"-1 month 31 days 1 second"`) and in microseconds; together they are whole milliseconds, not negative.

    Spark: `IntervalUtils.getDuration`. What else is allowed is as in `duration_ms`.
    """
    if isinstance(value, str):
        microseconds = _sum_of_parts(value, _INTERVAL_US, _SIGNED_PART)
        if microseconds is not None and microseconds % 1000 == 0 and microseconds >= 0:
            return duration_ms(microseconds // 1000)
    return duration_ms(value)


def size_bytes(value: str | int) -> int:
    """A size in bytes: an int as it is, text is `"64 MiB"` or `"1g"`. As in Spark, `k`, `kb`, `KiB` are 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        size: int | None = value
    else:
        size = _sum_of_parts(value, _SIZE_BYTES)
    if size is not None and size >= 0:
        return size
    raise InvalidInput(
        f"read size {value!r}: expected text such as `64 MiB` or a number of bytes, not negative",
        hint="units: B, KiB, MiB, GiB, TiB",
    )


def whole_number(text: Any) -> int | None:
    """The whole number that a text is, of at most 18 digits; None where it is none, or no text."""
    return int(text) if isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,18}", text.strip()) else None


def time_ms(value: int | str | date, time_zone: str = "UTC") -> int:
    """A point in time as ms since the epoch (floored): int ms, ISO text, a date or a datetime.

    A time without an offset is taken in `time_zone`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())  # type: ignore[union-attr]
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(check_time_zone(time_zone)))
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"read time {value!r}: expected ms since the epoch, ISO text such as `2013-01-01T00:00:00Z`, or a datetime"
        ) from error


def check_time_zone(name: str) -> str:
    """`name` if it is a time zone of the tz database (`UTC`, `America/New_York`), else `InvalidInput`."""
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError, TypeError) as error:
        expected = "expected a name such as `UTC` or `America/New_York`"
        raise InvalidInput(f"unknown time zone {name!r}: {expected}") from error
    return name


def _sum_of_parts(text: Any, units: Mapping[str, int], form: re.Pattern[str] = _PART) -> int | None:
    """`"1 hour 30 minutes"` in the smallest unit; None where it does not read, or is not a whole number."""
    if not isinstance(text, str):
        return None
    rest = text.strip().lower().removeprefix("interval ")
    total = 0.0
    while rest:
        part = form.match(rest)
        if part is None or part[2] not in units or len(part[1]) > 100:
            return None
        number = "".join(part[1].split())
        total += float(number) * units[part[2]] if "." in number else int(number) * units[part[2]]
        rest = rest[part.end() :]
    return int(total) if text.strip() and math.isfinite(total) and total == int(total) else None


@dataclass(frozen=True)
class Settings:
    """Tidemill's own settings: the keys `tidemill.…`. Sizes are given as bytes or as text such as `"64 MiB"`."""

    block_rows: int = 131_072
    """Rows of a block: the unit of `map_batches`; rows are combined in whole blocks. Fixed in the plan."""
    split_bytes: int = 64 * 1024**2
    """A Parquet file larger than this is cut into ranges of row groups."""
    chunk_bytes: int = 16 * 1024**2
    """The greatest size of a chunk on its way from scatter to apply."""
    task_bytes: int = 8 * 1024**2
    """A batch of at most so much input runs in one task, without an exchange, unless the number of tasks is given;
    of four times as much where the pipeline has no function in Python, of a 512th where one is given pandas frames."""
    cache_bytes: int = 1024**3
    """How much the cache of opened segments may take in the memory of a process; 0: no cache."""
    disk_cache_bytes: int = 10 * 1024**3
    """How much opened segments may take on each machine's own disk; 0: no cache there."""
    disk_cache_folder: str = ""
    """Where they lie there; empty: `tidemill/segments` below `$XDG_CACHE_HOME` or `~/.cache`."""

    def __post_init__(self) -> None:
        for name in _NAMES:
            if name not in _TEXTS:
                _check_least(name, getattr(self, name), "")


def resolve(
    conf: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Tidemill's settings, and the keys `spark.…`, which are passed on as text.

    Precedence: `conf`, `TIDEMILL_…` in the environment, `tidemill.toml` in `folder`, default. `environment` is the
    process's and `folder` the working folder where they are not given. The file has the same keys as `conf`, as
    TOML likes: `tidemill.block_rows = 65536`, or `block_rows` below `[tidemill]`.
    """
    file = Path(folder if folder is not None else os.curdir) / _FILE
    in_file = _from_file(file)
    in_environment = _from_environment(os.environ if environment is None else environment)
    given = dict(conf or {})
    found = in_file | in_environment | given
    places = dict.fromkeys(in_file, f" in `{file.resolve()}`") | dict.fromkeys(in_environment, " in the environment")
    places |= dict.fromkeys(given, "")
    own: dict[str, Any] = {}
    spark: dict[str, str] = {}
    for key, value in found.items():
        if str(key).startswith("spark."):
            spark[key] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            name = _own_name(str(key), places[key])
            own[name] = (_text if name in _TEXTS else _number)(name, value, places[key])
    return Settings(**own), spark


_NAMES = tuple(f.name for f in dataclasses.fields(Settings))
_ROWS = {"block_rows"}
_TEXTS = {"disk_cache_folder"}


def _own_name(key: str, place: str) -> str:
    name = key.removeprefix("tidemill.")
    if name != key and name in _NAMES:
        return name
    raise unknown("setting", key, [*(f"tidemill.{known}" for known in _NAMES), "spark.…"], place)


def _text(name: str, value: Any, place: str) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected a path")


def _number(name: str, value: Any, place: str) -> int:
    try:
        number = size_bytes(value)
    except InvalidInput as error:
        what = "a number of rows" if name in _ROWS else "a size such as `64 MiB`"
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {value!r}: expected {what}") from error
    _check_least(name, number, place)
    return number


def _check_least(name: str, number: int, place: str) -> None:
    least = 0 if name in ("cache_bytes", "disk_cache_bytes") else 1
    if number < least:
        raise InvalidInput(f"setting `tidemill.{name}`{place} is {number}, expected at least {least}")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Other names beginning `TIDEMILL_` belong to the command line; one that nearly is a setting is a typing error."""
    variables = {f"TIDEMILL_{name.upper()}": f"tidemill.{name}" for name in _NAMES}
    for name in environment:
        if name.startswith("TIDEMILL_") and name not in variables:
            near = difflib.get_close_matches(name, variables, n=1, cutoff=0.85)
            if near:
                raise InvalidInput(f"unknown setting `{name}` in the environment; did you mean `{near[0]}`?")
    return {key: environment[name] for name, key in variables.items() if name in environment}


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return _flat(tomllib.loads(path.read_text(encoding="utf-8")), "")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"read settings from `{path}`: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """`{"spark": {"executor": {"memory": "2g"}}}` as `{"spark.executor.memory": "2g"}`."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
