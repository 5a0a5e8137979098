"""Parquet files with nested columns."""

from __future__ import annotations

import pyarrow as pa

from tests.reading.parquet_file import DAYS, ArrowFile, as_v, v


def nested() -> dict[str, ArrowFile]:
    person = pa.struct([("name", pa.string()), ("age", pa.int32())])
    deep = pa.struct([("p", person), ("tags", pa.list_(pa.struct([("k", pa.string()), ("n", pa.int16())])))])
    people = [{"name": "a", "age": 1}, {"name": None, "age": 2}, None]
    deeply = [
        {"p": people[0], "tags": [{"k": "x", "n": 1}, None, {"k": None, "n": None}]},
        {"p": None, "tags": []},
        {"p": people[1], "tags": None},
    ]
    lists = [[1, None, 3], [], [4]]
    maps = [[("a", 1), ("b", None)], [], [("c", 3)]]
    return {
        "struct": ArrowFile(
            v(people[:2], person),
            as_v(
                "struct<name: string, age: int>",
                "struct<age: int, name: string>",
                "struct<age: bigint>",
                "struct<AGE: int, more: string>",
                "struct<more: int>",
                "struct<name: string, age: tinyint>",
                "struct<name: int>",
                "string",
                "array<int>",
            ),
        ),
        "struct-deep": ArrowFile(
            v(deeply, deep),
            as_v(
                "struct<p: struct<name: string, age: int>, tags: array<struct<k: string, n: smallint>>>",
                "struct<tags: array<struct<n: int, k: string, z: date>>, p: struct<z: int, name: string>>",
                "struct<tags: array<struct<z: date>>>",
                "struct<p: struct<z: int>>",
                "struct<q: struct<z: int>, p: struct<age: bigint>>",
            ),
        ),
        "struct-required": ArrowFile(
            pa.table(
                [pa.array([{"x": 1}, {"x": 2}], pa.struct([pa.field("x", pa.int32(), False)]))],
                schema=pa.schema([pa.field("v", pa.struct([pa.field("x", pa.int32(), False)]), False)]),
            ),
            as_v("struct<x: int>", "struct<y: int>", "struct<x: bigint, y: int>"),
        ),
        "list": ArrowFile(
            v(lists, pa.list_(pa.int32())),
            as_v("array<int>", "array<bigint>", "array<string>", "int", "map<int, int>", "array<array<int>>"),
        ),
        "list-of-item": ArrowFile(
            v(lists, pa.list_(pa.int32())), as_v("array<int>"), {"use_compliant_nested_type": False}
        ),
        "list-of-lists": ArrowFile(
            v([[[1, 2], [], None], [], [[None]]], pa.list_(pa.list_(pa.int16()))),
            as_v("array<array<smallint>>", "array<array<int>>"),
        ),
        "list-large": ArrowFile(v(lists, pa.large_list(pa.int32())), as_v("array<int>")),
        "list-fixed": ArrowFile(v([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), as_v("array<int>")),
        "list-required": ArrowFile(
            pa.table(
                [pa.array([[1], []], pa.list_(pa.field("element", pa.int32(), False)))],
                schema=pa.schema([pa.field("v", pa.list_(pa.field("element", pa.int32(), False)), False)]),
            ),
            as_v("array<int>"),
        ),
        "list-of-dates": ArrowFile(
            v([[DAYS[0], None]], pa.list_(pa.date32())), as_v("array<date>", "array<timestamp_ntz>")
        ),
        "list-of-binary": ArrowFile(v([[b"a", None]], pa.list_(pa.binary())), as_v("array<string>", "array<binary>")),
        "list-of-null": ArrowFile(v([[None], []], pa.list_(pa.null())), as_v("array<int>", "array<string>")),
        "map": ArrowFile(
            v(maps, pa.map_(pa.string(), pa.int32())),
            as_v("map<string, int>", "map<string, bigint>", "map<int, int>", "array<struct<key: string, value: int>>"),
        ),
        "map-of-structs": ArrowFile(
            v([[(1, {"name": "a", "age": 2})]], pa.map_(pa.int32(), person)),
            as_v("map<int, struct<age: int>>", "map<bigint, struct<name: string, z: int>>"),
        ),
        "map-of-lists": ArrowFile(
            v([[("a", [1, None]), ("b", None)], []], pa.map_(pa.string(), pa.list_(pa.int32()))),
            as_v("map<string, array<int>>"),
        ),
        "map-with-equal-keys": ArrowFile(
            v([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), as_v("map<string, int>")
        ),
        "nested-in-row-groups": ArrowFile(
            v([[{"name": str(i), "age": i}] * (i % 3) for i in range(12)], pa.list_(person)),
            as_v("array<struct<age: int, name: string>>"),
            {"row_group_size": 5, "data_page_version": "2.0", "data_page_size": 16},
        ),
        "struct-with-null-field": ArrowFile(
            v([{"x": None, "y": 1}], pa.struct([("x", pa.null()), ("y", pa.int32())])),
            as_v("struct<x: string, y: int>", "struct<y: int>"),
        ),
    }
