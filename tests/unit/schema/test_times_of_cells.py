"""Times in initial states and in rows of tests: text is read as in files, and nothing is guessed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from tidemill.errors import InvalidInput
from tidemill.schema import array_of, to_arrow

BERLIN = ZoneInfo("Europe/Berlin")


def made(kind: str, value: Any) -> Any:
    (field,) = to_arrow(f"v {kind}")
    return array_of([value, None], field, BERLIN, "rows").to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("date", datetime(2024, 2, 29), date(2024, 2, 29)),
        ("date", date(2024, 2, 29), date(2024, 2, 29)),
        ("timestamp_ntz", "2024-01-01 23:59:59.999999999", datetime(2024, 1, 1, 23, 59, 59, 999999)),
        ("timestamp_ntz", datetime(2024, 1, 1), datetime(2024, 1, 1)),
        ("timestamp", "2024-07-01T12:00:00", datetime(2024, 7, 1, 10, tzinfo=UTC)),
        ("timestamp", "2024-07-01T12:00:00+05:00", datetime(2024, 7, 1, 7, tzinfo=UTC)),
        ("timestamp", datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ],
)
def test_a_time_that_is_written_out_is_read(kind: str, value: Any, expected: Any) -> None:
    assert made(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "24-01-05"),
        ("date", "20240105"),
        ("date", "epoch"),
        ("date", datetime(2024, 1, 5, 12)),
        ("timestamp", "2024-W01-1"),
        ("timestamp", "20240105T101112"),
        ("timestamp", "2024-13-01"),
        ("timestamp_ntz", "2024-01-01T00:00:00+01:00"),
        ("timestamp_ntz", datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_that_would_have_to_be_guessed_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"column `v` is {kind}: found "):
        made(kind, value)


def test_text_and_times_mix() -> None:
    (field,) = to_arrow("v timestamp")
    found = array_of(["2024-01-01", datetime(2024, 1, 2), None], field, ZoneInfo("UTC"), "rows")
    assert found.to_pylist() == [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), None]
    assert found.type == pa.timestamp("us", "UTC")
