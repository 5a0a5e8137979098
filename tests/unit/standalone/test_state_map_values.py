"""Keys, states and arrays in a `tm.StateMap`: values are returned as they were put, and invalid ones are errors."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.unit.standalone.state_maps import numbers, whole
from tidemill.errors import CorruptState, InvalidInput


def test_changing_a_returned_state_does_not_change_the_map() -> None:
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
def test_keys_of_every_type_are_returned_equal(schema: str, key: Any) -> None:
    states = tm.StateMap(schema, "int")
    states.put(key, 1, 0)
    ((found, state, updated_ms),) = states.get_all()
    assert (found, state, updated_ms, key in states) == (key, 1, 0, True)


def test_arrays_are_put_read_and_removed() -> None:
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


def test_a_row_of_nulls_is_a_valid_state_and_a_null_is_not() -> None:
    """`put` and `put_many` accept and reject the same states."""
    types = {"n": pa.int64(), "s": pa.string()}
    nulls = pa.table({name: pa.nulls(2, of) for name, of in types.items()})
    for state in ("n bigint, s string", "struct<n: bigint, s: string>"):
        states = tm.StateMap("string", state)
        states.put("a", (None, None), 5)
        states.put_many(pa.array(["b", "c"]), nulls, 5)
        assert {(key, tuple(found)) for key, found, _ in states.get_all()} == {(key, (None, None)) for key in "abc"}
        assert (states.get("b"), len(states), "c" in states) == (tm.Row(n=None, s=None), 3, True)
        known = states.get_many(pa.array(["a", "b", "?"])).column("updated_at")
        assert known.is_valid().to_pylist() == [True, True, False]
        with pytest.raises(InvalidInput, match="cannot store None as a state"):
            states.put("a", None, 5)
    structs = tm.StateMap("string", "s struct<n: bigint>")
    of_struct = pa.array([None, {"n": None}], pa.struct([("n", pa.int64())]))
    structs.put_many(pa.array(["a", "b"]), pa.table({"s": of_struct}), 5)
    assert (structs.get("a"), structs.get("b")) == (tm.Row(s=None), tm.Row(s=tm.Row(n=None)))
    structs.put("c", (None,), 5)
    structs.put("d", ((None,),), 5)
    assert (structs.get("c"), structs.get("d")) == (structs.get("a"), structs.get("b"))


def test_sizes_and_texts_describe_the_map() -> None:
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
        (lambda s: s.put("a", 1, 0), r"cannot use 'a' as a key: .*int"),
        (lambda s: s.put(1, "a", 0), r"cannot use 'a' as a state"),
        (lambda s: s.put(1, None, 0), r"cannot store None as a state"),
        (lambda s: s.put(1, 1, 0.5), r"updated_ms is 0\.5, expected whole ms"),
        (lambda s: s.put(1, 1, 0, deadline_ms=2**63), r"deadline_ms is 9223372036854775808, expected whole ms"),
        (lambda s: s.get_by_time("now"), r"threshold_ms is 'now'"),
        (lambda s: s.get_many([1]), r"expected keys as Arrow data, found list"),
        (lambda s: s.get_many(pa.array(["a"])), r"expected keys of \(key int32\), found \(key string\)"),
        (
            lambda s: s.put_many(pa.array([1], pa.int32()), pa.array([None], pa.int32()), 0),
            "`states` contains a null, which is not a valid state",
        ),
        (lambda s: tm.StateMap("int", "int", 0), "delta_chain_threshold is 0, expected at least 1"),
        (lambda s: tm.StateMap("int", "int", True), "delta_chain_threshold is True"),
        (lambda s: tm.StateMap.read([]), "found no paths"),
    ],
)
def test_an_invalid_call_names_the_problem_and_changes_nothing(call: Any, message: str) -> None:
    states = numbers()
    states.put(7, 7, 7)
    with pytest.raises(InvalidInput, match=message):
        call(states)
    assert whole(states) == {(7, 7, 7)}


def test_missing_and_damaged_files_are_corrupt_state(tmp_path: Path) -> None:
    with pytest.raises(CorruptState, match=r"gone\.parquet` is missing"):
        tm.StateMap.read(tmp_path / "gone.parquet")
    other = tmp_path / "other.parquet"
    other.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(CorruptState, match=r"other\.parquet` is not a segment"):
        tm.StateMap.read(other)
    numbers().write_base(tmp_path / "a.parquet")
    tm.StateMap("string", "int").write_base(tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match=r"b\.parquet` has different columns from `.*a\.parquet`"):
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


@pytest.mark.parametrize(
    "deadlines",
    [[1.5], [1.0], [Decimal("1.5")], pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("us", "UTC"))],
)
def test_a_deadline_must_be_whole_ms(deadlines: Any) -> None:
    states = tm.StateMap("bigint", "bigint")
    with pytest.raises(InvalidInput, match="deadlines_ms must be whole ms since the epoch.*, found"):
        states.put_many(pa.array([1]), pa.array([1]), 0, deadlines)
    states.put_many(pa.array([1]), pa.array([1]), 0, pa.array([5], pa.timestamp("ms")))
    assert [due[0] for due in states.get_due(5)] == [1]
