"""Long calls of the engine let other Python threads run: the GIL is released while rows are processed and copied."""

from __future__ import annotations

import faulthandler
import hashlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

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


def kept(run: Run) -> None:
    with Path(os.devnull).open("wb") as file:
        run.keep(file.fileno(), "k")


STATES = filled()
RUN = STATES.base()
SEGMENT = RUN.write()
TIMES = pa.array(range(ROWS), pa.timestamp("us"))
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
    "part": lambda: STATES.part(3, 8),
    "keep": lambda: kept(RUN),
    "write": RUN.write,
    "read": lambda: Run.read(SCHEMA, SEGMENT, "s"),
    "merge": lambda: Run.merge([RUN, RUN], 0, 2**64 - 1, "nothing", 2**31 - 1),
    "key_hashes": lambda: key_hashes(KEYS),
    "key_order": lambda: key_order(KEYS),
    "partition": lambda: partition(KEYS, ["k"], [2**63, 2**64 - 1]),
    "time_bounds_ms": lambda: time_bounds_ms(TIMES),
}
CALLS_ON_A_NEW_RUN: dict[str, Callable[[Run], object]] = {
    "next_deadline": lambda run: StateMap.open(SCHEMA, [run], 0, 2**64 - 1).next_deadline(),
    "first_due": lambda run: run.first_due,
}
"""The engine computes the order of deadlines of a run once."""
GIVE_UP_S = 120
"""On a busy machine the other thread may not get a CPU during a call, but not each time for so long."""


@pytest.fixture(autouse=True)
def threads_switch_only_if_one_waits() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(before)


def another_thread_runs_during(call: Callable[[], object]) -> bool:
    started, ended = threading.Event(), threading.Event()

    def work() -> None:
        started.set()  # from here on the other thread runs only while the call releases the GIL
        call()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    ran = not ended.is_set()
    thread.join()
    return ran


def once_within(seconds: float, happens: Callable[[], bool]) -> bool:
    """Whether something happens in one of the tries of so many seconds."""
    give_up = time.monotonic() + seconds
    while not (happened := happens()) and time.monotonic() < give_up:
        pass
    return happened


@pytest.mark.parametrize("name", [*CALLS, *CALLS_ON_A_NEW_RUN])
def test_another_thread_runs_during(name: str) -> None:
    def runs() -> bool:
        if name in CALLS:
            return another_thread_runs_during(CALLS[name])
        return another_thread_runs_during(partial(CALLS_ON_A_NEW_RUN[name], Run.read(SCHEMA, SEGMENT, "s")))

    assert once_within(GIVE_UP_S, runs)


def test_another_thread_reads_the_file_while_keep_writes_it() -> None:
    reader, writer = os.pipe()
    sizes: list[int] = []

    def read() -> None:
        while data := os.read(reader, 1 << 20):
            sizes.append(len(data))

    thread = threading.Thread(target=read)
    thread.start()
    faulthandler.dump_traceback_later(60, exit=True)  # if `keep` held the GIL, it would wait forever for the reader
    try:
        RUN.keep(writer, "k")
    finally:
        faulthandler.cancel_dump_traceback_later()
        os.close(writer)
        thread.join()
        os.close(reader)
    assert sum(sizes) > 1 << 20  # more than the pipe holds


def test_no_other_thread_runs_during_a_call_that_keeps_the_gil() -> None:
    assert not once_within(1, lambda: another_thread_runs_during(lambda: sum(range(ROWS))))


BYTES = pa.array([hashlib.shake_128(str(row).encode()).digest(1 << 13) for row in range(1 << 12)], pa.binary())
"""32 MB that cannot be compressed."""
BLOBS = MapSchema("b", pa.schema([("k", pa.int64())]), NOTHING, pa.schema([("v", pa.binary())]))
BLOB_KEYS = KEYS.slice(0, len(BYTES))
MANY_KEYS = pa.record_batch([pa.Array.from_buffers(pa.int64(), 1 << 22, [None, pa.py_buffer(bytes(1 << 25))])], ["k"])
FEW = 0.2
"""The share of its own CPU time for which a call may block others: less than one copy of its result takes."""


@pytest.fixture(scope="module")
def long_calls() -> dict[str, Callable[[], object]]:
    """Calls that work on some ten megabytes."""
    states = StateMap.open(BLOBS, [], 0, 2**64 - 1)
    states.put_many(BLOB_KEYS, pa.record_batch([BYTES], names=["v"]), 1)
    run = states.base()
    segment = run.write()

    def twice() -> StateMap:
        return StateMap.open(BLOBS, [run, run], 0, 2**64 - 1)

    return {
        "write": run.write,
        "read": lambda: Run.read(BLOBS, segment, "s"),
        "merge": lambda: Run.merge([run, run], 0, 2**64 - 1, "nothing", 2**31 - 1),
        "keep": lambda: kept(run),
        "scan": states.scan,
        "get_many": lambda: states.get_many(BLOB_KEYS),
        "put_many": lambda: states.copy().put_many(BLOB_KEYS, pa.record_batch([BYTES], names=["v"]), 2),
        "compact": lambda: twice().compact(),
        "base": lambda: twice().base(),
        "key_hashes": lambda: key_hashes(MANY_KEYS),
    }


def longest_wait(call: Callable[[], object]) -> float:
    """Return the longest time between two steps of another thread, as a share of the CPU time of the call.

    No event of Python can be set inside the call, so the other thread reads the clock of the calling thread.
    """
    started, ended, over = threading.Event(), threading.Event(), threading.Event()
    times: list[float] = []

    def work() -> None:
        times.append(time.thread_time())
        started.set()
        result = call()
        times.append(time.thread_time())
        ended.set()
        over.wait()  # the clock ends with the thread
        del result

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    steps: list[float] = []
    while not ended.is_set():
        steps.append(time.clock_gettime(clock))
        time.sleep(0.0002)
    over.set()
    thread.join()
    start, end = times
    marks = [start, *(step for step in steps if start < step < end), end]
    return max(after - before for before, after in itertools.pairwise(marks)) / (end - start)


@pytest.mark.slow("measure times")
@pytest.mark.parametrize(
    "name",
    [
        "write",
        "read",
        "merge",
        "keep",
        "scan",
        "get_many",
        "put_many",
        "compact",
        "base",
        "key_hashes",
    ],
)
def test_other_threads_never_wait_long_during(name: str, long_calls: dict[str, Callable[[], object]]) -> None:
    assert once_within(GIVE_UP_S, lambda: longest_wait(long_calls[name]) < FEW)


@pytest.mark.slow("measure times")
def test_other_threads_wait_during_a_call_that_keeps_the_gil_for_part_of_it() -> None:
    def call() -> None:
        hashlib.blake2b(MANY_KEYS.column(0).buffers()[1]).digest()
        sum(range(200 * ROWS))
        hashlib.blake2b(MANY_KEYS.column(0).buffers()[1]).digest()

    assert all(longest_wait(call) > FEW for _ in range(5))
