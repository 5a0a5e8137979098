"""`withWatermark(…, idle=)`: a watermark that follows the batch time equals a naive model, for any number of tasks."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill.run.plan import is_due
from tidemill.testing import Tester

SECOND = 1000
DELAYS = {"left": 5 * SECOND, "right": 20 * SECOND}
IDLE = 30 * SECOND


def at(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def pipeline(idle=("left", "right"), delays=DELAYS):
    p = tm.Pipeline("idle")
    sides = [
        p.read(tm.Rows("k string, ts timestamp"), name=name).withWatermark(
            "ts", delays[name], idle=IDLE if name in idle else None
        )
        for name in ("left", "right")
    ]
    both = sides[0].unionByName(sides[1])
    both.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="n")
    return p


class Model:
    """A naive model of watermarks and open windows, row by row."""

    def __init__(self, idle):
        self.idle = idle
        self.watermarks = dict.fromkeys(DELAYS, 0)
        self.active, self.windows = {}, {}

    def batch(self, rows, now):
        bound = min(self.watermarks.values())
        for side in rows.values():
            for _, ms in side:
                if ms is not None and ms - ms % 10_000 + 10_000 > bound:
                    self.windows[ms - ms % 10_000] = self.windows.get(ms - ms % 10_000, 0) + 1
        waiting = []
        for name, delay in DELAYS.items():
            times = [ms for _, ms in rows.get(name, []) if ms is not None]
            if times:
                self.watermarks[name] = max(self.watermarks[name], max(times) - delay)
            if times or name not in self.active:
                self.active[name] = now
            if name in self.idle and not times and now - self.active[name] >= IDLE:
                waiting.append(name)
        awake = [self.watermarks[name] for name in DELAYS if name not in waiting]
        for name in waiting:
            self.watermarks[name] = max([self.watermarks[name], now - DELAYS[name], *awake])
        closed = {start: n for start, n in self.windows.items() if start + 10_000 <= min(self.watermarks.values())}
        self.windows = {start: n for start, n in self.windows.items() if start not in closed}
        return closed


a_side = st.lists(st.tuples(st.just("k"), st.none() | st.integers(0, 200).map(lambda s: s * SECOND)), max_size=3)
batches = st.lists(
    st.tuples(a_side, a_side, st.sampled_from([1, 10, 30, 45]).map(lambda s: s * SECOND), st.integers(1, 3)), max_size=6
)


@settings(max_examples=20, deadline=None)
@given(batches, st.sampled_from([("left",), ("right",), ("left", "right")]))
def test_watermarks_and_windows_are_those_of_a_naive_model(given, idle):
    t, model, now = Tester(pipeline(idle)), Model(idle), 0
    for left, right, later, tasks in given:
        now += later
        t.tasks = tasks
        sides = {"left": left, "right": right}
        timed = {name: [(k, None if ms is None else at(ms)) for k, ms in rows] for name, rows in sides.items()}
        result = t.batch(timed, batch_time_ms=now)
        closed = model.batch(sides, now)
        assert {round(window["start"].timestamp() * 1000): n for window, n in result.outputs} == closed
        assert t.repository.head.watermarks == {f"{name}.ts": ms for name, ms in model.watermarks.items()}
        t.restart()


CHAINS = {
    "windows": lambda rows: rows.groupBy(tm.window("ts", "10 seconds"), "k").agg(n=tm.count(), **FIRST),
    "sessions": lambda rows: rows.groupBy(tm.session_window("ts", "10 seconds"), "k").agg(n=tm.count(), **FIRST),
    "duplicates": lambda rows: rows.dropDuplicatesWithinWatermark(["n"], name="first"),
}
FIRST = {"outputMode": "append", "name": "first"}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("first", "column"), [("windows", "window"), ("sessions", "session_window"), ("duplicates", "ts")]
)
def test_a_row_of_an_idle_union_is_late_for_the_first_operator_or_is_emitted_once(first, column, seed):
    """No row that passes the first operator is late for the second, even if watermarks jump."""
    chance, p = random.Random(f"{first} {seed}"), tm.Pipeline("chained")
    left, right = (
        p.read(tm.Rows("k string, ts timestamp, n int"), name=name).withWatermark("ts", DELAYS[name], idle=IDLE)
        for name in ("left", "right")
    )
    passed = CHAINS[first](left.unionByName(right))
    total = tm.count() if first == "duplicates" else tm.sum("n")
    passed.groupBy(tm.window(column, "30 seconds")).agg(n=total, outputMode="append", name="second")
    t, now, given, late, out = Tester(p), 0, 0, 0, 0
    for number in range(12):
        now, t.tasks = now + chance.choice([1, 10, 30, 45]) * SECOND, chance.randrange(1, 4)
        if number % 4 == 3:
            result = t.sweep(at_ms=now)
        else:
            sides = {}
            for name in [name for name in DELAYS if chance.random() < 0.65]:
                times = [max(0, now + chance.choice([-60, -30, -20, -5, 0, 10]) * SECOND) for _ in range(3)]
                sides[name] = [("k", at(ms), given + place) for place, ms in enumerate(times)]
                given += len(times)
            result = t.batch(sides, batch_time_ms=now)
        late += result.metrics.late_rows if result.metrics else 0
        out += sum(n for _, n in result.outputs)
        t.restart()
    result = t.batch({name: [("end", at(10_000 * SECOND), -len(name))] for name in DELAYS}, batch_time_ms=now)
    out += sum(n for _, n in result.outputs)
    assert late
    assert given == late + out


def one(late="drop"):
    p = tm.Pipeline("one")
    rows = p.read(tm.Rows("ts timestamp")).withWatermark("ts", "5 seconds", late=late, idle="30 seconds")
    rows.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append", name="n")
    return p


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_sweep_closes_open_windows_once_the_source_is_idle(tasks):
    t = Tester(one(), tasks=tasks)
    t.batch([at(100_000)], batch_time_ms=100_000)
    assert t.sweep(at_ms=129_999).outputs == []
    assert t.repository.head.version == 0  # nothing was due, so there was no sweep
    swept = t.sweep(at_ms=130_000)
    assert [n for _, n in swept.outputs] == [1] and swept.watermark == 125_000
    assert t.sweep(at_ms=140_000).metrics is None  # nothing more is due
    late = t.batch([at(114_000), at(141_000)], batch_time_ms=141_000)
    assert (late.metrics.late_rows, late.watermark) == (1, 136_000)


def test_a_session_that_is_due_does_not_wait_for_the_watermark_of_another_stream():
    """Sweeps compare an operator's deadlines with the watermark of its own input, not with the least of all."""
    p = tm.Pipeline("two")
    quiet = p.read(tm.Rows("k string, ts timestamp"), name="quiet").withWatermark("ts", "5 seconds", idle="30 seconds")
    other = p.read(tm.Rows("k string, ts timestamp"), name="other").withWatermark("ts", "5 seconds")
    for name, stream in (("quiet", quiet), ("other", other)):
        stream.groupBy(tm.session_window("ts", "10 seconds"), "k").agg(n=tm.count(), name=name)
    t = Tester(p)
    t.batch({"quiet": [("a", at(100_000))], "other": [("b", at(20_000))]}, batch_time_ms=100_000)
    assert set(t.repository.head.next_deadline) == {"event/quiet", "event/other"}
    swept = t.sweep(at_ms=130_000)
    assert t.repository.outputs(1, "quiet").num_rows == 1 and t.repository.outputs(1, "other").num_rows == 0
    assert swept.metrics is not None and t.sweep(at_ms=200_000).metrics is None


def test_a_record_of_one_deadline_for_all_operators_is_swept_by_the_least_watermark():
    t = Tester(one())
    t.batch([at(100_000)], batch_time_ms=100_000)
    head, job = t.repository.head, t.repository.opened.job
    older = dataclasses.replace(head, next_deadline={"event": head.next_deadline["event/n"]})
    assert not is_due(older, 129_999, job) and is_due(older, 130_000, job)


def test_rows_without_an_event_time_do_not_end_idleness():
    t = Tester(one())
    t.batch([at(10_000)], batch_time_ms=10_000)
    assert t.batch([None], batch_time_ms=40_000).watermark == 35_000


def test_an_idle_duration_must_be_positive():
    with pytest.raises(tm.InvalidInput, match="idle='0 seconds', expected a duration longer than zero"):
        tm.Pipeline("idle").read(tm.Rows("ts timestamp")).withWatermark("ts", "1 second", idle="0 seconds")
