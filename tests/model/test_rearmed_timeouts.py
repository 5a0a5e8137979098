"""Timeouts of keys that are refreshed before they fire, compared with a naive loop.

A commit records the first deadline of each segment. It moves past all rows that newer segments hide, and never back.
"""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import EXHAUSTIVE
from tidemill._native import key_hashes
from tidemill.protocol.records import HASH_END, Commit, Segment
from tidemill.protocol.tiling import DuePlace, due_from
from tidemill.state.versions import open_map
from tidemill.testing import Tester

pytestmark = pytest.mark.slow("long random runs")

KEYS = [f"key {number}" for number in range(12)]
TIMEOUT = 10_000


def seen(batch_time, key, one, state):
    if state.isTimingOut:
        return (key, True)
    state.update(one)
    return (key, False)


def pipeline(timeout=TIMEOUT):
    p = tm.Pipeline("seen")
    spec = tm.StateSpec.function(seen).timeout(f"{timeout} milliseconds")
    given = p.read(tm.Rows("k string, one int"))
    given.groupBy("k").mapWithState(
        spec, stateSchema="int", outputSchema="k string, out boolean", value="one", name="seen"
    )
    return p


def hashes(keys):
    return dict(zip(keys, key_hashes(pa.record_batch({"k": keys})).to_pylist(), strict=True))


def live(commit: Commit) -> list[Segment]:
    return commit.state["seen"]["state"]


def first_counted(tester: Tester, commit: Commit) -> list[tuple[Segment, DuePlace | None, int]]:
    """Find the first row of each segment that has a deadline and that no newer row hides, by its rows alone.

    Return its place, or None, and the number of rows before it.
    """
    repo, columns = tester.repository.opened, tester.repository.opened.job.operators["seen"].operator.maps[0]
    hidden: set[str] = set()
    found = []
    for segment in sorted(live(commit), key=lambda s: -s.version):
        whole = [dataclasses.replace(segment, min_deadline_ms=-(2**63), min_deadline_hash=0)]
        [one] = open_map(repo.store, repo.cache, columns.engine(), whole, 0, HASH_END).shown
        rows = one.run.rows().select(["k", "deadline"]).to_pylist()
        at = hashes([row["k"] for row in rows]) if rows else {}
        places = {
            row["k"]: (round(row["deadline"].timestamp() * 1000), at[row["k"]]) for row in rows if row["deadline"]
        }
        first = min((place for key, place in places.items() if key not in hidden), default=None)
        before = sum(first is None or place < first for place in places.values())
        found.append((segment, first, before))
        hidden.update(row["k"] for row in rows)
    return found


def check(tester: Tester, expected: int | None) -> None:
    head = tester.repository.head
    assert head.next_deadline.get("batch") == expected
    for segment, first, _ in first_counted(tester, head):
        assert first is None or due_from(segment) <= first  # a bound, so that nothing is lost
        if expected is None:
            assert segment.min_deadline_ms is None
        elif first is None or first[0] > expected:
            assert due_from(segment)[0] >= expected  # hidden rows with earlier deadlines are skipped


def check_onward(before: Commit, after: Commit) -> None:
    """Check that the deadlines of each kept segment begin no earlier than before, for each hash."""
    for old in live(before):
        for new in live(after):
            if old.name == new.name and old.lo <= new.hi and new.lo <= old.hi:
                assert due_from(new) >= due_from(old)


steps = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KEYS), max_size=8, unique=True),
        st.sampled_from([0, 1, 1500, 4000, TIMEOUT, TIMEOUT + 1]),
        st.sampled_from([1, 2, 3, 5, 8]),
        st.booleans(),
    ),
    max_size=14,
)


@settings(max_examples=200 if EXHAUSTIVE else 20)
@given(steps)
def test_the_fired_timeouts_are_those_of_a_naive_loop(given):
    tester, model, now = Tester(pipeline()), {}, 0
    tester.batch([(key, 1) for key in KEYS], batch_time_ms=0)
    model.update(dict.fromkeys(KEYS, 0))
    for keys, later, tasks, sweeps in given:
        now += later
        tester.tasks = tasks
        before = tester.repository.head
        result = tester.sweep(at_ms=now) if sweeps else tester.batch([(key, 1) for key in keys], batch_time_ms=now)
        model.update({} if sweeps else dict.fromkeys(keys, now))
        out = {key for key, at in model.items() if now > at + TIMEOUT}
        model = {key: at for key, at in model.items() if key not in out}
        assert {key for key, timed_out in result.outputs if timed_out} == out
        assert set(result.state) == set(model)
        check(tester, min(model.values()) + TIMEOUT + 1 if model else None)
        check_onward(before, tester.repository.head)
        tester.restart()


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_base_whose_keys_all_have_later_deadlines_is_not_searched_again(tasks):
    """All keys have the same deadline. One key is never refreshed, so only its range keeps the first segment."""
    keys = [f"key {number}" for number in range(3000)]
    at = hashes(keys)
    idle = keys[7]
    tester = Tester(pipeline(), tasks=tasks)
    tester.batch([(key, 1) for key in keys], batch_time_ms=0)
    bases = {segment.name: segment.size for segment in live(tester.repository.head)}
    assert {due_from(one)[0] for one in live(tester.repository.head)} == {TIMEOUT + 1}
    for number in range(3):
        refreshed = [key for place, key in enumerate(keys) if place % 3 == number and key != idle]
        tester.batch([(key, 1) for key in refreshed], batch_time_ms=1000 + number)
    [kept] = [segment for segment in live(tester.repository.head) if segment.name in bases]
    assert kept.lo <= at[idle] <= kept.hi and due_from(kept) == (TIMEOUT + 1, at[idle])
    head = tester.repository.head
    assert tester.sweep(at_ms=TIMEOUT).metrics is None  # nothing is due, so nothing is committed
    assert tester.repository.head == head
    assert tester.sweep(at_ms=TIMEOUT + 1).outputs == [(idle, True)]
    assert not [segment for segment in live(tester.repository.head) if segment.name in bases]
    assert tester.repository.head.next_deadline == {"batch": 1000 + TIMEOUT + 1}


def test_ranges_of_an_object_keep_their_deadlines_when_fewer_tasks_read_them():
    """Four tasks and one task read a base in turns. Its parts have different first deadlines, are opened as one run,
    and are separated again."""
    keys = [f"key {number}" for number in range(3000)]
    idle = keys[7:2000:100]  # some in each quarter
    tester = Tester(pipeline(), tasks=1)
    tester.batch([(key, 1) for key in keys], batch_time_ms=0)
    [base] = live(tester.repository.head)
    tester.tasks = 4
    tester.batch([(key, 1) for key in keys if key not in idle and key.endswith("3")], batch_time_ms=1000)
    tester.batch([(key, 1) for key in keys if key not in idle], batch_time_ms=1001)
    parts = [segment for segment in live(tester.repository.head) if segment.name == base.name]
    assert len(parts) == len({due_from(part) for part in parts}) == 4
    assert {due_from(part)[0] for part in parts} == {TIMEOUT + 1}
    tester.tasks = 1
    tester.batch([(keys[3], 1)], batch_time_ms=1002)
    assert [segment for segment in live(tester.repository.head) if segment.name == base.name] == parts
    assert {key for key, _ in tester.sweep(at_ms=TIMEOUT + 1).outputs} == set(idle)
    assert not [segment for segment in live(tester.repository.head) if segment.name == base.name]


def test_an_older_commit_with_lower_deadline_bounds_is_read_the_same():
    """A bound that is lower than necessary costs only a search, and the next batch raises it."""
    tester = Tester(pipeline(), tasks=1)
    tester.batch([(key, 1) for key in KEYS], batch_time_ms=0)
    tester.batch([(key, 1) for key in KEYS[1:]], batch_time_ms=5000)
    head = tester.repository.head
    repo, columns = tester.repository.opened, tester.repository.opened.job.operators["seen"].operator.maps[0]
    for lowered in (TIMEOUT + 1, -(2**63)):
        older = [dataclasses.replace(s, min_deadline_ms=lowered, min_deadline_hash=0) for s in live(head)]
        opened = open_map(repo.store, repo.cache, columns.engine(), older, 0, HASH_END)
        assert opened.map.next_deadline() == TIMEOUT + 1
        assert opened.map.get_due(TIMEOUT + 1)["k"].to_pylist() == KEYS[:1]
        assert opened.map.due_places() == [due_from(segment) for segment in live(head)]
