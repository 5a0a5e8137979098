"""docs/format.md is sufficient to write segments: Tidemill reads those of another writer like its own."""

from __future__ import annotations

import hashlib
import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.golden import foreign
from tests.golden.conftest import EXPECTED, Golden, cells
from tests.golden.segments import comparable
from tests.unit.protocol.valid_records import sealed
from tidemill._native import MapSchema, Run, StateMap
from tidemill.errors import CorruptState

AT = datetime(2024, 2, 29, 12, 30, 0, 123456)
TIMES = [AT, None, *(datetime(year, 1, 1) for year in (1900, 1970, 2000, 9999))]
PAIR = pa.struct([("name", pa.string()), ("x", pa.list_(pa.float64()))])
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, None, False, True, False, False]),
    "i8": (pa.int8(), [-1, None, 1, 127, 0, 5]),
    "i16": (pa.int16(), [-1, None, 1, 2**15 - 1, 0, 5]),
    "i32": (pa.int32(), [-1, None, 1, 2**31 - 1, 0, 5]),
    "i64": (pa.int64(), [-(2**63), None, 1, 2**63 - 1, 0, 5]),
    "f32": (pa.float32(), [-0.0, None, math.inf, math.nan, 0.5, 1.0]),
    "f64": (pa.float64(), [-0.0, None, -math.inf, -math.nan, 0.1, 1.0]),
    "text": (pa.string(), ["", None, "日本", "a", "b", "c"]),
    "bytes": (pa.binary(), [b"", None, b"\xff\0", b"a", b"\xff", b"c"]),
    "day": (pa.date32(), [date(1969, 12, 31), None, date(2024, 2, 29), date(1, 1, 1), date(1970, 1, 1), AT.date()]),
    "at": (pa.timestamp("us", "UTC"), [time and time.replace(tzinfo=UTC) for time in TIMES]),
    "local": (pa.timestamp("us"), TIMES),
    "short": (pa.decimal128(7, 2), [Decimal(n) / 4 for n in range(5)] + [None]),
    "amount": (
        pa.decimal128(38, 2),
        [Decimal("-1.25"), None, Decimal("0.00"), Decimal("9" * 36 + ".99"), Decimal(1), Decimal(2)],
    ),
    "list": (pa.list_(pa.int64()), [[1, None], None, [], [2], [1], [None]]),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        [[("b", -0.0), ("a", math.nan)], None, [], [("b", None)], [("a", 1.0)], []],
    ),
    "pair": (
        PAIR,
        [{"name": "a", "x": [-0.0]}, None, {"name": None, "x": None}, {"name": "", "x": []}, {"name": "b", "x": [None]},
         None],
    ),
}  # fmt: skip
ROWS = 6


def columns(prefix: str, names: list[str]) -> pa.Schema:
    return pa.schema([(prefix + name, COLUMNS[name][0]) for name in names])


def made(key: list[str], sub_key: list[str]) -> tuple[list[dict[str, Any]], pa.Schema, pa.Schema, pa.Schema]:
    """Rows keyed by these columns, with all columns as values; the last is a tombstone, every other has a deadline."""
    value = columns("", list(COLUMNS))
    rows = []
    for row in range(ROWS):
        gone = row == ROWS - 1
        at = {f"key_{name}": COLUMNS[name][1][row] for name in [*key, *sub_key]}
        rows.append(at | {name: None if gone else cells[row] for name, (_, cells) in COLUMNS.items()} | {
            "updated_at": datetime(2024, 1, 1, 0, 0, row, tzinfo=UTC),
            "deadline": datetime(2025, 1, 1, 0, 0, row, tzinfo=UTC) if row % 2 == 0 else None,
            "deleted": gone,
        })  # fmt: skip
    return rows, columns("key_", key), columns("key_", sub_key), value


@pytest.mark.parametrize(
    ("key", "sub_key"),
    [(list(COLUMNS), []), ([], list(COLUMNS)), (["flag"], ["text", "pair"]), (["map"], ["i64"]), (["amount"], [])],
)
def test_a_segment_of_another_writer_is_read(key: list[str], sub_key: list[str]) -> None:
    rows, *parts = made(key, sub_key)
    schema = MapSchema("foreign", *parts)
    found = Run.read(schema, foreign.segment(rows, *parts), "foreign")
    expected = [row for _, row in foreign.ordered(rows, *parts[:2])]
    assert [comparable(row) for row in found.rows().to_pylist()] == [
        comparable(row) for row in pa.Table.from_pylist(expected, schema.columns).to_pylist()
    ]
    assert Run.read(schema, found.write(), "again").write() == found.write()
    states = StateMap.open(schema, [found], 0, 2**64 - 1)
    assert len(states) == ROWS - 1 and len(states.get_due(2**62)) == 3


def test_a_state_map_reads_and_continues_a_base_of_another_writer(tmp_path: Path) -> None:
    key = [name for name in COLUMNS if name != "map"]
    rows, *parts = made(key, [])
    base, delta = tmp_path / "base.parquet", tmp_path / "delta.parquet"
    base.write_bytes(foreign.segment(rows, *parts))
    states = tm.StateMap.read([base])
    keys = pa.Table.from_pylist(rows, parts[0])
    found = states.get_many(keys).to_pylist()
    expected = pa.Table.from_pylist(rows, parts[2]).to_pylist()
    for row, shown, values in zip(rows, found, expected, strict=True):
        assert comparable({name: shown[name] for name in COLUMNS}) == comparable(values)
        assert shown["deadline"] == (None if row["deleted"] else row["deadline"])
        assert shown["updated_at"] == (None if row["deleted"] else row["updated_at"])
    assert len(states) == ROWS - 1
    states.remove_many(keys.slice(0, 1))
    states.write_delta(delta)
    later = tm.StateMap.read([base, delta])
    assert len(later) == ROWS - 2
    assert later.get_many(keys.slice(0, 1)).to_pylist()[0]["updated_at"] is None
    assert later.get_many(keys.slice(2, 1)).to_pylist()[0]["updated_at"] == rows[2]["updated_at"]


def many(count: int, **options: Any) -> bytes:
    """Return a segment with `count` keys whose values are dictionary-encoded."""
    system = {"updated_at": datetime(2024, 1, 1, tzinfo=UTC), "deadline": None, "deleted": False}
    rows = [{"k": number, "v": -number, **system} for number in range(count)]
    return foreign.segment(rows, *NUMBERS, dictionaries=["v"], **options)


NUMBERS = (pa.schema([("k", pa.int64())]), pa.schema([]), pa.schema([("v", pa.int64())]))


def test_columns_with_a_dictionary_are_read() -> None:
    run = Run.read(MapSchema("foreign", *NUMBERS), many(9000), "foreign")
    states = StateMap.open(MapSchema("foreign", *NUMBERS), [run], 0, 2**64 - 1)
    assert len(states) == 9000
    assert states.get_many(pa.record_batch({"k": [7, 8999]}))[1].column("v").to_pylist() == [-7, -8999]


def test_a_dictionary_that_claims_more_than_its_bytes_is_an_error() -> None:
    def claiming(data: bytes) -> bytes:
        group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
        (column,) = [group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "v"]
        # Thrift: the header of a dictionary's page as field 7, and in it the number of entries, here in three bytes.
        at = data.index(b"\x4c\x15", column.dictionary_page_offset) + 2
        assert data[at : at + 3] == b"\xd0\x8c\x01"  # 18,000, which is 9,000
        return data[:at] + b"\xfe\xff\x7f" + data[at + 3 :]

    with pytest.raises(CorruptState, match="column `v`: a dictionary of 72000 bytes has 1048575 entries"):
        Run.read(MapSchema("foreign", *NUMBERS), many(9000, forged=claiming), "foreign")


def test_a_segment_without_rows_has_no_row_group() -> None:
    parts = (pa.schema([("k", pa.string())]), pa.schema([]), pa.schema([("n", pa.list_(pa.int64()))]))
    assert len(Run.read(MapSchema("foreign", *parts), foreign.segment([], *parts), "foreign")) == 0


def test_a_repository_with_segments_of_another_writer_is_read_and_continued(golden: Golden) -> None:
    raw = golden.record(4)
    written = 0
    for maps in raw["state"].values():
        for segments in maps.values():
            for segment in segments:
                path = golden.repository / segment["name"]
                table = pq.read_table(path)
                entries = {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}
                keys, subs = int(entries["tidemill.key_columns"]), int(entries["tidemill.sub_key_columns"])
                fields = [table.schema.field(number) for number in range(table.num_columns - 3)]
                parts = [pa.schema(part) for part in (fields[:keys], fields[keys : keys + subs], fields[keys + subs :])]
                data = foreign.segment(table.to_pylist(), *parts)
                path.write_bytes(data)
                segment |= {"size": len(data), "checksum": hashlib.blake2b(data, digest_size=16).hexdigest()}
                written += 1
    golden.commit(4).write_bytes(sealed(raw))
    assert written > 0
    for operator, expected in EXPECTED["4"]["state"].items():
        assert cells(golden.open().state(operator, partial=True)) == expected, operator
