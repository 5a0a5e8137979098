"""Settings, and how durations, sizes and times are written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import InvalidInput
from tidemill.settings import Settings, resolve
from tidemill.spelling import nearest
from tidemill.units import (
    MOST_DURATION_MS,
    check_time_zone,
    duration_ms,
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
def test_durations(value: Any, milliseconds: int) -> None:
    assert duration_ms(value) == milliseconds


@pytest.mark.parametrize(
    "value",
    ["", "5", "1 month", "1 year", "-1 day", -1, True, None, 1.5, timedelta(microseconds=1), "0.5 ms", "1 day x"],
)
def test_a_duration_that_is_none_is_refused(value: Any) -> None:
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
def test_intervals_where_spark_wants_a_duration(value: Any, milliseconds: int) -> None:
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
def test_an_interval_that_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid duration"):
        interval_ms(value)


def test_the_longest_duration_is_taken() -> None:
    assert duration_ms(MOST_DURATION_MS) == interval_ms(f"{MOST_DURATION_MS} ms") == MOST_DURATION_MS


@pytest.mark.parametrize("value", ["999999999999999 days", 2**63, MOST_DURATION_MS + 1])
def test_a_duration_that_times_cannot_take_is_refused(value: Any) -> None:
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
def test_sizes(value: Any, size: int) -> None:
    assert size_bytes(value) == size


@pytest.mark.parametrize("value", ["", "1 XB", "x", -1, True, None, 1.5, "0.1 B"])
def test_a_size_that_is_none_is_refused(value: Any) -> None:
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
def test_times(value: Any, milliseconds: int) -> None:
    assert time_ms(value) == milliseconds


def test_a_time_without_offset_is_in_the_zone_given() -> None:
    assert time_ms("2013-01-01", "America/New_York") == time_ms("2013-01-01T05:00:00Z")


@pytest.mark.parametrize("value", ["x", "", None, True, 1.5])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="invalid time"):
        time_ms(value)


def test_time_zones_are_of_the_database() -> None:
    assert check_time_zone("America/New_York") == "America/New_York"
    with pytest.raises(InvalidInput, match="unknown time zone 'America/Gotham'"):
        check_time_zone("America/Gotham")


def test_the_nearest_word() -> None:
    assert nearest("MAXfilespertriger", ["maxFilesPerTrigger", "path"]) == "maxFilesPerTrigger"
    assert nearest("zzz", ["maxFilesPerTrigger", "path"]) is None


def test_defaults_where_nothing_is_said(tmp_path: Path) -> None:
    assert resolve(None, {}, tmp_path) == (Settings(), {})
    assert Settings().block_rows == 131_072


def test_argument_before_environment_before_file_before_default(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(
        "tidemill.block_rows = 1\n[tidemill]\n".replace("[tidemill]\n", "")
        + 'tidemill.split_bytes = "2 MiB"\ntidemill.task_bytes = 3\n'
        + '[spark]\nexecutor.memory = "1g"\n"speculation" = true\n'
    )
    environment = {"TIDEMILL_SPLIT_BYTES": "4 MiB", "TIDEMILL_TASK_BYTES": "5", "TIDEMILL_ROOT": "x", "HOME": "y"}
    settings, spark = resolve({"tidemill.task_bytes": 6, "spark.executor.memory": "2g"}, environment, tmp_path)
    assert settings == Settings(block_rows=1, split_bytes=4 * 1024**2, task_bytes=6)
    assert spark == {"spark.executor.memory": "2g", "spark.speculation": "true"}


def test_the_working_folder_and_the_process_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidemill.toml").write_text("[tidemill]\nblock_rows = 10\n")
    monkeypatch.setenv("TIDEMILL_CACHE_BYTES", "0")
    assert resolve()[0] == Settings(block_rows=10, cache_bytes=0)


@pytest.mark.parametrize(
    ("conf", "environment", "message"),
    [
        ({"tidemill.block_row": 5}, {}, "unknown setting `tidemill.block_row`; did you mean `tidemill.block_rows`?"),
        ({"block_rows": 5}, {}, "unknown setting `block_rows`; did you mean `tidemill.block_rows`?"),
        ({"nonsense": 5}, {}, "known: spark.…, tidemill.block_rows, "),
        ({"tidemill.block_rows": 0}, {}, "setting `tidemill.block_rows` is 0, expected at least 1"),
        ({"tidemill.block_rows": "many"}, {}, "setting `tidemill.block_rows` is 'many': expected a number of rows"),
        ({"tidemill.split_bytes": None}, {}, "expected a size such as `64 MiB`"),
        ({}, {"TIDEMILL_BLOCK_ROW": "5"}, "did you mean `TIDEMILL_BLOCK_ROWS`?"),
    ],
)
def test_a_setting_that_is_not_meant_is_refused(
    tmp_path: Path, conf: dict[str, Any], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(conf, environment, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("task_byte = 1", "unknown setting `tidemill.task_byte` in `{}`; did you mean `tidemill.task_bytes`?"),
        ('task_bytes = "lots"', "setting `tidemill.task_bytes` in `{}` is 'lots': expected a size"),
        ("block_rows = 0", "setting `tidemill.block_rows` in `{}` is 0, expected at least 1"),
        ("disk_cache_folder = 5", "setting `tidemill.disk_cache_folder` in `{}` is 5: expected a path"),
    ],
)
def test_a_setting_of_the_file_that_is_refused_is_told_with_the_file(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "tidemill.toml"
    file.write_text(f"[tidemill]\n{line}\n")
    with pytest.raises(InvalidInput) as caught:
        resolve(None, {}, tmp_path)
    assert message.format(file.resolve()) in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "TIDEMILL_CHUNK_BYTES",
            "lots",
            "setting `tidemill.chunk_bytes` in the environment is 'lots': expected a size",
        ),
        (
            "TIDEMILL_BLOCK_ROWS",
            "²",
            "setting `tidemill.block_rows` in the environment is '²': expected a number of rows",
        ),
        (
            "TIDEMILL_BLOCK_ROWS",
            "9" * 5000,
            "setting `tidemill.block_rows` in the environment is '9999",
        ),
        ("TIDEMILL_BLOCK_ROWS", "0", "setting `tidemill.block_rows` in the environment is 0, expected at least 1"),
        ("TIDEMILL_BLOK_ROWS", "5", "unknown setting `TIDEMILL_BLOK_ROWS` in the environment; did you mean"),
    ],
)
def test_a_setting_of_the_environment_that_is_refused_is_told_with_it(
    tmp_path: Path, variable: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(None, {variable: value}, tmp_path)
    assert str(caught.value).startswith(message)


def test_settings_are_checked_however_they_are_made() -> None:
    with pytest.raises(InvalidInput, match="setting `tidemill.split_bytes` is 0, expected at least 1"):
        Settings(split_bytes=0)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("block_rows: 5\n")
    with pytest.raises(InvalidInput, match=r"read settings from `.*tidemill\.toml`"):
        resolve(None, {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7), (" 12 ", 12), ("-5", -5), ("007", 7), ("--5", None), ("²", None), ("٣", None), ("1.0", None),
        ("", None), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None), (7, None), (None, None),
    ],
)  # fmt: skip
def test_a_whole_number_is_read_where_it_is_one(text: Any, number: int | None) -> None:
    assert whole_number(text) == number
