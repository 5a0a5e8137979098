"""The form of times in progress and status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.units import iso


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_times_are_iso_in_utc_to_the_millisecond(moment: datetime) -> None:
    rounded = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    elapsed = rounded - datetime(1970, 1, 1, tzinfo=UTC)
    time_ms = (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000
    assert datetime.fromisoformat(iso(time_ms)) == rounded


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (1_000_000_000_000_000, "+33658-09-27T01:46:40.000Z"),
        (-62_135_596_800_001, "0000-12-31T23:59:59.999Z"),
        (-(2**62), "-146136543-09-08T08:23:32.096Z"),
    ],
)
def test_years_that_need_a_sign_are_shown_as_java_shows_them(time_ms: int, shown: str) -> None:
    assert iso(time_ms) == shown
