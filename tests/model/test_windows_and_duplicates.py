"""Windows and deduplication equal plain loops, for any stream and any number of tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import examples
from tidemill.testing import Tester

pytestmark = pytest.mark.slow("long random runs")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DELAY = 3
Row = tuple[str | None, datetime | None, int]
Batches = list[list[Row]]

seconds = st.integers(-5, 60)
rows = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | seconds.map(lambda s: EPOCH + timedelta(seconds=s)),
    st.integers(0, 9),
)
streams = st.lists(st.lists(rows, max_size=8), min_size=1, max_size=6)
windows = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(-8, 8)).filter(
    lambda w: w[1] <= w[0] and abs(w[2]) < w[1]
)


def second(moment: datetime) -> int:
    return int((moment - EPOCH).total_seconds())


def next_watermark(watermark: int, batch: list[Row]) -> int:
    return max([watermark, *(second(ts) - DELAY for _, ts, _ in batch if ts is not None)])


def windowed(batches: Batches, size: int, slide: int, start: int, mode: str) -> list[tuple[list[Any], int]]:
    """Return (start, key, count, sum) of each batch, sorted, and the number of windows that are open after it."""
    state: dict[tuple[int, str | None], tuple[int, int]] = {}
    watermark, found = 0, []
    for batch in batches:
        touched, out = set(), []
        for key, ts, n in batch:
            for first in range(-200, 200):
                begin = start + first * slide
                if ts is not None and begin <= second(ts) < begin + size and begin + size > watermark:
                    count, total = state.get((begin, key), (0, 0))
                    state[begin, key] = (count + 1, total + n)
                    touched.add((begin, key))
        if mode == "update":
            out += [(begin, key, *state[begin, key]) for begin, key in touched]
        watermark = next_watermark(watermark, batch)
        for begin, key in [one for one in state if one[0] + size <= watermark]:
            values = state.pop((begin, key))
            if mode == "append":
                out.append((begin, key, *values))
        found.append((sorted(out, key=repr), len(state)))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(streams, windows, st.sampled_from(["append", "update"]), st.integers(1, 3))
def test_windows_equal_those_of_a_plain_loop(
    batches: Batches, shape: tuple[int, int, int], mode: str, tasks: int
) -> None:
    size, slide, start = shape
    p = tm.Pipeline("model")
    stream = p.read(tm.Rows("k string, ts timestamp, n int")).withWatermark("ts", f"{DELAY} seconds")
    window = tm.window("ts", f"{size} seconds", f"{slide} seconds", timedelta(seconds=start))
    stream.groupBy(window, "k").agg(rows=tm.count(), total=tm.sum("n"), outputMode=mode)
    tester = Tester(p, tasks=tasks)
    for batch, (expected, held) in zip(batches, windowed(batches, size, slide, start, mode), strict=True):
        result = tester.batch(batch)
        assert tester.repository.state().num_rows == held
        found = [(second(w["start"]), k, count, total) for w, k, count, total in result.outputs]
        assert all(w["end"] - w["start"] == timedelta(seconds=size) for w, *_ in result.outputs)
        assert sorted(found, key=repr) == expected
        assert result.metrics is None or result.metrics.applied_rows + result.metrics.late_rows == len(batch)
        tester.restart()


def deduplicated(batches: Batches, kind: str) -> list[tuple[list[Row], int]]:
    """Return the rows that pass in each batch, sorted, and the number of known keys after it."""
    known: dict[Any, float] = {}
    watermark, found = 0, []
    for batch in batches:
        out = []
        for row in batch:
            key, ts, _ = row
            if ts is not None and second(ts) <= watermark:
                continue
            name = (key, ts) if kind == "time" else key
            if name not in known:
                out.append(row)
                at = 0 if ts is None else second(ts)
                known[name] = {
                    "key": float("inf"),
                    "time": float("inf") if ts is None else at,
                    "within": at + DELAY,
                }[kind]
        for _ in range(2):
            known = {name: until for name, until in known.items() if until > watermark}
            watermark = next_watermark(watermark, batch)
        known = {name: until for name, until in known.items() if until > watermark}
        found.append((sorted(out, key=repr), len(known)))
    return found


@pytest.mark.parametrize("kind", ["key", "time", "within"])
@settings(max_examples=examples(40), deadline=None)
@given(batches=streams, tasks=st.integers(1, 3))
def test_the_first_row_of_a_key_passes_as_in_a_plain_loop(kind: str, batches: Batches, tasks: int) -> None:
    p = tm.Pipeline("model")
    stream = p.read(tm.Rows("k string, ts timestamp, n int")).withWatermark("ts", f"{DELAY} seconds")
    if kind == "within":
        stream.dropDuplicatesWithinWatermark(["k"])
    else:
        stream.dropDuplicates(["k"] if kind == "key" else ["k", "ts"])
    tester = Tester(p, tasks=tasks)
    for batch, (expected, held) in zip(batches, deduplicated(batches, kind), strict=True):
        assert sorted(tester.batch(batch).outputs, key=repr) == [
            (k, None if ts is None else ts, n) for k, ts, n in expected
        ]
        assert tester.repository.state().num_rows == held
        tester.restart()
