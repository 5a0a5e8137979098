"""Invalid Arrow data and types nested too deep raise `InvalidInput`, and the map stays unchanged.

The cases run in child processes, because trusting such data would crash the process or read foreign memory.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import MapSchema, key_hashes
from tidemill._native import StateMap as EngineMap
from tidemill.errors import InternalError, InvalidInput

pytestmark = pytest.mark.slow("hostile input")

NOTHING = pa.schema([])
BATCH = pa.record_batch({"k": pa.array([1], pa.int64())})


def text(*offsets: int, data: bytes = b"abc") -> pa.Array:
    buffers = [None, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


@dataclasses.dataclass
class Exports:
    """Says that its rows have the columns of `said`, and gives those of `given`."""

    said: pa.RecordBatch
    given: pa.RecordBatch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.said.__arrow_c_array__()[0], self.given.__arrow_c_array__()[1]


def rows_of_nothing(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def null_in_not_null() -> pa.Array:
    return pa.StructArray.from_arrays([pa.array([None], pa.int64())], fields=[pa.field("x", pa.int64(), False)])


def texts() -> tm.StateMap:
    made = tm.StateMap("string", "string")
    made.put("ann", "a", 1)
    return made


def numbers() -> tm.StateMap:
    made = tm.StateMap(pa.schema([("k", pa.int64())]), "s struct<x: bigint not null>")
    made.put((1,), ((1,),), 1)
    return made


def unchanged(states: tm.StateMap, call: Callable[[tm.StateMap], Any]) -> str:
    before = list(states.get_all())
    try:
        call(states)
    except InvalidInput as error:
        assert list(states.get_all()) == before
        assert len(states.copy()) == 1
        return error.first_line
    return "nothing was raised"


def put_and_get(broken: Callable[[], pa.Array]) -> list[str]:
    count = len(broken())
    plain = pa.array([str(number) for number in range(count)])
    calls: list[Callable[[tm.StateMap], Any]] = [
        lambda states: states.put_many(broken(), plain, 1),
        lambda states: states.put_many(plain, broken(), 1),
        lambda states: states.remove_many(pa.chunked_array([broken()])),
        lambda states: states.get_many(pa.table({"key": broken()})),
    ]
    return [unchanged(texts(), call) for call in calls]


def engine(keys: Any) -> list[str]:
    return [unchanged(numbers(), lambda states: states._map.get_many(keys))]


def of_nothing(rows: int) -> str:
    states = EngineMap.open(MapSchema("m", NOTHING, NOTHING, pa.schema([("v", pa.int64())])), [], 0, 2**64 - 1)
    for call in (states.get_many, states.remove_many, key_hashes):
        try:
            call(rows_of_nothing(rows))
        except InvalidInput as error:
            line = error.first_line
        else:
            return "nothing was raised"
    return line


def deep(levels: int, kind: pa.DataType | None = None) -> pa.DataType:
    made = kind or pa.int64()
    for _ in range(levels - 1):
        made = pa.list_(made)
    return made


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except InvalidInput as error:
        return error.first_line[-200:]
    return "nothing was raised"


def spark_type(levels: int) -> Any:
    written = '{"type": "array", "containsNull": true, "elementType": ' * levels + '"long"' + "}" * levels
    methods = {"json": lambda self: written, "simpleString": lambda self: "array"}
    return type("Type", (), methods)()


@dataclasses.dataclass
class Endless:
    within: Endless


BROKEN = "the Arrow data is invalid"
CASES: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "offsets beyond the text": (BROKEN, lambda: put_and_get(lambda: text(0, 1 << 30, 3))),
    "negative offsets": (BROKEN, lambda: put_and_get(lambda: text(0, -5, 3))),
    "offsets that go back": (BROKEN, lambda: put_and_get(lambda: text(0, 3, 1))),
    "no UTF-8": (BROKEN, lambda: put_and_get(lambda: text(0, 1, 2, data=b"\xff\xfe"))),
    "a null where none may be": (
        "contains nulls not present in parent",
        lambda: [
            unchanged(numbers(), lambda states: states.put_many(pa.array([1]), pa.table({"s": null_in_not_null()}), 1))
        ],
    ),
    "a column too few": ("has 1 children, expected 2", lambda: engine(Exports(BATCH.append_column("l", [[2]]), BATCH))),
    "a column too many": (
        "has 2 children, expected 1",
        lambda: engine(Exports(BATCH, BATCH.append_column("l", [[2]]))),
    ),
    "text as numbers": (
        "has 3 buffers, expected 2",
        lambda: engine(Exports(BATCH, pa.record_batch({"k": ["a"]}))),
    ),
    "numbers as text": (
        "has 2 buffers, expected 3",
        lambda: engine(Exports(pa.record_batch({"k": ["a"]}), BATCH)),
    ),
    "more rows than there are": ("rows, expected at most 2147483647", lambda: [of_nothing(2**40)]),
    "types of 20,000 levels": (
        "nested more than 20 deep",
        lambda: [
            refused(lambda: MapSchema("m", NOTHING, NOTHING, pa.schema([("v", deep(20_000))]))),
            refused(lambda: tm.StateMap("bigint", pa.schema([("v", deep(20_000))]))),
            refused(lambda: tm.StateMap("bigint", deep(20_000))),
        ],
    ),
    "types of 21 levels": (
        "nested more than 20 deep",
        lambda: [
            refused(lambda: MapSchema("m", NOTHING, NOTHING, pa.schema([("v", deep(21))]))),
            refused(lambda: tm.StateMap(deep(21), "bigint")),
            refused(lambda: tm.StateMap("bigint", "v " + "array<" * 20 + "int" + ">" * 20)),
            refused(lambda: tm.StateMap("bigint", spark_type(20))),
        ],
    ),
    "types that a reader cannot follow": (
        "its types are nested infinitely or too deep",
        lambda: [
            refused(lambda: tm.StateMap("bigint", "v " + "array<" * 5_000 + "int" + ">" * 5_000)),
            refused(lambda: tm.StateMap("bigint", spark_type(5_000))),
            refused(lambda: tm.StateMap("bigint", Endless)),
        ],
    ),
}


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """Run all cases in one child process, and return the error of each case."""
    command = [sys.executable, "-m", "tests.unit.native.test_broken_arrow"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "panicked" not in child.stderr
    return dict(json.loads(line) for line in child.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_broken_arrow_data_is_refused_and_changes_nothing(name: str, said: dict[str, list[str]]) -> None:
    assert said[name]
    assert [line for line in said[name] if CASES[name][0] not in line] == []


WITHIN: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_,
    "struct": lambda kind: pa.struct([("a b", kind)]),
    "map": lambda kind: pa.map_(pa.string(), kind),
}


def nested(within: str) -> tuple[pa.DataType, Any]:
    """The type of 20 levels, and a value of it."""
    kind: pa.DataType = pa.int64()
    value: Any = 1
    for _ in range(19):
        kind = WITHIN[within](kind)
        value = {"list": [value], "struct": {"a b": value}, "map": [("k", value)]}[within]
    return kind, value


@pytest.mark.parametrize("within", WITHIN)
def test_20_levels_of_nesting_are_stored_and_read_even_with_a_small_stack(within: str, tmp_path: Path) -> None:
    kind, value = nested(within)
    one, path = pa.table({"v": pa.array([value], kind)}), tmp_path / "base.parquet"

    def worked() -> None:
        for key, state, keys, states in (("bigint", one.schema, [1], one), (one.schema, "bigint", one, [1])):
            made = tm.StateMap(key, state)
            made.put_many(pa.array(keys) if keys == [1] else keys, pa.array(states) if states == [1] else states, 1)
            made.write_base(path)
            read = tm.StateMap.read([path], key, state)
            ((found_key, found_state, _),) = read.get_all()
            made.put(found_key, found_state, 2)
            assert read.get(found_key) == made.get(found_key) == found_state
            assert read.get_many(one if keys is one else pa.array([1])).num_rows == 1
            done.append(made)

    done: list[tm.StateMap] = []
    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=worked)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(done) == 2


def test_a_panic_of_rust_is_an_internal_error() -> None:
    keys = pa.record_batch({"k": text(0, 1 << 30, 3)})  # given to the engine as it is, it reads beyond the text
    states = EngineMap.open(MapSchema("m", keys.schema, NOTHING, NOTHING), [], 0, 2**64 - 1)
    for _ in range(2):
        with pytest.raises(InternalError, match="the engine panicked: .*out of range") as caught:
            states.get_many(keys)
        assert type(caught.value) is InternalError
        assert caught.value.hint is not None


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.struct([("a", pa.struct([]))]),
        pa.list_(pa.struct([])),
        pa.map_(pa.string(), pa.struct([("b", pa.list_(pa.struct([])))])),
    ],
    ids=str,
)
def test_structs_without_fields_are_refused(kind: pa.DataType) -> None:
    columns = pa.schema([("s", kind)])
    for declared in (lambda: tm.StateMap("bigint", columns), lambda: tm.StateMap(columns, "bigint")):
        with pytest.raises(
            InvalidInput, match="cannot store `s.*`, a struct without fields, which Parquet does not support"
        ):
            declared()


if __name__ == "__main__":
    for case, (_, run) in CASES.items():
        print(json.dumps([case, run()]), flush=True)
