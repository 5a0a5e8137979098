"""`tm.StateMap`, test by test after Spark Streaming's StateMapSuite, then the traps."""

from __future__ import annotations

import bisect
import itertools
import math
import random
import threading
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill.errors import CorruptState, InvalidInput


def numbers() -> tm.StateMap:
    return tm.StateMap("int", "int")


def whole(states: tm.StateMap) -> set[tuple[Any, Any, int]]:
    return set(states.get_all())


def test_empty_state_map() -> None:
    states = tm.StateMap.empty("int", "int")
    with pytest.raises(InvalidInput, match=r"takes no states: make a map that does with StateMap\(key, state\)"):
        states.put(1, 1, 1)
    with pytest.raises(InvalidInput, match="takes no states"):
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
    """What is read of one base, and of the deltas `before` and the newest one, is the map; gives back the latter."""
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


def test_serializing_and_deserializing_with_states_of_ones_own(tmp_path: Path) -> None:
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


SETS, IN_SET = 3, 3


def check_against(states: tm.StateMap, model: dict[int, tuple[int, int]], keys: int) -> None:
    """Every key, and every threshold at which `get_by_time` may change: each time that there is, and the next."""
    rows = sorted(((key, *cell) for key, cell in model.items()), key=lambda row: row[2])
    assert whole(states) == set(rows)
    for key in range(keys):
        assert states.get(key) == (model[key][0] if key in model else None)
        assert (key in states) == (key in model)
    times = [updated for _, _, updated in rows]
    for threshold in sorted({0, *times, *(updated + 1 for updated in times)}):
        assert set(states.get_by_time(threshold)) == set(rows[: bisect.bisect_left(times, threshold)])


def test_all_sequences_of_puts_and_removes_in_three_sets_with_copies_between() -> None:
    """512 keys, each with another one of the 2^9 sequences: bit n of the key says what is done to it in step n."""
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
    """Every sequence of up to five operations: the map and each of its copies against a dict."""
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


def test_a_state_that_was_handed_out_is_a_value() -> None:
    states = tm.StateMap("string", "array<int>")
    mine = [1, 2]
    states.put("a", mine, 1)
    mine.append(3)
    states.get("a").append(4)
    assert states.get("a") == [1, 2]


def test_a_put_without_a_deadline_clears_it_and_a_removed_key_is_never_due() -> None:
    states = numbers()
    states.put(1, 1, 0, deadline_ms=10)
    states.put(2, 2, 0, deadline_ms=10)
    assert [row[0] for row in states.get_due(9)] == []
    assert sorted(states.get_due(10)) == [(1, 1, 0, 10), (2, 2, 0, 10)]
    states.put(1, 1, 0)
    states.remove(2)
    assert list(states.get_due(2**62)) == []


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("boolean", True),
        ("tinyint", -1),
        ("smallint", -300),
        ("int", -(2**31)),
        ("bigint", 2**63 - 1),
        ("float", 0.5),
        ("double", 0.1),
        ("string", "ä"),
        ("string", None),
        ("binary", b"\x00"),
        ("date", date(2024, 2, 29)),
        ("timestamp", datetime(2024, 2, 29, 1, 2, 3, 4)),
        ("timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("decimal(10,2)", Decimal("1.50")),
        ("decimal(38,0)", Decimal(-(10**37))),
        ("a int, b string", (1, "x")),
        ("a int, b string", (None, None)),
    ],
)
def test_keys_of_every_type_come_back(schema: str, key: Any) -> None:
    states = tm.StateMap(schema, "int")
    states.put(key, 1, 0)
    ((found, state, updated_ms),) = states.get_all()
    assert (found, state, updated_ms, key in states) == (key, 1, 0, True)


def test_whole_arrays() -> None:
    states = tm.StateMap("string", "n bigint, s double")
    keys = pa.table({"key": ["a", "b", "a"]})
    states.put_many(keys, pa.table({"n": [1, 2, 3], "s": [0.5, None, 1.5]}), 5, pa.array([None, 7, 9], pa.int64()))
    found = states.get_many(pa.chunked_array([["b", "c"], ["a"]]))
    assert found.column_names == ["n", "s", "updated_at", "deadline"]
    assert found.select(["n", "s"]).to_pylist() == [{"n": 2, "s": None}, {"n": None, "s": None}, {"n": 3, "s": 1.5}]
    assert found.column("deadline").cast(pa.int64()).to_pylist() == [7, None, 9]
    states.remove_many(pa.array(["b", "unknown"]))
    assert (len(states), "b" in states, states.get("a")) == (1, False, tm.Row(n=3, s=1.5))
    states.put_many(keys.slice(0, 0), pa.table({"n": pa.array([], pa.int64()), "s": pa.array([], pa.float64())}), 5)
    assert len(states) == 1


def test_sizes_and_words() -> None:
    states = tm.StateMap("bigint", "bigint")
    assert (states.approx_size, states.delta_chain_length, repr(states)) == (
        0, 0, "StateMap((key int64) -> (state int64), 0 keys)"
    )  # fmt: skip
    states.put_many(pa.array(range(1000)), pa.array(range(1000)), 0)
    small = states.approx_size
    states = states.copy()
    states.put_many(pa.array(range(1000)), pa.array(range(1000)), 0)
    states.remove(5)
    assert states.approx_size > small > 16_000
    text = states.to_debug_string().splitlines()
    assert text[0] == "StateMap with 999 keys, 1 over the base"
    assert sum("(1 removals)" in line for line in text) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.put("a", 1, 0), r"cannot take 'a' as a key: .*int"),
        (lambda s: s.put(1, "a", 0), r"cannot take 'a' as a state"),
        (lambda s: s.put(1, None, 0), r"cannot keep None as a state"),
        (lambda s: s.put(1, 1, 0.5), r"updated_ms is 0\.5, expected whole ms"),
        (lambda s: s.put(1, 1, 0, deadline_ms=2**63), r"deadline_ms is 9223372036854775808, expected whole ms"),
        (lambda s: s.get_by_time("now"), r"threshold_ms is 'now'"),
        (lambda s: s.get_many([1]), r"expected keys as Arrow data, found list"),
        (lambda s: s.get_many(pa.array(["a"])), r"expected keys of \(key int32\), found \(key string\)"),
        (
            lambda s: s.put_many(pa.array([1], pa.int32()), pa.array([None], pa.int32()), 0),
            "a state is null in all its columns",
        ),
        (lambda s: tm.StateMap("int", "int", 0), "delta_chain_threshold is 0, expected at least 1"),
        (lambda s: tm.StateMap("int", "int", True), "delta_chain_threshold is True"),
        (lambda s: tm.StateMap.read([]), "found no paths"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(call: Any, message: str) -> None:
    states = numbers()
    states.put(7, 7, 7)
    with pytest.raises(InvalidInput, match=message):
        call(states)
    assert whole(states) == {(7, 7, 7)}


def test_files_that_are_no_segments(tmp_path: Path) -> None:
    with pytest.raises(CorruptState, match=r"gone\.parquet is not there"):
        tm.StateMap.read(tmp_path / "gone.parquet")
    other = tmp_path / "other.parquet"
    other.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(CorruptState, match=r"other\.parquet is no segment"):
        tm.StateMap.read(other)
    numbers().write_base(tmp_path / "a.parquet")
    tm.StateMap("string", "int").write_base(tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match=r"b\.parquet has other columns than .*a\.parquet"):
        tm.StateMap.read([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    full = numbers()
    full.put(1, 2, 3)
    full.write_base(tmp_path / "full.parquet")
    data = bytearray((tmp_path / "full.parquet").read_bytes())
    data[8] ^= 1
    (tmp_path / "full.parquet").write_bytes(bytes(data))
    with pytest.raises(CorruptState):
        tm.StateMap.read(tmp_path / "full.parquet")
    with pytest.raises(tm.StoreUnavailable, match="no-such-folder"):
        full.write_base(tmp_path / "no-such-folder" / "x.parquet")


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
