"""Key hashes and equality against an implementation written from docs/format.md alone, nested keys among them."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import examples
from tests.unit.native.naive_keys import naive_hash, part
from tidemill._native import key_hashes
from tidemill.errors import InvalidInput

FORMAT = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")


def column(values: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], names=["key"])


PAIR = pa.struct([("a", pa.string()), ("n", pa.int32())])
TEXTS = pa.map_(pa.string(), pa.int64())
CHECKED = pa.struct([("x", pa.decimal128(10, 2)), ("ok", pa.bool_())])

VECTORS = [
    ("struct with `a` (string) and 1 (integer)", {"a": "a", "n": 1}, PAIR),
    ("struct with two nulls", {"a": None, "n": None}, PAIR),
    ("null", None, PAIR),
    ("empty list, or empty map", [], pa.list_(pa.int8())),
    ("empty list, or empty map", [], TEXTS),
    ("list of integer 1", [1], pa.list_(pa.int64())),
    ("list of one null", [None], pa.list_(pa.string())),
    ("list of integers 1, 2", [1, 2], pa.list_(pa.int16())),
    ("list of float −0.0", [-0.0], pa.list_(pa.float32())),
    ("list of NaN", [math.nan], pa.list_(pa.float64())),
    ("map of strings to integers, `b` to 2 and `a` to 1", [("b", 2), ("a", 1)], TEXTS),
    (
        "list of a struct with decimal 125 and true, and of a null",
        [{"x": Decimal("1.25"), "ok": True}, None],
        pa.list_(CHECKED),
    ),
    ("string `tidemill`", "tidemill", pa.string()),
    ("decimal with unscaled number −125", Decimal("-1.25"), pa.decimal128(10, 2)),
]


@pytest.mark.parametrize(("name", "value", "kind"), VECTORS)
def test_a_vector_of_the_format_follows_from_its_rules(name: str, value: Any, kind: pa.DataType) -> None:
    expected = f"{naive_hash(value, kind):016x}"
    assert f"| {name} | `{expected}` |" in FORMAT
    assert f"{key_hashes(column([value], kind))[0].as_py():016x}" == expected


def kinds() -> st.SearchStrategy[pa.DataType]:
    leaves = [
        pa.bool_(),
        pa.int8(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.decimal128(5, 2),
    ]
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])),
            inner.map(pa.list_),
            st.tuples(st.sampled_from([pa.string(), pa.int64()]), inner).map(lambda pair: pa.map_(*pair)),
        ),
        max_leaves=4,
    )


def values(kind: pa.DataType, nullable: bool = True) -> st.SearchStrategy[Any]:
    made: st.SearchStrategy[Any]
    if pa.types.is_boolean(kind):
        made = st.booleans()
    elif pa.types.is_integer(kind):
        made = st.integers(-2, 2)
    elif pa.types.is_floating(kind):
        made = st.sampled_from([0.0, -0.0, math.nan, 1.5])
    elif pa.types.is_decimal(kind):
        made = st.sampled_from([Decimal("0.00"), Decimal("-1.25")])
    elif kind == pa.string():
        made = st.sampled_from(["", "a", "ab"])
    elif kind == pa.binary():
        made = st.sampled_from([b"", b"\xff", b"\0"])
    elif pa.types.is_struct(kind):
        made = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_map(kind):
        pairs = st.tuples(values(kind.key_type, nullable=False), values(kind.item_type))
        made = st.lists(pairs, max_size=2, unique_by=lambda pair: pair[0])
    else:
        made = st.lists(values(kind.value_type), max_size=2)
    return st.one_of(st.none(), made) if nullable else made


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_nested_keys_are_those_of_a_dict_of_canonical_bytes(tmp_path_factory: Any, data: st.DataObject) -> None:
    kind = data.draw(kinds())
    rows = data.draw(st.lists(values(kind), min_size=1, max_size=12))
    keys = column(rows, kind)
    assert key_hashes(keys).to_pylist() == [naive_hash(value, kind) for value in rows]

    states = tm.StateMap(pa.schema([("key", kind)]), "bigint")
    spelled = [part(value, kind) for value in rows]
    model = {name: number for number, name in enumerate(spelled)}
    states.put_many(keys, pa.array(range(len(rows))), 1)
    gone = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    later = states.copy()
    later.remove_many(keys.take(pa.array(sorted(gone), pa.int64())))
    left = {name: number for name, number in model.items() if name not in {spelled[place] for place in gone}}

    paths = [tmp_path_factory.getbasetemp() / name for name in ("base.parquet", "delta.parquet")]
    states.write_base(paths[0])
    later.write_delta(paths[1])
    for found, expected in ((states, model), (later, left), (tm.StateMap.read(paths), left)):
        assert len(found) == len(expected)
        assert found.get_many(keys)["state"].to_pylist() == [expected.get(name) for name in spelled]


def test_single_keys_are_structs_lists_and_maps() -> None:
    by_struct = tm.StateMap("pair struct<a: string, x: double>", "int")
    by_struct.put((("a", -0.0),), 1, 1)
    assert by_struct.get(({"a": "a", "x": 0.0},)) == 1
    assert by_struct.get((("a", None),)) is None
    (((pair,), _, _),) = by_struct.get_all()
    assert (pair.a, math.copysign(1, pair.x)) == ("a", 1.0)
    by_map = tm.StateMap("map<string, int>", "int")
    by_map.put({"a": 1, "b": 2}, 5, 1)
    assert by_map.get({"b": 2, "a": 1}) == 5
    assert list(by_map.get_all()) == [({"a": 1, "b": 2}, 5, 1)]
    by_list = tm.StateMap("array<string>", "int")
    by_list.put([], 1, 1)
    by_list.put([None], 2, 1)
    by_list.put(None, 3, 1)
    assert [by_list.get(key) for key in ([], (None,), None, ["a"])] == [1, 2, 3, None]


def test_unsupported_types_are_refused_as_keys_and_sub_keys() -> None:
    from tidemill._native import MapSchema

    empty, bytes_ = pa.schema([]), pa.schema([("at", pa.list_(pa.uint8()))])
    for columns in ((bytes_, empty), (empty, bytes_)):
        with pytest.raises(
            InvalidInput, match=r"`m` cannot be keyed by `at` of type List\(UInt8\); .* list or map of these"
        ):
            MapSchema("m", *columns, empty)


@pytest.mark.parametrize("state", ["map<array<int>, int>", "x int, m map<struct<a: map<int, int>>, int>"])
def test_maps_with_keys_that_a_dict_cannot_have_are_refused_when_declared(state: str) -> None:
    for columns in (("int", state), (state, "int")):
        with pytest.raises(InvalidInput, match="lists and dicts cannot be the keys of a dict"):
            tm.StateMap(*columns)
    pairs = tm.StateMap("int", "map<struct<a: int, b: string>, int>")
    pairs.put(1, {(2, "c"): 3}, 1)
    assert pairs.get(1) == {(2, "c"): 3} == pairs.copy().get(1)


SUB_KEYS: list[tuple[pa.DataType, list[Any], list[int]]] = [
    (pa.float64(), [0.0, -0.0, math.nan, -math.nan, None, 1.5], [0, 0, 1, 1, 2, 3]),
    (pa.float32(), [0.0, -0.0, math.nan, -math.nan, None, 1.5], [0, 0, 1, 1, 2, 3]),
    (pa.list_(pa.float64()), [[0.0], [-0.0], [math.nan], [], [None], None], [0, 0, 1, 2, 3, 4]),
    (
        pa.struct([("x", pa.float64()), ("s", pa.string())]),
        [{"x": -0.0, "s": "a"}, {"x": 0.0, "s": "a"}, {"x": None, "s": None}, None, {"x": 0.0, "s": None}],
        [0, 0, 1, 2, 3],
    ),
    (
        pa.map_(pa.string(), pa.float64()),
        [[("a", 0.0), ("b", 1.0)], [("b", 1.0), ("a", -0.0)], [], [("a", None)], None],
        [0, 0, 1, 2, 3],
    ),
]


@pytest.mark.parametrize(("kind", "cells", "same"), SUB_KEYS)
def test_sub_keys_of_every_shape_are_compared_like_keys(kind: pa.DataType, cells: list[Any], same: list[int]) -> None:
    """Spark's rule for keys: −0.0 is 0.0, there is one NaN, maps have no order. Rows go by their bytes, null first."""
    from tidemill._native import MapSchema, Run, StateMap

    schema = MapSchema("m", pa.schema([("k", pa.int64())]), pa.schema([("at", kind)]), pa.schema([("n", pa.int64())]))
    keys = pa.record_batch({"k": pa.array([7] * len(cells)), "at": pa.array(cells, kind)})
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    states.put_many(keys, pa.record_batch({"n": pa.array(range(len(cells)), pa.int64())}), 1, None)
    last = {one: number for number, one in enumerate(same)}
    delta = states.delta()
    assert delta is not None
    data = delta.write()
    for found in (states, StateMap.open(schema, [Run.read(schema, data, "s")], 0, 2**64 - 1)):
        assert len(found) == len(last)
        there, rows = found.get_many(keys)
        assert all(there.to_pylist()) and rows.column("n").to_pylist() == [last[one] for one in same]
        spelled = [None if cell is None else part(cell, kind)[1:] for cell in found.scan().column("at").to_pylist()]
        assert spelled == sorted(spelled, key=lambda one: (one is not None, one or b""))
    states.remove_many(keys.slice(1, 1))
    assert len(states) == len(last) - 1 and not states.get_many(keys.slice(0, 1))[0][0].as_py()
