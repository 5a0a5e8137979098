"""Partitions of rows by hash, hashes, and bounds of times."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill._native import key_hashes, partition, text_hash, time_bounds_ms
from tidemill.errors import InvalidInput

END = 2**64 - 1


def test_partition_keeps_order_and_loses_nothing() -> None:
    batch = pa.record_batch({"k": [f"k{i % 7}" for i in range(100)], "n": list(range(100))})
    bounds = [2**62, 2**63, END]
    parts = partition(batch, ["k"], bounds)
    assert sorted(n for part in parts for n in part.column("n").to_pylist()) == list(range(100))
    for low, high, part in zip([-1, *bounds], bounds, parts, strict=False):
        assert part.column("n").to_pylist() == sorted(part.column("n").to_pylist())
        assert all(low < text_hash(key) <= high for key in part.column("k").to_pylist())
    assert partition(batch, [], [END])[0].equals(batch)
    assert [part.num_rows for part in partition(batch, [], bounds)] == [100, 0, 0]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([], "last partition bound"),
        ([5], "last partition bound"),
        ([7, 7, END], "must be in ascending order"),
        ([9, 3, END], "must be in ascending order"),
    ],
)
def test_bounds_that_are_not_ranges_are_refused(bounds: list[int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        partition(pa.record_batch({"k": [1]}), ["k"], bounds)


def test_partition_by_an_unknown_column_names_the_known_columns() -> None:
    with pytest.raises(InvalidInput, match="cannot split rows by `q`: their columns are k, n"):
        partition(pa.record_batch({"k": [1], "n": [1]}), ["q"], [END])


def test_hashes_are_the_vectors_of_the_format() -> None:
    found = key_hashes(pa.record_batch({"k": ["", "a", "tidemill", None]})).to_pylist()
    assert found == [0x2D06800538D394C2, 0xE6C632B61E964E1F, 0xBEA6F108F5034D96, 0xD6BCEC3C6B29D72E]
    sliced = pa.record_batch({"k": ["x", "a"]}).slice(1)
    assert key_hashes(sliced).to_pylist() == found[1:2]


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        (pa.array([-1, None, 1999], pa.timestamp("us", "UTC")), (-1, 1)),
        (pa.array([-1, 5], pa.timestamp("ns")), (-1, 0)),
        (pa.array([-1, 5], pa.timestamp("ms")), (-1, 5)),
        (pa.array([-1, 5], pa.timestamp("s")), (-1000, 5000)),
        (pa.array([-1, 1], pa.date32()), (-86_400_000, 86_400_000)),
        (pa.array([None], pa.timestamp("us")), None),
        (pa.array([], pa.timestamp("us")), None),
    ],
    ids=str,
)
def test_time_bounds_are_floored_to_ms(column: pa.Array, bounds: tuple[int, int] | None) -> None:
    assert time_bounds_ms(column) == bounds


def test_time_bounds_of_other_types_are_refused() -> None:
    with pytest.raises(InvalidInput, match="event time must be a timestamp or a date, found Int64"):
        time_bounds_ms(pa.array([1]))
