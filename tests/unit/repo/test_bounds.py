"""Which batch times are out of bounds, and which clocks are compared."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.clock import now_ms
from tidemill.repo.bounds import check_batch_time, check_clock

DAY = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda now: -1, "is -1 ms, which is before 1970"),
        (lambda now: now // 1000, "looks like seconds"),
        (lambda now: now * 1000, "looks like microseconds"),
        (lambda now: now * 1_000_000, "looks like nanoseconds"),
        (lambda now: now + 2 * DAY, "but the clock says"),
        (lambda now: 10**20, "is 100000000000000000000 ms, expected a time before the year 10000"),
        (lambda now: True, "expected ms since the epoch as an int"),
        (lambda now: 1.5, "expected ms since the epoch as an int"),
    ],
)
def test_a_batch_time_out_of_bounds_is_refused(given, message) -> None:
    with pytest.raises(tm.InvalidInput, match=message):
        check_batch_time(given(now_ms()), "batch_time", DAY)


def test_a_batch_time_within_bounds_is_taken_as_it_is() -> None:
    for value in (0, 1_000, 10**9, now_ms(), now_ms() + DAY // 2):
        assert check_batch_time(value, "batch_time", DAY) == value
    assert check_batch_time(now_ms() + 100 * DAY, "batch_time", 200 * DAY)


def test_a_store_without_a_clock_is_not_compared() -> None:
    class Store:
        uri = "memory://x"

        def clock_ms(self) -> None:
            return None

    check_clock(Store())  # type: ignore[arg-type]
