"""A process that is forked while another thread works on a state map: it has neither that thread nor its locks."""

from __future__ import annotations

import os
import select
import signal
import threading
import traceback
import warnings
from collections.abc import Callable

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import StateMap
from tidemill.state.columns import MapColumns

ROWS = 300_000
KEYS = pa.array(range(ROWS), pa.int64())
FORKS = 12
PATIENCE_S = 30

pytestmark = [
    pytest.mark.slow("hostile input"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork: Linux or macOS"),
]


def map_of_many() -> tm.StateMap:
    states = tm.StateMap("bigint", "bigint")
    states.put_many(KEYS, KEYS, 1)
    return states


def seal(states: tm.StateMap) -> None:
    """Put one key at a time, until the engine seals the keys into a run."""
    for key in range(20_000):
        states.put(key, key, 2)


LONG_CALLS: dict[str, Callable[[tm.StateMap], object]] = {
    "compact": lambda states: states.compact(),
    "put_many": lambda states: states.put_many(KEYS, KEYS, 1),
    "remove_many": lambda states: states.remove_many(pa.array(range(-ROWS, 0), pa.int64())),
    "get_all": lambda states: states.get_all(),
    "put": seal,
}


def use(states: tm.StateMap) -> None:
    """Read and change the map of the parent, and make a new version of it, in a child."""
    assert states.get(7) == 7
    states.put(-1, 5, 3)
    assert states.get(-1) == 5
    assert len(states) == ROWS + 1
    newer = states.copy()
    newer.compact()
    newer.remove(-1)
    assert len(newer) == ROWS


def in_child(work: Callable[[], None]) -> int:
    """Fork a child that does `work`, and return its exit status. The test fails if the child does not end in time."""
    reader, writer = os.pipe()  # the system closes the child's end of the pipe when the child ends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # these tests fork with threads on purpose
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    os.close(writer)
    ended, _, _ = select.select([reader], [], [], PATIENCE_S)
    os.close(reader)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert ended, "the child still waits for a thread that it does not have"
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("call", LONG_CALLS)
def test_a_child_uses_the_map_on_which_another_thread_works(call: str) -> None:
    states, done, begun, ended = map_of_many(), threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        while not done.is_set():
            ended.clear()
            begun.set()
            LONG_CALLS[call](states)
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(FORKS):
            begun.clear()
            assert begun.wait(PATIENCE_S)
            ended.wait(0.003 * number)  # fork at another moment of the call, at the latest when it ends
            assert in_child(lambda: use(states)) == 0
    finally:
        done.set()
        thread.join()


def test_a_child_searches_due_rows_while_another_thread_sorts_them() -> None:
    columns = MapColumns("m", pa.schema([("k", pa.int64())]), pa.schema([]), pa.schema([("v", pa.int64())]))
    batch = pa.record_batch([KEYS], names=["k"]), pa.record_batch([KEYS], names=["v"])
    for number in range(FORKS):
        states = StateMap.open(columns.engine(), [], 0, 2**64 - 1)
        states.put_many(*batch, 1, KEYS)
        twin = states.copy()

        begun, ended = threading.Event(), threading.Event()

        def search(states: StateMap = states, begun: threading.Event = begun, ended: threading.Event = ended) -> None:
            begun.set()
            for _ in range(4):  # the third makes the order
                states.get_due(ROWS // 2)
            ended.set()

        def look(states: StateMap = twin) -> None:
            assert pa.record_batch(states.get_due(10)).num_rows == 11
            assert states.next_deadline() == 0

        thread = threading.Thread(target=search)
        thread.start()
        assert begun.wait(PATIENCE_S)
        ended.wait(0.002 * number)  # fork at another moment of the search, at the latest when it ends
        assert in_child(look) == 0
        thread.join()


def test_writers_take_turns_and_lose_nothing() -> None:
    states = tm.StateMap("bigint", "bigint")
    parts = [pa.array(range(number * 1000, number * 1000 + 1000), pa.int64()) for number in range(40)]

    def work(mine: list[pa.Array]) -> None:
        for part in mine:
            states.put_many(part, part, 1)
            states.compact()

    threads = [threading.Thread(target=work, args=(parts[number::4],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(states) == 40_000
    assert {key: state for key, state, _ in states.get_all()} == {key: key for key in range(40_000)}
