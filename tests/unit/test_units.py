"""Durations, sizes and times as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import tidemill as tm
from tidemill.clock import now_ms
from tidemill.errors import InvalidInput
from tidemill.testing import Tester
from tidemill.units import (
    MOST_DURATION_MS,
    check_time_zone,
    duration_ms,
    duration_text,
    interval_ms,
    size_bytes,
    time_ms,
    whole_number,
)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("30 days", 30 * 86_400_000),
        ("1 hour 30 minutes", 5_400_000),
        ("1.5 hours", 5_400_000),
        ("INTERVAL 10 Seconds", 10_000),
        ("250ms", 250),
        ("2 weeks", 14 * 86_400_000),
        (timedelta(minutes=1), 60_000),
        (7, 7),
        (0, 0),
    ],
)
def test_durations_are_read_in_ms(value: Any, milliseconds: int) -> None:
    assert duration_ms(value) == milliseconds
    assert duration_ms(duration_text(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    "value",
    ["", "5", "1 month", "1 year", "-1 day", -1, True, None, 1.5, timedelta(microseconds=1), "0.5 ms", "1 day x"],
)
def test_an_invalid_duration_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid duration"):
        duration_ms(value)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("1 month", 31 * 86_400_000),
        ("1 year", 372 * 86_400_000),
        ("-1 month 31 days 1 second", 1000),
        ("500000 microseconds", 500),
        ("interval 1 hour -30 minutes", 1_800_000),
        ("1.5 seconds", 1500),
        ("0.5 ms 500 us", 1),
        (timedelta(seconds=2), 2000),
        (7, 7),
    ],
)
def test_intervals_are_read_as_spark_reads_them(value: Any, milliseconds: int) -> None:
    assert interval_ms(value) == milliseconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-1 day",
        "1 month -32 days",
        "-\t1 day",
        "9" * 400 + ".5 days",
        "1 microsecond",
        "1 fortnight",
        -1,
        None,
        True,
    ],
)
def test_an_invalid_interval_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid duration"):
        interval_ms(value)


def test_the_longest_duration_is_accepted() -> None:
    assert duration_ms(MOST_DURATION_MS) == interval_ms(f"{MOST_DURATION_MS} ms") == MOST_DURATION_MS


@pytest.mark.parametrize("value", ["999999999999999 days", 2**63, MOST_DURATION_MS + 1])
def test_a_longer_duration_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"at most 2305843009213693 ms \(73,000 years\)"):
        duration_ms(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1 GiB", 1024**3),
        ("64 MiB", 64 * 1024**2),
        ("1g", 1024**3),
        ("10kb", 10_240),
        ("12", 12),
        ("1.5 KiB", 1536),
        (5, 5),
    ],
)
def test_sizes_are_read_in_bytes(value: Any, size: int) -> None:
    assert size_bytes(value) == size


@pytest.mark.parametrize("value", ["", "1 XB", "x", -1, True, None, 1.5, "0.1 B"])
def test_an_invalid_size_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid size"):
        size_bytes(value)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (5, 5),
        ("1970-01-01T00:00:05Z", 5000),
        ("1970-01-01T02:00:05+02:00", 5000),
        ("1970-01-01", 0),
        (date(1970, 1, 2), 86_400_000),
        (datetime(1970, 1, 1, 0, 0, 1, 999, UTC), 1000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC), -1),
    ],
)
def test_times_are_read_in_ms(value: Any, milliseconds: int) -> None:
    assert time_ms(value) == milliseconds


def test_a_time_without_an_offset_is_in_the_given_zone() -> None:
    assert time_ms("2013-01-01", "America/New_York") == time_ms("2013-01-01T05:00:00Z")


@pytest.mark.parametrize("value", ["x", "", None, True, 1.5])
def test_an_invalid_time_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid time"):
        time_ms(value)


def test_an_unknown_time_zone_is_an_error() -> None:
    assert check_time_zone("America/New_York") == "America/New_York"
    with pytest.raises(InvalidInput, match="unknown time zone 'America/Gotham'"):
        check_time_zone("America/Gotham")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7), (" 12 ", 12), ("-5", -5), ("007", 7), ("--5", None), ("²", None), ("٣", None), ("1.0", None),
        ("", None), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None), (7, None), (None, None),
    ],
)  # fmt: skip
def test_whole_number_reads_digits_and_returns_none_for_other_texts(text: Any, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("factor", "unit"), [(1 / 1000, "seconds"), (1000, "microseconds"), (1_000_000, "nanoseconds")]
)
def test_a_start_in_another_unit_than_ms_is_refused(factor: float, unit: str) -> None:
    with pytest.raises(InvalidInput, match=f"option `start` is .*, which looks like {unit}"):
        tm.Files("in", format="csv", schema="k string", start=int(now_ms() * factor))


def test_reading_as_of_a_time_in_another_unit_than_ms_is_refused() -> None:
    p = tm.Pipeline("units")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count())
    t = Tester(p)
    t.batch([("a",)])
    with pytest.raises(InvalidInput, match="as_of is .*, which looks like microseconds"):
        t.repository.state(as_of=now_ms() * 1000)
