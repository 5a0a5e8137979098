"""Golden segments of format 1, written once, and the rows that must be read from them.

Those of `FOLDER` were written before footers had a checksum, those of `SEALED` since then.

`python -m tests.golden.segments` writes those that are missing. None is ever written again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill._native import MapSchema, Run, StateMap

FOLDER = Path(__file__).parent / "segments-1"
SEALED = Path(__file__).parent / "segments-1-sealed"
AT = datetime(2024, 2, 29, 12, 30, 0, 123456)
NOTHING = pa.schema([])


Made = tuple[MapSchema, Run]


def _run(key: pa.Table, sub_key: pa.Schema, value: pa.Table, gone: list[int]) -> Made:
    key = key.select([*(name for name in key.column_names if name not in sub_key.names), *sub_key.names])
    schema = MapSchema(
        "golden", pa.schema([f for f in key.schema if f.name not in sub_key.names]), sub_key, value.schema
    )
    states = StateMap.open(schema, [], 0, 2**64 - 1)
    keys, values = key.combine_chunks().to_batches(), value.combine_chunks().to_batches()
    if keys:
        states.put_many(keys[0], values[0], 1_709_209_800_000, pa.array(range(key.num_rows), pa.int64()))
        states.remove_many(keys[0].take(pa.array(gone, pa.int64())))
    return schema, states.delta() or states.base()


def every_type() -> Made:
    """Every type that a key may have, as key and as value, with nulls in one row, and a tombstone."""
    columns = {
        "flag": pa.array([True, None, False, True]),
        "i8": pa.array([-1, None, 1, 127], pa.int8()),
        "i16": pa.array([-1, None, 1, 2**15 - 1], pa.int16()),
        "i32": pa.array([-1, None, 1, 2**31 - 1], pa.int32()),
        "i64": pa.array([-(2**63), None, 1, 2**63 - 1], pa.int64()),
        "f32": pa.array([0.0, None, math.inf, math.nan], pa.float32()),
        "f64": pa.array([0.0, None, -math.inf, math.nan], pa.float64()),
        "text": pa.array(["", None, "日本", "a"]),
        "bytes": pa.array([b"", None, b"\xff\0", b"a"]),
        "day": pa.array([date(1969, 12, 31), None, date(2024, 2, 29), date(1, 1, 1)]),
        "at": pa.array([AT.replace(tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC), AT.replace(tzinfo=UTC)],
                       pa.timestamp("us", "UTC")),
        "local": pa.array([AT, None, datetime(1900, 1, 1), AT], pa.timestamp("us")),
        "amount": pa.array([Decimal("-1.25"), None, Decimal("0.00"), Decimal("9" * 36 + ".99")], pa.decimal128(38, 2)),
    }  # fmt: skip
    keys = pa.table({f"key_{name}": column for name, column in columns.items()})
    values = {
        **columns,
        "list": pa.array([[1, None], None, [], [2]], pa.list_(pa.int64())),
        "map": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}, {"x": 2, "y": []}],
                           pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    }  # fmt: skip
    return _run(keys, pa.schema([("key_i64", pa.int64())]), pa.table(values), [2])


def nested_keys() -> Made:
    """Keys that are structs, lists and maps."""
    pair = pa.struct([("name", pa.string()), ("x", pa.float64())])
    rows = [{"name": "a", "x": 0.0}, None, {"name": None, "x": math.nan}, {"name": "a", "x": None}]
    keys = pa.table(
        {
            "pair": pa.array(rows, pair),
            "list": pa.array([[1, None], None, [], [2]], pa.list_(pa.int64())),
            "map": pa.array([[("a", 1), ("b", 2)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    return _run(keys, NOTHING, pa.table({"n": pa.array([1, 2, 3, 4])}), [])


def empty() -> Made:
    """No rows, and so no row group."""
    return _run(pa.table({"k": pa.array([], pa.string())}), NOTHING, pa.table({"n": pa.array([], pa.int64())}), [])


GOOD: dict[str, Callable[[], Made]] = {
    "every-type": every_type,
    "nested-keys": nested_keys,
    "empty": empty,
}
CORRUPT = [
    ("truncated", "not a valid Tidemill segment"),
    ("half", "not a valid Tidemill segment"),
    ("flipped", "row group 0 does not match its checksum"),
    ("other-format", "`tidemill.format` is `2`, expected `1`"),
    ("many-rows", "row group 0 has 4 rows, expected 9"),
    ("other-hashes", "row group 0 has the key hashes"),
]
"""Damaged segments in `FOLDER`, each with the expected error."""


def comparable(cell: Any) -> str:
    """Compare values. NaN equals NaN, and a map is a list of pairs or of structs."""
    if isinstance(cell, list):
        pairs = [tuple(one.values()) if isinstance(one, dict) and set(one) == {"key", "value"} else one for one in cell]
        return repr([comparable(one) for one in pairs])
    if isinstance(cell, tuple):
        return repr([comparable(one) for one in cell])
    return repr({name: comparable(one) for name, one in cell.items()}) if isinstance(cell, dict) else repr(cell)


def main() -> None:
    """Writes what is missing; nothing is missing in `FOLDER`, nor can it be written any more."""
    SEALED.mkdir(exist_ok=True)
    for name, make in GOOD.items():
        _once(SEALED / f"{name}.parquet", make()[1].write())
    good = (SEALED / "every-type.parquet").read_bytes()
    _once(SEALED / "other-footer.parquet", good.replace(b"tidemill version 1", b"tidemill version 9"))


def _once(file: Path, data: bytes) -> None:
    if not file.exists():
        file.write_bytes(data)


if __name__ == "__main__":
    main()
