"""Versions of a `tm.StateMap`: chains of copies, their threshold, and what every version shows through files."""

from __future__ import annotations

import math
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.unit.state_maps import numbers, whole


def test_a_chain_twice_the_threshold_is_compacted(tmp_path: Path) -> None:
    states = tm.StateMap("int", "int", delta_chain_threshold=5)
    chance = random.Random(10)
    for _ in range(10):
        states.put(chance.randrange(-(2**31), 2**31), chance.randrange(-(2**31), 2**31), 1)
        states = states.copy()
    # Ten versions were put into: a base and nine over it.
    assert (states.delta_chain_length, states.should_compact) == (9, True)
    states.write_base(tmp_path / "base.parquet")
    read = tm.StateMap.read(tmp_path / "base.parquet", delta_chain_threshold=5)
    assert (read.delta_chain_length, read.should_compact, whole(read)) == (0, False, whole(states))


def test_thousands_of_copies_are_few_runs(tmp_path: Path) -> None:
    states, model = numbers(), dict[int, tuple[int, int]]()
    kept: list[tuple[tm.StateMap, dict[int, tuple[int, int]]]] = []
    for version in range(2_000):
        if version % 5 == 4:
            states.remove(version % 13)
            model.pop(version % 13, None)
        else:
            states.put(version % 300, version, version)
            model[version % 300] = (version, version)
        assert states.delta_chain_length == version
        assert len(states._map.runs()) <= 9  # at most eight, and what was changed since
        if version % 100 == 0:
            kept.append((states, dict(model)))
        states = states.copy()
        assert (states.delta_chain_length, len(states._map.runs()) <= 8) == (version, True)
    assert states.should_compact
    for older, expected in [*kept, (states, model)]:
        assert whole(older) == {(key, *cell) for key, cell in expected.items()}
    states.put(7, -1, 3_000)
    states.write_delta(tmp_path / "delta.parquet")
    assert whole(tm.StateMap.read(tmp_path / "delta.parquet")) == {(7, -1, 3_000)}  # what this version changed alone


def test_the_threshold_is_20_where_none_is_given() -> None:
    states = numbers()
    for version in range(21):
        assert (states.delta_chain_length, states.should_compact) == (max(version - 1, 0), False)
        states.put(version, version, version)
        states = states.copy()
    assert (states.delta_chain_length, states.should_compact) == (20, True)


KEYS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf]))


def same(key: float | None) -> Any:
    return "NaN" if key is not None and math.isnan(key) else key


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "copy", "files", "compact"]), KEYS, st.integers(0, 9))))
def test_versions_stay_true_through_copies_and_files(tmp_path_factory: Any, steps: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("segments")
    states, model, versions = tm.StateMap("double", "n bigint, note string"), {}, []
    for number, (what, key, value) in enumerate(steps):
        if what == "put":
            states.put(key, (value, f"note {value}"), number, deadline_ms=value)
            model[same(key)] = (value, f"note {value}", number, value)
        elif what == "remove":
            states.remove(key)
            model.pop(same(key), None)
        elif what == "compact":
            states.compact()
        else:
            versions.append((states, dict(model)))
            if what == "files":
                states.write_base(folder / "base.parquet")
                states = tm.StateMap.read(folder / "base.parquet")
            else:
                states = states.copy()
    for version, expected in [*versions, (states, model)]:
        assert {same(key): (*state, at) for key, state, at in version.get_all()} == {
            key: cell[:3] for key, cell in expected.items()
        }
        assert len(version) == len(expected)
        due = {same(key): deadline for key, _, _, deadline in version.get_due(4)}
        assert due == {key: cell[3] for key, cell in expected.items() if cell[3] <= 4}


def test_threads_may_share_a_map_also_while_it_is_compacted() -> None:
    shared = tm.StateMap("bigint", "bigint")
    done = threading.Event()

    def compacting() -> None:
        while not done.is_set():
            shared.compact()

    thread = threading.Thread(target=compacting)
    thread.start()
    try:
        for number in range(20_000):
            shared.put(number, number, 1)
        keys = pa.array(range(20_000, 20_100), pa.int64())
        for step in range(50):
            shared.put_many(keys, pa.array([step] * 100, pa.int64()), 2)
            assert shared.get(20_050) == step
    finally:
        done.set()
        thread.join()
    assert len(shared) == 20_100
    assert all(shared.get(number) == number for number in range(20_000))
