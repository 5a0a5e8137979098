"""Long calls of the engine let other Python threads run: the GIL is given up while rows are worked on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from tidemill._native import MapSchema, Run, StateMap, key_hashes, key_order, partition, time_bounds_ms

NOTHING = pa.schema([])
SCHEMA = MapSchema("m", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("v", pa.int64())]))
ROWS = 100_000
KEYS = pa.record_batch([pa.array(range(ROWS), pa.int64())], names=["k"])
VALUES = pa.record_batch([pa.array(range(ROWS), pa.int64())], names=["v"])


def filled() -> StateMap:
    states = StateMap.open(SCHEMA, [], 0, 2**64 - 1)
    states.put_many(KEYS, VALUES, 1, pa.array(range(ROWS), pa.int64()))
    return states


STATES = filled()
RUN = STATES.base()
SEGMENT = RUN.write()
TIMES = pa.array(range(ROWS), pa.timestamp("us"))
UNTOUCHED = iter([Run.read(SCHEMA, SEGMENT, "s") for _ in range(20)])
"""Runs whose order of deadlines nobody has asked for: it is made once."""
CALLS: dict[str, Callable[[], object]] = {
    "put_many": lambda: filled().put_many(KEYS, VALUES, 2),
    "remove_many": lambda: filled().remove_many(KEYS),
    "get_many": lambda: STATES.get_many(KEYS),
    "get_due": lambda: STATES.get_due(ROWS),
    "scan": STATES.scan,
    "updated_before": lambda: STATES.updated_before(2),
    "base": lambda: StateMap.open(SCHEMA, [RUN, RUN], 0, 2**64 - 1).base(),
    "compact": lambda: StateMap.open(SCHEMA, [RUN, RUN], 0, 2**64 - 1).compact(),
    "len": lambda: len(StateMap.open(SCHEMA, [RUN, RUN], 0, 2**64 - 1)),
    "live_change": filled().live_change,
    "next_version": filled().next_version,
    "delta": filled().delta,
    "next_deadline": lambda: StateMap.open(SCHEMA, [next(UNTOUCHED, RUN)], 0, 2**64 - 1).next_deadline(),
    "first_due": lambda: next(UNTOUCHED, RUN).first_due,
    "write": RUN.write,
    "read": lambda: Run.read(SCHEMA, SEGMENT, "s"),
    "merge": lambda: Run.merge([RUN, RUN], 0, 2**64 - 1, "nothing", 2**31 - 1),
    "key_hashes": lambda: key_hashes(KEYS),
    "key_order": lambda: key_order(KEYS),
    "partition": lambda: partition(KEYS, ["k"], [2**63, 2**64 - 1]),
    "time_bounds_ms": lambda: time_bounds_ms(TIMES),
}


@pytest.fixture(autouse=True)
def threads_take_turns_only_where_one_waits() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(before)


def another_thread_runs_during(call: Callable[[], object]) -> bool:
    started, ended = threading.Event(), threading.Event()

    def work() -> None:
        started.set()  # from here on only the call itself lets the other thread go on
        call()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    meanwhile = not ended.is_set()
    thread.join()
    return meanwhile


@pytest.mark.parametrize("name", CALLS)
def test_another_thread_runs_during(name: str) -> None:
    assert any(another_thread_runs_during(CALLS[name]) for _ in range(100))


def test_no_other_thread_runs_during_a_call_that_keeps_the_gil() -> None:
    assert not any(another_thread_runs_during(lambda: sum(range(ROWS))) for _ in range(20))
