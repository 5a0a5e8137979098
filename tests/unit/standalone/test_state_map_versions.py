"""Versions of a `tm.StateMap`: chains of copies, their threshold, and the content of each version through files."""

from __future__ import annotations

import copy
import math
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.unit.standalone.state_maps import numbers, whole
from tidemill.errors import InvalidInput


def test_a_chain_twice_the_threshold_is_compacted(tmp_path: Path) -> None:
    states = tm.StateMap("int", "int", delta_chain_threshold=5)
    chance = random.Random(10)
    for _ in range(10):
        states.put(chance.randrange(-(2**31), 2**31), chance.randrange(-(2**31), 2**31), 1)
        states = states.copy()
    # Ten versions have a change each: the chain is a base and nine deltas.
    assert (states.delta_chain_length, states.should_compact) == (9, True)
    states.write_base(tmp_path / "base.parquet")
    read = tm.StateMap.read(tmp_path / "base.parquet", delta_chain_threshold=5)
    assert (read.delta_chain_length, read.should_compact, whole(read)) == (0, False, whole(states))


def test_thousands_of_copies_stay_few_runs(tmp_path: Path) -> None:
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


def test_the_default_threshold_is_20() -> None:
    states = numbers()
    for version in range(21):
        assert (states.delta_chain_length, states.should_compact) == (max(version - 1, 0), False)
        states.put(version, version, version)
        states = states.copy()
    assert (states.delta_chain_length, states.should_compact) == (20, True)


KEYS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf]))


def same(key: float | None) -> Any:
    return "NaN" if key is not None and math.isnan(key) else key


WHAT = ["put", "remove", "put_many", "remove_many", "look", "copy", "delta file", "base file", "compact"]
STEP = st.tuples(st.sampled_from(WHAT), st.lists(st.tuples(KEYS, st.integers(0, 9)), min_size=1, max_size=5))


def look(states: tm.StateMap, model: dict[Any, Any], asked: list[Any]) -> None:
    """Compare all reads of a map with the model, which holds (number, note, updated, deadline)."""
    assert {same(key): (*state, at) for key, state, at in states.get_all()} == {
        key: cell[:3] for key, cell in model.items()
    }
    assert len(states) == len(model)
    due = {same(key): deadline for key, _, _, deadline in states.get_due(4)}
    assert due == {key: cell[3] for key, cell in model.items() if cell[3] is not None and cell[3] <= 4}
    for threshold in range(0, 40, 3):
        old = {same(key): at for key, _, at in states.get_by_time(threshold)}
        assert old == {key: cell[2] for key, cell in model.items() if cell[2] < threshold}
    rows = states.get_many(pa.array(asked, pa.float64())).to_pylist()
    for key, row in zip(asked, rows, strict=True):
        cell = model.get(same(key))
        state = states.get(key)
        assert (key in states, None if state is None else tuple(state)) == (cell is not None, cell and cell[:2])
        times = [None if row[name] is None else round(row[name].timestamp() * 1000) for name in TIMES]
        assert (row["n"], row["note"], *times) == (cell or (None,) * 4)


TIMES = ["updated_at", "deadline"]


@settings(deadline=None, max_examples=50)
@given(st.lists(STEP))
def test_versions_keep_their_content_through_copies_and_files(tmp_path_factory: Any, steps: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("segments")
    states = tm.StateMap("double", "n bigint, note string")
    model: dict[Any, Any] = {}
    versions: list[Any] = []
    chain: list[Path] = []  # the files of what this version began as
    for number, (what, rows) in enumerate(steps):
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        file = folder / f"{number}.parquet"
        if what == "put":
            states.put(keys[0], (values[0], f"note {values[0]}"), number, deadline_ms=values[0])
            model[same(keys[0])] = (values[0], f"note {values[0]}", number, values[0])
        elif what == "put_many":
            notes = [f"note {value}" for value in values]
            deadlines = [None if value > 6 else value for value in values]
            given = pa.table({"n": pa.array(values, pa.int64()), "note": notes})
            states.put_many(pa.array(keys, pa.float64()), given, number, deadlines)
            cells = zip(values, notes, deadlines, strict=True)
            model |= {same(key): (n, note, number, due) for key, (n, note, due) in zip(keys, cells, strict=True)}
        elif what == "remove":
            states.remove(keys[0])
            model.pop(same(keys[0]), None)
        elif what == "remove_many":
            states.remove_many(pa.array(keys, pa.float64()))
            for key in keys:
                model.pop(same(key), None)
        elif what == "look":
            look(states, model, keys)
        elif what == "compact":
            states.compact()
        else:
            versions.append((states, dict(model)))
            (states.write_base if what == "base file" else states.write_delta)(file)
            chain = [file] if what == "base file" else [*chain, file]
            states = states.copy() if what == "copy" else tm.StateMap.read(chain)
    for version, expected in [*versions, (states, model)]:
        look(version, expected, [None, 0.0, -0.0, math.nan, 1.5, math.inf])


def test_a_delta_written_after_compaction_has_earlier_changes(tmp_path: Path) -> None:
    base, delta = tmp_path / "base", tmp_path / "delta"
    states = tm.StateMap("string", "bigint")
    states.put("x", 1, 1)
    states.put("gone", 1, 1)
    states.write_base(base)
    states = states.copy()
    states.put("y", 2, 2)
    states.remove("gone")
    states.compact()
    states.put("z", 3, 3)
    assert (states.delta_chain_length, len(states)) == (1, 3)
    states.write_delta(delta)
    assert sorted(tm.StateMap.read([base, delta]).get_all()) == [("x", 1, 1), ("y", 2, 2), ("z", 3, 3)]
    states.copy().write_delta(delta)
    assert sorted(tm.StateMap.read([base, delta]).get_all()) == [("gone", 1, 1), ("x", 1, 1)]


def test_the_copy_module_makes_versions_and_pickling_is_an_error() -> None:
    states = tm.StateMap("string", "bigint")
    states.put("a", 1, 1)
    for copied in (copy.copy(states), copy.deepcopy(states)):
        copied.put("a", 9, 9)
        assert (states.get("a"), copied.get("a")) == (1, 9)
    with pytest.raises(InvalidInput, match=r"cannot be pickled\nhint: write it with write_base"):
        pickle.dumps(states)


def test_threads_may_share_a_map_during_compaction() -> None:
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
