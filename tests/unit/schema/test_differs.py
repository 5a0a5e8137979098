"""Which cells differ, beside Python's own comparison of nested values with floats by their bits."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from tidemill.schema import as_bits, differs

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
TYPES: list[pa.DataType] = [
    pa.float64(),
    pa.float32(),
    pa.int32(),
    pa.string(),
    pa.decimal128(20, 2),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.float64()),
    pa.struct([("a", pa.float64()), ("b", pa.string())]),
    pa.map_(pa.string(), pa.float64()),
    pa.list_(pa.struct([("x", pa.list_(pa.float32())), ("y", pa.map_(pa.int32(), pa.bool_()))])),
]


def value(kind: pa.DataType, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    if pa.types.is_floating(kind):
        return chance.choice([0.0, -0.0, 1.5, NAN, OTHER_NAN, math.inf, -math.inf])
    if pa.types.is_list(kind):
        return [value(kind.value_type, chance) for _ in range(chance.randint(0, 2))]
    if pa.types.is_map(kind):
        names = [1, 2] if pa.types.is_integer(kind.key_type) else ["a", "b"]
        return [(name, value(kind.item_type, chance)) for name in names[: chance.randint(0, 2)]]
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, chance) for field in kind}
    if pa.types.is_boolean(kind):
        return chance.choice([True, False])
    if pa.types.is_string(kind):
        return chance.choice(["", "a", "ab"])
    return chance.choice([0, 1, 7])


def exact(cell: Any) -> Any:
    """A value whose equality is that of the bits, with one NaN."""
    if isinstance(cell, float):
        return "NaN" if math.isnan(cell) else struct.pack("<d", cell)
    if isinstance(cell, dict):
        return {name: exact(one) for name, one in cell.items()}
    if isinstance(cell, list | tuple):
        return [exact(one) for one in cell]
    return cell


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_cells_differ_by_their_bits(kind: pa.DataType) -> None:
    chance = random.Random(str(kind))
    pairs = [(value(kind, chance), value(kind, chance)) for _ in range(300)]
    pairs += [(one, one) for one, _ in pairs[:20]]
    before, after = (pa.array([pair[side] for pair in pairs], kind) for side in (0, 1))
    expected = [exact(a) != exact(b) for a, b in zip(before.to_pylist(), after.to_pylist(), strict=True)]
    assert True in expected and False in expected
    assert differs(before, after).to_pylist() == expected
    assert differs(before.slice(7, 100), after.slice(7, 100)).to_pylist() == expected[7:107]
    bits = [as_bits(before).to_pylist(), as_bits(after).to_pylist()]
    assert [a != b for a, b in zip(*bits, strict=True)] == expected
    assert as_bits(before.slice(7, 100)).to_pylist() == bits[0][7:107]
    assert differs(before.slice(0, 0), after.slice(0, 0)).to_pylist() == []
    assert len(as_bits(before.slice(0, 0))) == 0


def test_a_tolerance_is_the_greatest_distance_of_equal_floats_also_within_lists_and_structs() -> None:
    before = pa.array([1.0, 1.0, 0.0, NAN, math.inf, math.inf, 1.0, None])
    after = pa.array([1.25, 1.26, -0.0, NAN, math.inf, -math.inf, NAN, 0.0])
    assert differs(before, after, tolerance=0.25).to_pylist() == [False, True, False, False, False, True, True, True]
    kind = pa.list_(pa.struct([("a", pa.float64()), ("n", pa.int32())]))
    one = pa.array([[{"a": 1.0, "n": 1}], [{"a": 1.0, "n": 1}]], kind)
    other = pa.array([[{"a": 1.1, "n": 1}], [{"a": 1.1, "n": 2}]], kind)
    assert differs(one, other, tolerance=0.2).to_pylist() == [False, True]
    assert differs(pa.array([1.0], pa.float32()), pa.array([1.1], pa.float32()), tolerance=0.2).to_pylist() == [False]


def test_nulls_of_the_null_type_are_equal() -> None:
    assert differs(pa.nulls(2), pa.nulls(2)).to_pylist() == [False, False]
