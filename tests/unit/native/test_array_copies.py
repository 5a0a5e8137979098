"""Whole arrays cross between Python and the engine without copies: the buffers on both sides are the same memory."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import MapSchema, Run, StateMap, partition
from tidemill.standalone.map_arrays import rows_in

COLUMNS: dict[str, pa.Array] = {
    "bigint": pa.array([1, None, 3] * 100, pa.int64()),
    "smallint": pa.array([1, 2, 3] * 100, pa.int16()),
    "double": pa.array([0.5, None, 1.5] * 100),
    "boolean": pa.array([True, False, None] * 100),
    "string": pa.array(["a", None, "ccc"] * 100),
    "binary": pa.array([b"a", b"", None] * 100),
    "date": pa.array([1, 2, 3] * 100, pa.date32()),
    "timestamp": pa.array([1, 2, None] * 100, pa.timestamp("us", "UTC")),
    "decimal(20,2)": pa.array([Decimal("1.25"), None, Decimal(3)] * 100, pa.decimal128(20, 2)),
    "array<string>": pa.array([["a", None], [], None] * 100, pa.list_(pa.string())),
    "struct<a: bigint, b: string>": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}] * 150),
    "map<string, bigint>": pa.array([[("a", 1)], [], [("b", 2), ("c", 3)]] * 100, pa.map_(pa.string(), pa.int64())),
}
KEYS = pa.array(range(300), pa.int64())


def places(column: pa.Array) -> list[int]:
    """Return the addresses of the buffers of the column."""
    return [buffer.address for buffer in column.buffers() if buffer is not None]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("slice_", [(0, 300), (8, 100)], ids=["whole", "slice"])
def test_arrays_pass_in_and_out_of_the_engine_without_a_copy(name: str, slice_: tuple[int, int]) -> None:
    """Split into one part, rows go in by one capsule and out by another, and nothing happens to them between."""
    given = pa.record_batch([KEYS, COLUMNS[name]], names=["k", "v"]).slice(*slice_)
    (back,) = partition(given, ["k"], [2**64 - 1])
    assert back.equals(given)
    for column in ("k", "v"):
        ours = [buffer for buffer in given.column(column).buffers() if buffer is not None]
        for place in places(back.column(column)):
            assert any(buffer.address <= place < buffer.address + buffer.size for buffer in ours)
        assert len(places(back.column(column))) == len(ours)


def given_to_engine(states: tm.StateMap, keys: Any) -> pa.RecordBatch:
    return rows_in(keys, states._key, "keys")


@pytest.mark.parametrize("form", ["array", "chunked array", "table", "batch"])
def test_keys_of_canonical_types_are_not_copied(form: str) -> None:
    for name, column in COLUMNS.items():
        if "map" in name:
            continue
        keys: Any = {
            "array": column,
            "chunked array": pa.chunked_array([column]),
            "table": pa.table({"key": column}),
            "batch": pa.record_batch({"key": column}),
        }[form]
        schema = pa.schema([("key", column.type)])
        assert places(given_to_engine(tm.StateMap(schema, "int"), keys).column(0)) == places(column), name


def test_arrays_of_other_libraries_are_not_copied() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"key": range(1000)})
    address, _, _ = frame["key"]._get_buffer_info()
    assert places(given_to_engine(tm.StateMap("bigint", "int"), frame).column(0)) == [address]


def test_rows_of_a_run_are_not_copied_from_memory_or_from_a_mapped_file(tmp_path: Path) -> None:
    schema = MapSchema("m", pa.schema([("k", pa.int64())]), pa.schema([]), pa.schema([("v", pa.string())]))
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    keys, values = pa.record_batch([KEYS], names=["k"]), pa.record_batch([COLUMNS["string"]], names=["v"])
    states.put_many(keys, values, 1)
    run = states.base()
    one, other = run.rows(), run.rows()
    for column in range(one.num_columns):
        assert places(one.column(column)) == places(other.column(column)) != []
    with (tmp_path / "kept").open("w+b") as file:
        run.keep(file.fileno(), "0" * 32)
        mapped = Run.map(schema, file.fileno(), "0" * 32, verify=False).rows()
        (line,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("/kept")]
    low, high = (int(bound, 16) for bound in line.split()[0].split("-"))
    assert mapped.equals(one)
    for column in ("k", "v", "updated_at", "deleted"):
        assert all(low <= place < high for place in places(mapped.column(column)))
