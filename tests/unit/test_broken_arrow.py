"""Arrow data that is not what it says, and types nested without an end: `InvalidInput`, and the map stays as it was.

The cases run in child processes: who believes such data ends the process, or reads memory that is not its own.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill._native import MapSchema, key_hashes
from tidemill._native import StateMap as EngineMap
from tidemill.errors import InvalidInput

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


BROKEN = "the Arrow data is broken"
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
        "nested more than 64 deep",
        lambda: [
            refused(lambda: MapSchema("m", NOTHING, NOTHING, pa.schema([("v", deep(20_000))]))),
            refused(lambda: tm.StateMap("bigint", pa.schema([("v", deep(20_000))]))),
            refused(lambda: tm.StateMap("bigint", deep(20_000))),
        ],
    ),
    "types of 65 levels": (
        "nested more than 64 deep",
        lambda: [
            refused(lambda: MapSchema("m", NOTHING, NOTHING, pa.schema([("v", deep(65))]))),
            refused(lambda: tm.StateMap(deep(65), "bigint")),
            refused(lambda: tm.StateMap("bigint", "v " + "array<" * 64 + "int" + ">" * 64)),
            refused(lambda: tm.StateMap("bigint", spark_type(64))),
        ],
    ),
    "types that a reader cannot follow": (
        "its types are nested without an end, or too deep",
        lambda: [
            refused(lambda: tm.StateMap("bigint", "v " + "array<" * 5_000 + "int" + ">" * 5_000)),
            refused(lambda: tm.StateMap("bigint", spark_type(5_000))),
            refused(lambda: tm.StateMap("bigint", Endless)),
        ],
    ),
}


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """What each case says, of one child process."""
    command = [sys.executable, "-m", "tests.unit.test_broken_arrow"]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "panicked" not in child.stderr
    return dict(json.loads(line) for line in child.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_and_changes_nothing(name: str, said: dict[str, list[str]]) -> None:
    assert said[name]
    assert [line for line in said[name] if CASES[name][0] not in line] == []


def test_64_levels_are_taken() -> None:
    for kind in (deep(64), deep(63, pa.map_(pa.string(), pa.int64())), deep(63, pa.struct([("a b", pa.int64())]))):
        assert len(tm.StateMap("bigint", pa.schema([("v", kind)]))) == 0
    value: Any = 1
    states = tm.StateMap("bigint", pa.schema([("v", deep(64))]))
    for _ in range(63):
        value = [value]
    states.put(1, (value,), 1)
    states.put_many(pa.array([2]), pa.table({"v": pa.array([value], deep(64))}), 1)
    assert [states.get(key)[0] for key in (1, 2)] == [value, value]


if __name__ == "__main__":
    for case, (_, run) in CASES.items():
        print(json.dumps([case, run()]), flush=True)
