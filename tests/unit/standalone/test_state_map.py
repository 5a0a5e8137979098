"""`tm.StateMap`: the tests of Spark Streaming's StateMapSuite, under their names there."""

from __future__ import annotations

import bisect
import itertools
import random
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.standalone.state_maps import numbers, whole
from tidemill.errors import InvalidInput


def test_empty_state_map() -> None:
    states = tm.StateMap.empty("int", "int")
    with pytest.raises(InvalidInput, match=r"accepts no states\nhint: make a map with StateMap\(key, state\)"):
        states.put(1, 1, 1)
    with pytest.raises(InvalidInput, match="accepts no states"):
        states.put_many(pa.array([1], pa.int32()), pa.array([1], pa.int32()), 1)
    assert states.get(1) is None
    assert list(states.get_by_time(10_000)) == []
    assert list(states.get_all()) == []
    states.remove(1)
    states.remove_many(pa.array([1], pa.int32()))
    assert states.copy() is states
    assert (states.approx_size, states.delta_chain_length, states.should_compact, len(states)) == (0, 0, False, 0)


def test_empty_state_map_serializing_and_deserializing(tmp_path: Path) -> None:
    states = tm.StateMap.empty("string", "name string, born date")
    for write in (states.write_base, states.write_delta):
        write(tmp_path / "empty.parquet")
        read = tm.StateMap.read(tmp_path / "empty.parquet")
        assert (list(read.get_all()), len(read), read.get("a"), read.delta_chain_length) == ([], 0, None, 0)
        read.put("a", ("Ann", date(1815, 12, 10)), 1)  # a file does not say that its map took no states
        assert read.get("a") == tm.Row(name="Ann", born=date(1815, 12, 10))


def test_put_get_get_by_time_get_all_remove() -> None:
    states = numbers()
    states.put(1, 100, 10)
    assert states.get(1) == 100
    assert states.get(2) is None
    assert list(states.get_by_time(11)) == [(1, 100, 10)]
    assert list(states.get_by_time(10)) == []  # strictly before
    assert list(states.get_by_time(9)) == []
    assert whole(states) == {(1, 100, 10)}
    states.put(2, 200, 20)
    assert set(states.get_by_time(21)) == {(1, 100, 10), (2, 200, 20)}
    assert set(states.get_by_time(11)) == {(1, 100, 10)}
    states.remove(1)
    assert states.get(1) is None
    assert whole(states) == {(2, 200, 20)}


def test_put_get_get_by_time_get_all_remove_with_copy() -> None:
    parent = numbers()
    parent.put(1, 100, 1)
    parent.put(2, 200, 2)
    states = parent.copy()
    assert whole(states) == {(1, 100, 1), (2, 200, 2)}
    states.put(3, 300, 3)
    states.put(2, 201, 12)  # renewed
    states.remove(1)
    assert (states.get(1), states.get(2), states.get(3)) == (None, 201, 300)
    assert set(states.get_by_time(10)) == {(3, 300, 3)}
    assert whole(states) == {(2, 201, 12), (3, 300, 3)}
    child = states.copy()
    child.put(1, 101, 21)  # what a copy removed comes back in the next
    child.remove(3)
    assert whole(child) == {(1, 101, 21), (2, 201, 12)}
    assert whole(parent) == {(1, 100, 1), (2, 200, 2)}
    assert whole(states) == {(2, 201, 12), (3, 300, 3)}


def check_files(states: tm.StateMap, before: list[Path], folder: Path) -> tm.StateMap:
    """Check that a base, and the deltas `before` with a new one, read back as the map; return the one from deltas."""
    states.write_base(folder / "base.parquet")
    states.write_delta(folder / f"delta-{len(before)}.parquet")
    before.append(folder / f"delta-{len(before)}.parquet")
    based, chained = tm.StateMap.read(folder / "base.parquet"), tm.StateMap.read(before)
    for read in (based, chained):
        assert whole(read) == whole(states)
        assert {key: read.get(key) for key, _, _ in states.get_all()} == {k: state for k, state, _ in states.get_all()}
        for threshold in range(7):
            assert set(read.get_by_time(threshold)) == set(states.get_by_time(threshold))
    assert (based.delta_chain_length, based.should_compact) == (0, False)
    return chained


def test_serializing_and_deserializing(tmp_path: Path) -> None:
    states, paths = numbers(), list[Path]()
    assert check_files(states, paths, tmp_path).delta_chain_length == 0  # nothing
    states.put(1, 100, 1)
    states.put(2, 200, 2)
    paths.clear()
    assert check_files(states, paths, tmp_path).delta_chain_length == 0  # a base
    states = states.copy()
    assert not states.should_compact
    assert check_files(states, paths, tmp_path).delta_chain_length == 0  # and a copy without changes
    states.put(3, 300, 3)
    states.put(4, 400, 4)
    paths.pop()
    assert check_files(states, paths, tmp_path).delta_chain_length == 1
    states = states.copy()
    assert not states.should_compact
    assert check_files(states, paths, tmp_path).delta_chain_length == 1
    states.put(3, 600, 3)
    states.remove(2)
    paths.pop()
    read = check_files(states, paths, tmp_path)
    assert read.delta_chain_length == states.delta_chain_length == 2
    assert set(read.get_all()) == {(1, 100, 1), (3, 600, 3), (4, 400, 4)}
    read.put(7, 7, 7)  # a map that was read is one like any other
    assert (read.get(7), states.get(7)) == (7, None)


@dataclass
class Account:
    realm: str
    number: int


@dataclass
class Person:
    name: str
    tags: list[str]
    home: dict[str, float] | None


def test_serializing_and_deserializing_with_dataclass_states(tmp_path: Path) -> None:
    nested = tm.StateMap("string", "who struct<name:string,age:int>, seen array<date>")
    nested.put("a", (("Ann", 36), [date(1815, 12, 10), None]), 1)
    nested.put("b", (None, []), 2)
    check_structs(nested, tmp_path)
    people = tm.StateMap(Account, Person)
    people.put(Account("a", 1), Person("Ann", ["x", "y"], {"lat": 0.5}), 1)
    people.put(Account("b", 2), Person("Bob", [], None), 2)
    check_structs(people, tmp_path)
    read = tm.StateMap.read(tmp_path / "base.parquet", Account, Person)
    assert read.get(Account("a", 1)) == tm.Row(name="Ann", tags=["x", "y"], home={"lat": 0.5})


def check_structs(states: tm.StateMap, folder: Path) -> None:
    expected = list(states.get_all())
    for write in (states.write_delta, states.write_base):
        write(folder / "base.parquet")
        read = tm.StateMap.read(folder / "base.parquet")
        assert list(read.get_all()) == expected
        assert [read.get(key) for key, _, _ in expected] == [state for _, state, _ in expected]


def test_serializing_and_deserializing_with_compaction(tmp_path: Path) -> None:
    states = tm.StateMap("int", "int", delta_chain_threshold=3)
    for version in range(4):
        assert not states.should_compact
        states.put(version, version, version)
        states = states.copy()
    assert (states.delta_chain_length, states.should_compact) == (3, True)
    older = states.copy()
    before = whole(states)
    states.compact()
    assert (states.delta_chain_length, states.should_compact, whole(states)) == (0, False, before)
    assert (older.delta_chain_length, whole(older)) == (3, before)
    states.write_base(tmp_path / "base.parquet")
    assert whole(tm.StateMap.read(tmp_path / "base.parquet")) == before


SETS, IN_SET = 3, 3


def check_against(states: tm.StateMap, model: dict[int, tuple[int, int]], keys: int) -> None:
    """Compare every key, and `get_by_time` at every update time and one ms later, with the model."""
    rows = sorted(((key, *cell) for key, cell in model.items()), key=lambda row: row[2])
    assert whole(states) == set(rows)
    for key in range(keys):
        assert states.get(key) == (model[key][0] if key in model else None)
        assert (key in states) == (key in model)
    times = [updated for _, _, updated in rows]
    for threshold in sorted({0, *times, *(updated + 1 for updated in times)}):
        assert set(states.get_by_time(threshold)) == set(rows[: bisect.bisect_left(times, threshold)])


def test_all_sequences_of_puts_and_removes_in_three_sets_with_copies_between() -> None:
    """Each of 512 keys has one of the 2^9 sequences: bit n of the key selects the operation of step n."""
    keys = 2 ** (SETS * IN_SET)
    states, model, time, chance = numbers(), dict[int, tuple[int, int]](), 1, random.Random(512)
    parent: tuple[tm.StateMap, dict[int, tuple[int, int]]] | None = None
    for step in range(SETS * IN_SET):
        for key in range(keys):
            time += 1
            if key >> step & 1:
                states.remove(key)
                model.pop(key, None)
            else:
                model[key] = chance.randrange(-(2**31), 2**31), time
                states.put(key, *model[key])
        check_against(states, model, keys)
        if parent is not None:
            check_against(*parent, keys)
        if step % IN_SET == IN_SET - 1:
            parent = states, dict(model)
            states = states.copy()
            check_against(states, model, keys)


OPERATIONS = ("copy", "put 1", "put 2", "remove 1", "remove 2")


def test_all_possible_sequences_of_operations_with_copies() -> None:
    """Compare the map and each of its copies with a dict, for every sequence of up to five operations."""
    for length in range(1, 6):
        for sequence in itertools.product(OPERATIONS, repeat=length):
            states, model = numbers(), dict[int, tuple[int, int]]()
            versions: list[tuple[tm.StateMap, dict[int, tuple[int, int]]]] = []
            for number, operation in enumerate(sequence):
                name, _, key = operation.partition(" ")
                if name == "copy":
                    versions.append((states, dict(model)))
                    states = states.copy()
                elif name == "put":
                    states.put(int(key), number, number)
                    model[int(key)] = (number, number)
                else:
                    states.remove(int(key))
                    model.pop(int(key), None)
            for version, expected in [*versions, (states, model)]:
                assert whole(version) == {(key, *cell) for key, cell in expected.items()}, sequence
