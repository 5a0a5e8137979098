"""Iteration makes the rows of a state map part by part, as they are consumed, from the version that was iterated."""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill._native import StateMap as EngineMap
from tidemill._native import key_hashes
from tidemill.errors import InvalidInput
from tidemill.standalone.iterating import PART_ROWS, rows_in_parts

KEYS = 8 * PART_ROWS
READS: dict[str, Callable[[tm.StateMap], Iterator[Any]]] = {
    "get_all": lambda states: states.get_all(),
    "get_by_time": lambda states: states.get_by_time(KEYS // 2),
    "get_due": lambda states: states.get_due(KEYS // 2),
}


def filled(keys: int = KEYS) -> tm.StateMap:
    """Return a map with `keys` keys in two runs. Each key has its own update time and deadline."""
    states = tm.StateMap("bigint", "n bigint, words string")
    for half in (range(0, keys, 2), range(1, keys, 2)):
        rows = pa.table({"n": list(half), "words": [f"about {key}" for key in half]})
        for key in half[:3]:
            states.put(key, (-1, "earlier"), 0)
        states.put_many(pa.array(half), rows, 1, pa.array(half))
        states = states.copy()
    return states


def change_all(states: tm.StateMap) -> None:
    states.remove_many(pa.array(range(0, KEYS, 3)))
    states.put(-1, (1, "new"), 0, deadline_ms=0)
    states.put_many(pa.array([1, 2]), pa.table({"n": [0, 0], "words": ["x", "y"]}), 0, pa.array([0, 0]))
    states.compact()


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("after", [0, 1, PART_ROWS + 1], ids=str)
def test_changes_during_iteration_do_not_show(name: str, after: int) -> None:
    states = filled()
    expected = list(READS[name](states))
    assert len(expected) > 3 * PART_ROWS
    rows = READS[name](states)
    found = [next(rows) for _ in range(after)]
    change_all(states)
    assert list(READS[name](states)) != expected
    found.extend(rows)
    assert found == expected


def test_the_iterator_of_a_store_shows_only_earlier_changes() -> None:
    store = tm.StateStore("memory://iterating", "counts", 0, key="bigint", state="bigint").get(0)
    for key in range(3 * PART_ROWS):
        store.put(key, key)
    rows = store.iterator()
    store.put(0, -1)
    first = next(rows)
    store.remove(1)
    store.put(-1, 1)
    store.commit()
    assert sorted([first, *rows]) == [(key, key) for key in range(3 * PART_ROWS)]
    again = tm.StateStore("memory://iterating", "counts", 0, key="bigint", state="bigint").get(1)
    rows, first = again.iterator(), next(again.iterator())
    again.put(*first)
    again.remove(2)
    again.abort()
    assert len(list(rows)) == 3 * PART_ROWS


def test_a_part_is_read_only_when_its_first_row_is_consumed() -> None:
    states, read = filled(), list[int]()

    def scan(part: EngineMap) -> pa.RecordBatch:
        rows = part.scan()
        read.append(rows.num_rows)
        return rows

    rows = rows_in_parts(states._codec, states._map, scan)
    assert read == []
    for taken in range(1, KEYS + 1):
        next(rows)
        assert taken <= sum(read) < taken + read[-1]
    assert next(rows, None) is None
    assert (sum(read), len(read)) == (KEYS, 8)
    assert max(read) < 2 * PART_ROWS


@pytest.mark.parametrize("name", READS)
def test_iteration_takes_the_memory_of_one_part(name: str) -> None:
    states = filled()
    read = READS[name]
    list(read(states))
    tracemalloc.start()
    try:
        rows = read(states)
        assert tracemalloc.get_traced_memory()[1] < 100_000  # nothing is made yet
        for _ in rows:
            pass
        bounded = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        every = list(read(states))
        whole = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bounded < whole * 2 * PART_ROWS / len(every)


def test_an_iterator_may_be_abandoned_at_any_row() -> None:
    states = filled()
    tracemalloc.start()
    try:
        for taken in (0, 1, PART_ROWS, PART_ROWS + 1, 7 * PART_ROWS) * 2:
            rows = states.get_all()
            for _ in range(taken):
                next(rows)
            del rows
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 500_000  # less than one part takes
    states.put(-1, (1, "still"), 0)
    assert (len(states), sum(1 for _ in states.get_all())) == (KEYS + 1, KEYS + 1)


def test_other_threads_run_between_two_parts() -> None:
    """With a long switch interval, another thread runs only when the iterator releases the GIL: once between parts."""
    states, before = filled(), sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        assert any(turns_during(states) > 3 for _ in range(50))
    finally:
        sys.setswitchinterval(before)


def turns_during(states: tm.StateMap) -> int:
    """Return how many different row counts another thread saw during the iteration, except zero and all."""
    seen, taken, ended = set[int](), 0, threading.Event()

    def look() -> None:
        while not ended.is_set():
            seen.add(taken)
            time.sleep(0)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in states.get_all():
        taken += 1
    ended.set()
    thread.join()
    return len(seen - {0, taken})


@settings(deadline=None, max_examples=40)
@given(count=st.integers(1, 100), changed=st.sets(st.integers(-3, 70), max_size=30))
def test_the_parts_of_a_map_are_the_map(count: int, changed: set[int]) -> None:
    states = filled(60) if count < 10 else filled(5)
    states.remove_many(pa.array(sorted(changed), pa.int64()))
    engine = states._map
    parts = [engine.part(number, count).scan() for number in range(count)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([engine.scan()]).combine_chunks()


def test_a_map_has_at_most_as_many_parts_as_hashes() -> None:
    states = tm.StateMap("bigint", "bigint")
    for version in range(3):
        states.put(1, version, 0)
        states = states.copy()
    runs, (of_one,) = states._map.runs(), key_hashes(pa.record_batch([pa.array([1])], names=["key"])).to_pylist()
    narrow = EngineMap.open(states._schema, runs, of_one, of_one)
    assert (len(runs), states._map.count_parts(1), narrow.count_parts(1)) == (3, 3, 1)
    assert narrow.part(0, 1).scan().num_rows == 1
    with pytest.raises(InvalidInput, match="a state map has no part 0 of 9"):
        narrow.part(0, 9)  # in which there is no hash


@pytest.mark.parametrize(("number", "count"), [(1, 1), (0, 0), (2**64 - 1, 3)])
def test_a_part_out_of_range_is_an_error(number: int, count: int) -> None:
    with pytest.raises(InvalidInput, match=f"a state map has no part {number} of {count}"):
        filled(10)._map.part(number, count)
