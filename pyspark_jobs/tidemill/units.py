"""Durations, sizes and times, read from the text, numbers and objects that users write, and as text again.

Plain values only; nothing here knows a setting. Durations and times are milliseconds, sizes are bytes.
INVARIANT: a value that does not parse raises `InvalidInput`. No default replaces it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
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
_NEAR_MS = 10 * 365 * 24 * 3600 * 1000
"""A number in another unit is recognised if it would be within ten years of now."""
_UNITS = {1000: "seconds", 1 / 1000: "microseconds", 1 / 1_000_000: "nanoseconds"}

_CYCLE = 146_097 * 86_400
"""Seconds in 400 years, after which the calendar repeats."""
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800

MOST_DURATION_MS = 2**61 // 1000
"""The longest duration. The sum of a time and a duration in microseconds must fit 64 bits."""


def duration_ms(value: str | timedelta | int) -> int:
    """Return a duration in milliseconds. `value` is text such as `"1 hour 30 minutes"`, a timedelta or an int of ms.

    Months and years are `InvalidInput`, because they have no fixed length. So are negative durations.
    """
    if isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        milliseconds: int | None = None if rest else whole
    elif isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    else:
        milliseconds = _sum_of_parts(value, _DURATION_MS)
    if milliseconds is not None and milliseconds > MOST_DURATION_MS:
        raise InvalidInput(f"invalid duration {value!r}: expected at most {MOST_DURATION_MS} ms (73,000 years)")
    if milliseconds is not None and milliseconds >= 0:
        return milliseconds
    raise InvalidInput(
        f"invalid duration {value!r}: expected text such as `30 days`, a timedelta or an int of ms, not negative",
        hint="units: milliseconds, seconds, minutes, hours, days, weeks",
    )


def duration_text(duration_ms: int) -> str:
    """Return a duration as users write it, in its largest units. `duration_ms` reads it back.

    >>> duration_text(30 * 86_400_000), duration_text(5_400_000), duration_text(1), duration_text(0)
    ('30 days', '1 hour 30 minutes', '1 millisecond', '0 seconds')
    """
    rest, parts = duration_ms, []
    for unit in ("day", "hour", "minute", "second", "millisecond"):
        count, rest = divmod(rest, _DURATION_MS[unit])
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def with_readable_durations(text: str) -> str:
    """Return recorded text with its counts of ms as durations.

    >>> with_readable_durations("3600000 ms by 1800000 ms from 0 ms over ts")
    '1 hour by 30 minutes from 0 seconds over ts'
    """
    return re.sub(r"\b(\d+) ms\b", lambda found: duration_text(int(found[1])), text)


def interval_ms(value: str | timedelta | int) -> int:
    """Return a duration in milliseconds, reading text as Spark does when it converts an interval to a duration.

    A month is 31 days and a year is 12 months. Parts may be microseconds and may be negative, as in
    `"-1 month 31 days 1 second"`. The sum must be whole milliseconds and not negative. Everything else is as in
    `duration_ms`. Spark: `IntervalUtils.getDuration`.
    """
    if isinstance(value, str):
        microseconds = _sum_of_parts(value, _INTERVAL_US, _SIGNED_PART)
        if microseconds is not None and microseconds % 1000 == 0 and microseconds >= 0:
            return duration_ms(microseconds // 1000)
    return duration_ms(value)


def size_bytes(value: str | int) -> int:
    """Return a size in bytes. `value` is text such as `"64 MiB"` or `"1g"`, or an int of bytes.

    As in Spark, `k`, `kb` and `KiB` all mean 1024 bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size: int | None = value
    else:
        size = _sum_of_parts(value, _SIZE_BYTES)
    if size is not None and size >= 0:
        return size
    raise InvalidInput(
        f"invalid size {value!r}: expected text such as `64 MiB` or a number of bytes, not negative",
        hint="units: B, KiB, MiB, GiB, TiB",
    )


def whole_number(text: Any) -> int | None:
    """Return the whole number that a text spells, or None unless it is 1 to 18 digits with an optional `-`."""
    return int(text) if isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,18}", text.strip()) else None


def time_ms(value: int | str | date, time_zone: str = "UTC") -> int:
    """Return a point in time in ms since the epoch, rounded down, from an int of ms, ISO text, a date or a datetime.

    A time without a UTC offset is a local time in `time_zone`.
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
            f"invalid time {value!r}: expected ms since the epoch, ISO text such as `2013-01-01T00:00:00Z`, or a "
            "datetime"
        ) from error


def iso(time_ms: int) -> str:
    """Return a time as Spark writes it in progress: ISO 8601, UTC, milliseconds. Years beyond 9999 have a sign."""
    seconds, rest = divmod(time_ms, 1000)
    cycles = (seconds - _YEAR_1) // _CYCLE if not _YEAR_1 <= seconds < _YEAR_10000 else 0
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds - cycles * _CYCLE)
    year = found.year + 400 * cycles
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{found:%m-%dT%H:%M:%S}.{rest:03d}Z"


def time_text(value: datetime) -> str:
    """Return a value of a time column as text: ISO 8601, in UTC if it has a zone, with a fraction if there is one.

    >>> time_text(datetime(2026, 3, 1, 9, tzinfo=UTC)), time_text(datetime(2026, 3, 1, 9, 0, 0, 250_000))
    ('2026-03-01T09:00:00Z', '2026-03-01T09:00:00.250')
    """
    fraction = "microseconds" if value.microsecond % 1000 else "milliseconds"
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    shown = utc.isoformat(timespec=fraction if value.microsecond else "seconds")
    return shown if value.tzinfo is None else f"{shown}Z"


def check_unit(value_ms: int, what: str, now: int) -> None:
    """Raise `InvalidInput` for a time that would be near `now` in another unit than ms."""
    unit = next((name for factor, name in _UNITS.items() if abs(value_ms * factor - now) < _NEAR_MS), None)
    if unit is not None and abs(value_ms - now) >= _NEAR_MS:
        raise InvalidInput(f"{what} is {value_ms}, which looks like {unit}", hint="give ms since the epoch")


def check_time_zone(name: str) -> str:
    """Return `name` if it is a time zone of the tz database; otherwise raise `InvalidInput`."""
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError, TypeError) as error:
        expected = "expected a name such as `UTC` or `America/New_York`"
        raise InvalidInput(f"unknown time zone {name!r}: {expected}") from error
    return name


def _sum_of_parts(text: Any, units: Mapping[str, int], form: re.Pattern[str] = _PART) -> int | None:
    """Return `"1 hour 30 minutes"` in the smallest unit, or None if it does not parse or is not a whole number."""
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
