"""The watermark, as Spark computes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemill.protocol.time import START_MS, advance

times = st.integers(-(10**15), 10**15)
delays = st.integers(0, 10**12)


def test_a_watermark_begins_at_0() -> None:
    assert START_MS == 0
    assert advance(START_MS, None, 10) == 0
    assert advance(START_MS, 5, 10) == 0
    assert advance(START_MS, -100, 0) == 0


def test_a_watermark_follows_the_greatest_event_time_by_the_delay() -> None:
    assert advance(0, 10_000, 3_000) == 7_000
    assert advance(7_000, 10_001, 3_000) == 7_001
    assert advance(7_000, 9_000, 0) == 9_000


def test_a_watermark_stays_if_a_batch_has_no_events() -> None:
    assert advance(7_000, None, 0) == 7_000


@given(st.lists(st.none() | times, max_size=20), delays)
def test_a_watermark_never_falls_and_depends_only_on_the_greatest_event_time(
    events: list[int | None], delay_ms: int
) -> None:
    watermark = START_MS
    for event in events:
        before, watermark = watermark, advance(watermark, event, delay_ms)
        assert watermark >= before
    seen = [event for event in events if event is not None]
    assert watermark == max([START_MS, *(event - delay_ms for event in seen)])
