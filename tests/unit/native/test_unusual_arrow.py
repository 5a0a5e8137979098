"""Arrow data of odd types, and from producers that raise: taken as what it is stored as, or a clear `InvalidInput`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.errors import InvalidInput
from tidemill.schema import conform, normalise


class Metres(pa.ExtensionType):
    """A user's own type, which has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.metres")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metres)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Metres:
        return cls()


def metres(*values: int) -> pa.Array:
    return pa.ExtensionArray.from_storage(Metres(), pa.array(values, pa.int64()))


def pointing(*indices: int) -> pa.Array:
    """A dictionary array of one text; what it points at may not be there."""
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(["a"]), safe=False)


class Stream:
    """Exports a column `key` of texts, and raises in the middle."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"key": ["a"]})
            raise ValueError("the disk is gone")

        return pa.RecordBatchReader.from_batches(pa.schema([("key", pa.string())]), batches()).__arrow_c_stream__()


class RaisingStream:
    """Raises when it is asked for its data."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise RuntimeError("not now")


class RaisingArray:
    """The same of the other form."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        raise KeyError("nothing here")


def numbers() -> tm.StateMap:
    made = tm.StateMap("bigint", "bigint")
    made.put(1, 10, 1)
    return made


def texts() -> tm.StateMap:
    made = tm.StateMap("string", "string")
    made.put("a", "x", 1)
    return made


def test_an_extension_type_is_read_as_its_storage_type() -> None:
    states = numbers()
    states.put_many(metres(1, 2), metres(7, 8), 5, metres(9, 9))
    assert sorted(states.get_due(9)) == [(1, 7, 5, 9), (2, 8, 5, 9)]
    assert states.get_many(pa.table({"key": metres(2, 3)}))["state"].to_pylist() == [8, None]
    states.remove_many(metres(2))
    assert (len(states), tm.StateMap(pa.schema([("k", Metres())]), "int")._key) == (1, pa.schema([("k", pa.int64())]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), metres(4, 5))
    structs = pa.StructArray.from_arrays([metres(4)], names=["a"])
    assert tm.StateMap("array<bigint>", "int").get_many(lists).num_rows == 2
    assert tm.StateMap("s struct<a: bigint>", "int").get_many(pa.table({"s": structs})).num_rows == 1
    assert normalise(pa.schema([("m", pa.list_(Metres()))])) == pa.schema([("m", pa.list_(pa.int64()))])


def test_an_extension_type_over_another_type_is_refused_with_both() -> None:
    with pytest.raises(
        InvalidInput, match=r"expected keys of \(key string\), found \(key extension<tests.metres<Metres"
    ):
        texts().get_many(metres(1))
    with pytest.raises(InvalidInput, match=r"given: column `m` is extension<tests.metres.*, expected date"):
        conform(pa.table({"m": metres(1)}), pa.schema([("m", pa.date32())]), "given")


BROKEN = "the Arrow data is invalid: .*ictionary indices invalid"
POINTING: dict[str, tuple[Callable[[], Any], str]] = {
    "keys": (lambda: texts().get_many(pointing(0, 9)), f"StateMap: keys: {BROKEN}"),
    "keys of a table": (lambda: texts().remove_many(pa.table({"key": pointing(0, 9)})), f"StateMap: keys: {BROKEN}"),
    "below zero": (lambda: texts().get_many(pointing(-3)), f"StateMap: keys: {BROKEN}"),
    "states": (lambda: texts().put_many(pa.array(["b"]), pointing(1), 1), f"StateMap: states: {BROKEN}"),
    "deadlines": (
        lambda: numbers().put_many(
            pa.array([1]), pa.array([1]), 1, pa.DictionaryArray.from_arrays(pa.array([3]), pa.array([1]), safe=False)
        ),
        "deadlines_ms must be whole ms since the epoch: Index 3 out of bounds",
    ),
    "rows": (lambda: tm.Rows("k string").table(pa.table({"k": pointing(5)})), f"rows given to the tester: {BROKEN}"),
    "conform": (
        lambda: conform(pa.table({"k": pointing(5)}), pa.schema([("k", pa.string())]), "given"),
        "given: column `k` is dictionary<values=string, indices=int64, ordered=0>, expected string: Index 5",
    ),
}


@pytest.mark.parametrize("name", POINTING)
def test_indices_beyond_their_dictionary_are_refused(name: str) -> None:
    call, message = POINTING[name]
    with pytest.raises(InvalidInput, match=message):
        call()


RAISING: dict[str, tuple[Any, str]] = {
    "in the middle": (Stream(), "Stream exports no Arrow data: ArrowInvalid: .*the disk is gone$"),
    "at once": (RaisingStream(), "RaisingStream exports no Arrow data: RuntimeError: not now$"),
    "an array": (RaisingArray(), "RaisingArray exports no Arrow data: KeyError: 'nothing here'$"),
}


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize("place", ["keys", "states", "deadlines_ms"])
def test_an_exception_of_an_arrow_producer_reaches_the_caller(name: str, place: str) -> None:
    raising, message = RAISING[name]
    given: dict[str, Any] = {"keys": pa.array(["b"]), "states": pa.array(["y"]), "deadlines_ms": pa.array([1])}
    given[place] = raising
    states = texts()
    with pytest.raises(InvalidInput, match=f"^StateMap: expected {place} as Arrow data, {message}") as raised:
        states.put_many(given["keys"], given["states"], 1, given["deadlines_ms"])
    assert raised.value.__cause__ is not None
    assert list(states.get_all()) == [("a", "x", 1)]


def test_deadlines_may_come_from_anything_that_exports_arrow() -> None:
    polars = pytest.importorskip("polars")
    states = numbers()
    for deadlines in (polars.Series([5, None]), pa.chunked_array([[5], [None]], pa.int64()), [5, None]):
        states.put_many(pa.array([1, 2]), pa.array([3, 4]), 1, deadlines)
        assert list(states.get_due(10)) == [(1, 3, 1, 5)]
        states.put_many(pa.array([1, 2]), pa.array([3, 4]), 1)


def test_list_views_are_accepted_with_their_nulls() -> None:
    """PyArrow casts those that have any to lists without offsets, which end the process that reads them."""
    states = tm.StateMap("bigint", pa.schema([("v", pa.list_(pa.int64()))]))
    for kind in (pa.list_view(pa.int64()), pa.large_list_view(pa.int64())):
        for values in ([[1, 2], None], [None, None], [[1], [2, 3]]):
            for column in (pa.array(values, kind), pa.array([[9], *values], kind).slice(1)):
                states.put_many(pa.array([1, 2]), pa.table({"v": column}), 1)
                assert states.get_many(pa.array([1, 2])).column("v").to_pylist() == values
    deep = pa.array([[[1], None], [[]]], pa.list_view(pa.list_view(pa.int64())))
    of_lists = pa.schema([("v", pa.list_(pa.list_(pa.int64())))])
    assert conform(pa.table({"v": deep}), of_lists, "rows").column("v").to_pylist() == [[[1], None], [[]]]
    nanoseconds = pa.array([[1_500]], pa.list_view(pa.timestamp("ns")))
    with pytest.raises(InvalidInput, match="would lose data"):
        conform(pa.table({"v": nanoseconds}), pa.schema([("v", pa.list_(pa.timestamp("us")))]), "rows")
    within = pa.array([{"l": [1]}], pa.struct([("l", pa.list_view(pa.int64()))]))
    with pytest.raises(InvalidInput, match="cast them to lists first"):
        conform(pa.table({"v": within}), pa.schema([("v", pa.struct([("l", pa.list_(pa.int64()))]))]), "rows")
