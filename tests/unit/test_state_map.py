"""`tm.StateMap`, test by test after Spark Streaming's StateMapSuite, then the traps."""

from __future__ import annotations

import itertools
import math
import threading
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
    with pytest.raises(InvalidInput, match=r"takes no states: write to its copy\(\)"):
        states.put(1, 1, 1)
    assert states.get(1) is None
    assert list(states.get_by_time(10_000)) == []
    assert list(states.get_all()) == []
    copied = states.copy()
    copied.put(1, 2, 3)
    assert (copied.get(1), states.get(1), len(states)) == (2, None, 0)


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


def test_serializing_and_deserializing(tmp_path: Path) -> None:
    states, paths = numbers(), []
    for version in range(5):
        states.put(version, version * 10, version)
        states.put(99, version, version)
        states.remove(version - 2)
        paths.append(tmp_path / f"{version}.parquet")
        states.write_delta(paths[-1])
        read = tm.StateMap.read(paths)
        assert whole(read) == whole(states)
        assert read.delta_chain_length == version
        states = states.copy()
    read.put(7, 7, 7)  # a map that was read is one like any other
    assert read.get(7) == 7
    assert states.get(7) is None


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
