"""Parquet: columns match by name, types are widened without loss, and a misfit or damaged file is one reject."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sources.reading import blocks, file, rejects, rows, values
from tidemill.errors import InvalidInput
from tidemill.sources import bad_file, parquet
from tidemill.sources.contract import Block, ReadContext
from tidemill.sources.files import Files


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [True], "b": ["x"], "a": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    found = blocks(Files(tmp_path, schema="a int, b string"))
    assert found[0].rows.schema.names == ["a", "b", "_row"]
    assert values(found) == [(1, "x")]


@pytest.mark.parametrize(
    ("kind", "array", "value"),
    [
        ("bigint", pa.array([5], pa.int8()), 5),
        ("bigint", pa.array([5], pa.uint32()), 5),
        ("decimal(20,0)", pa.array([2**64 - 1], pa.uint64()), Decimal(2**64 - 1)),
        ("double", pa.array([0.5], pa.float32()), 0.5),
        ("double", pa.array([5], pa.int32()), 5.0),
        ("decimal(12,2)", pa.array([5], pa.int32()), Decimal("5.00")),
        ("decimal(12,3)", pa.array([Decimal("1.10")], pa.decimal128(10, 2)), Decimal("1.100")),
        ("string", pa.array(["x"], pa.large_string()), "x"),
        ("string", pa.array(["x"]).dictionary_encode(), "x"),
        (
            "timestamp",
            pa.array([1], pa.timestamp("ms", tz="America/New_York")),
            datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
        ),
        ("timestamp_ntz", pa.array([1000], pa.timestamp("ns")), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("array<bigint>", pa.array([[1]], pa.large_list(pa.int32())), [1]),
        ("struct<a: double>", pa.array([{"a": 1.5}], pa.struct([("a", pa.float32())])), {"a": 1.5}),
    ],
)
def test_types_are_widened_if_no_value_changes(tmp_path: Path, kind: str, array: pa.Array, value: object) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    assert values(blocks(Files(tmp_path, schema=f"v {kind}"))) == [(value,)]


@pytest.mark.parametrize(
    ("kind", "array", "reason"),
    [
        ("int", pa.array([5], pa.int64()), "column `v` is bigint, expected int"),
        ("float", pa.array([0.5], pa.float64()), "column `v` is double, expected float"),
        ("double", pa.array([5], pa.int64()), "column `v` is bigint, expected double"),
        ("string", pa.array([5], pa.int64()), "column `v` is bigint, expected string"),
        ("timestamp", pa.array([5], pa.timestamp("us")), "column `v` is timestamp_ntz, expected timestamp"),
        ("decimal(10,2)", pa.array([Decimal("1.123")]), "column `v` is decimal(4,3), expected decimal(10,2)"),
        ("int", pa.array([5], pa.time32("s")), "column `v` is time, expected int"),
        ("timestamp_ntz", pa.array([1001], pa.timestamp("ns")), "would lose data"),
    ],
)
def test_a_file_with_another_type_is_one_reject(tmp_path: Path, kind: str, array: pa.Array, reason: str) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    found = blocks(Files(tmp_path, schema=f"v {kind}", badFiles="quarantine"))
    [reject] = rejects(found)
    assert values(found) == []
    assert (reject["file"], reject["line"]) == ("a.parquet", None)
    assert reason in reject["reason"]
    with pytest.raises(InvalidInput) as caught:
        blocks(Files(tmp_path, schema=f"v {kind}"))
    assert caught.value.first_line.startswith("read file `a.parquet` of source `source`: ")


def test_a_missing_column_error_names_the_found_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1], "w": [2]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="the file lacks `x`; found `v`, `w`"):
        blocks(Files(tmp_path, schema="v long, x int"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("nothing like it", "the file has only 4 bytes"),
        ("a text", r"the file begins with the bytes 6b 2c 76 0a (`k,v\n`), expected PAR1"),
        ("cut", "expected PAR1: it was cut off, or is still being written"),
        ("empty", "the file is empty"),
    ],
)
def test_a_damaged_file_is_one_reject(tmp_path: Path, damage: str, said: str) -> None:
    pq.write_table(pa.table({"v": pa.array(range(1000), pa.int32())}), tmp_path / "b.parquet")
    whole = (tmp_path / "b.parquet").read_bytes()
    others = {"nothing like it": b"v\n1\n", "a text": b"k,v\n" * 9, "cut": whole[: len(whole) // 2], "empty": b""}
    file(tmp_path, "a.parquet", others[damage])
    found = blocks(Files(tmp_path, schema="v int", badFiles="quarantine"), block_rows=400)
    [reject] = rejects(found)
    assert (reject["file"], len(rows(found))) == ("a.parquet", 1000)
    assert reject["reason"].startswith("not a valid Parquet file: the file ")
    assert reject["reason"].endswith(f"{said}; its rows are not read and cannot be counted")


LARGE_ROWS = 400_000


@pytest.fixture(params=["kept", "decoded twice"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with rows that are kept in memory, and with rows that are decoded twice."""
    if request.param == "decoded twice":
        monkeypatch.setattr(bad_file, "_KEPT_BYTES", 1_000_000)


def large(folder: Path) -> Path:
    """Write a file that is larger than one read batch, in four row groups of equal size."""
    path = folder / "a.parquet"
    pq.write_table(pa.table({"v": pa.array(range(LARGE_ROWS), pa.int64())}), path, row_group_size=LARGE_ROWS // 4)
    return path


def damage(path: Path, row_group: int) -> None:
    """Overwrite the start of a row group in place."""
    with open(path, "r+b") as opened:
        opened.seek(start_of(path, row_group))
        opened.write(b"\xff" * 64)


def start_of(path: Path, row_group: int) -> int:
    """Return the position of the first byte of a row group."""
    column = pq.ParquetFile(path).metadata.row_group(row_group).column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def read_in_four(source: Files, block_rows: int = 50_000) -> list[list[Block]]:
    """Return the blocks of each of the four splits of the file."""
    planned = Files(source.path, schema=source.schema)  # as a plan has them that was made with badFiles="fail"
    splits = planned.splits(planned.look("source"), split_bytes=1)
    assert [split.first_row for split in splits] == [i * LARGE_ROWS // 4 for i in range(4)]
    return [list(source.read(split, block_rows, ReadContext())) for split in splits]


def values_of(found: list[Block]) -> list[int]:
    return [value for block in found for value in block.rows.column("v").to_pylist()]


@pytest.mark.usefixtures("passes")
def test_damage_late_in_a_file_gives_one_reject_and_no_rows(tmp_path: Path) -> None:
    damage(large(tmp_path), row_group=3)
    found = blocks(Files(tmp_path, schema="v bigint", badFiles="quarantine"))
    [reject] = rejects(found)
    assert values_of(found) == []
    assert reject["reason"].startswith("not a valid Parquet file: ")
    assert reject["reason"].endswith("; none of its 400,000 rows is read")
    with pytest.raises(InvalidInput, match="not a valid Parquet file"):
        blocks(Files(tmp_path, schema="v bigint"))


@pytest.mark.usefixtures("passes")
def test_a_value_outside_its_type_late_in_a_file_rejects_the_file(tmp_path: Path) -> None:
    times = pa.array([1000] * (LARGE_ROWS - 1) + [1001], pa.timestamp("ns"))
    pq.write_table(pa.table({"v": times}), tmp_path / "a.parquet")
    found = blocks(Files(tmp_path, schema="v timestamp_ntz", badFiles="quarantine"))
    [reject] = rejects(found)
    assert values_of(found) == []
    assert "would lose data" in reject["reason"]
    assert reject["reason"].endswith("; none of its 400,000 rows is read")


@pytest.mark.parametrize("nested", [False, True])
def test_a_decimal_with_more_digits_than_declared_rejects_the_file(tmp_path: Path, nested: bool) -> None:
    value = Decimal(10) ** 20  # 23 digits, two of them after the point
    cells = pa.array(
        [[value]] if nested else [value], pa.list_(pa.decimal128(23, 2)) if nested else pa.decimal128(23, 2)
    )
    pq.write_table(pa.table({"v": cells}), tmp_path / "a.parquet", compression="none", store_schema=False)
    data = (tmp_path / "a.parquet").read_bytes()
    scale_and_digits = bytes([0x15, 4, 0x15, 2 * 23])  # in Thrift, both doubled
    assert data.count(scale_and_digits) == 2
    (tmp_path / "a.parquet").write_bytes(data.replace(scale_and_digits, bytes([0x15, 4, 0x15, 2 * 22])))
    schema = "v array<decimal(22,2)>" if nested else "v decimal(22,2)"
    found = blocks(Files(tmp_path, schema=schema, badFiles="quarantine"))
    [reject] = rejects(found)
    assert rows(found) == []
    assert "does not fit in precision of decimal128(22, 2)" in reject["reason"]
    assert reject["reason"].endswith("; its only row is not read")
    with pytest.raises(InvalidInput, match="not a valid Parquet file: .* does not fit in precision"):
        blocks(Files(tmp_path, schema=schema))


@pytest.mark.usefixtures("passes")
def test_no_split_of_a_file_with_damage_is_read(tmp_path: Path) -> None:
    damage(large(tmp_path), row_group=2)
    found = read_in_four(Files(tmp_path, schema="v bigint", badFiles="quarantine"))
    assert [values_of(split) for split in found] == [[], [], [], []]
    assert [[block.lost_rows for block in split] for split in found] == [[400_000], [], [], []]
    assert rejects(found[0])[0]["reason"].endswith("; none of its 400,000 rows is read")


def test_a_misfit_file_in_splits_is_one_reject(tmp_path: Path) -> None:
    large(tmp_path)
    found = read_in_four(Files(tmp_path, schema="v string", badFiles="quarantine"))
    assert [len(rejects(split)) for split in found] == [1, 0, 0, 0]
    assert [values_of(split) for split in found] == [[]] * 4
    reason = "column `v` is bigint, expected string; none of its 400,000 rows is read"
    assert rejects(found[0])[0]["reason"] == reason
    source = Files(tmp_path, schema="v string")
    for split in source.splits(source.look("source"), split_bytes=1):
        with pytest.raises(InvalidInput, match="column `v` is bigint, expected string"):
            list(source.read(split, 1000, ReadContext()))


def test_a_file_in_splits_with_a_misfit_folder_is_one_reject(tmp_path: Path) -> None:
    (tmp_path / "dt=yesterday").mkdir()
    large(tmp_path / "dt=yesterday")
    found = read_in_four(Files(tmp_path, schema="v bigint, dt date", badFiles="quarantine"))
    assert [len(rejects(split)) for split in found] == [1, 0, 0, 0]
    assert [values_of(split) for split in found] == [[]] * 4
    reason = rejects(found[0])[0]["reason"]
    assert reason == ("folder `dt=yesterday`: found `yesterday`, expected date; none of its 400,000 rows is read")


@pytest.mark.usefixtures("passes")
def test_blocks_are_the_same_whatever_becomes_of_bad_files(tmp_path: Path) -> None:
    large(tmp_path)
    strict, checked = (blocks(Files(tmp_path, schema="v bigint", badFiles=b)) for b in ("fail", "quarantine"))
    assert len(strict) == 400
    assert [(block.number, block.rows) for block in strict] == [(block.number, block.rows) for block in checked]


def test_a_file_that_may_go_to_quarantine_is_planned_as_a_whole(tmp_path: Path) -> None:
    large(tmp_path)
    source = Files(tmp_path, schema="v bigint", badFiles="quarantine")
    [split] = source.splits(source.look("source"), split_bytes=1)
    assert split.row_groups is None


class DamagedLater:
    """A file whose bytes from `position` on are damaged once it is opened again."""

    def __init__(self, path: Path, position: int) -> None:
        self.data, self.position, self.opened = path.read_bytes(), position, 0
        self.size = len(self.data)

    def read_at(self, start: int, length: int) -> bytes:
        is_damaged = self.opened > 1
        data = self.data[: self.position] + b"\xff" * 64 + self.data[self.position + 64 :] if is_damaged else self.data
        return data[start : start + length]


def test_damage_after_the_check_of_a_split_fails_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bad_file, "_KEPT_BYTES", 1_000_000)
    path = large(tmp_path)
    damaged = DamagedLater(path, start_of(path, row_group=3))
    real = parquet._open

    def opened(_: object, __: str) -> object:
        damaged.opened += 1
        return real(damaged)

    monkeypatch.setattr(parquet, "_open", opened)
    source = Files(tmp_path, schema="v bigint", badFiles="quarantine")
    [split] = source.splits(source.look("source"))
    reading = source.read(split, 1000, ReadContext())
    assert next(reading).rows.num_rows == 1000
    message = "the file was valid when it was checked, but is damaged now: not a valid Parquet file: "
    with pytest.raises(InvalidInput, match=message):
        list(reading)


def test_large_files_are_read_by_row_groups_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array(range(10_000), pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000, compression="none", use_dictionary=False)
    source = Files(tmp_path, schema="v bigint")
    splits = source.splits(source.look("source"), split_bytes=25_000)
    assert [(split.row_groups, split.first_row) for split in splits] == [
        ((first, min(first + 2, 9)), first * 1000) for first in (0, 3, 6, 9)
    ]
    found = [block for split in splits for block in source.read(split, 700, ReadContext())]
    assert [(row["v"], row["_row"]) for row in rows(found)] == [(i, i) for i in range(10_000)]
    assert [block.rows.num_rows for block in found] == [700, 700, 700, 700, 200] * 3 + [700, 300]


def test_a_large_invalid_parquet_file_is_one_split(tmp_path: Path) -> None:
    file(tmp_path, "a.parquet", b"x" * 1000)
    source = Files(tmp_path, schema="v bigint")
    assert len(source.splits(source.look("source"), split_bytes=10)) == 1


def test_a_schema_is_required() -> None:
    with pytest.raises(InvalidInput) as caught:
        Files("somewhere")
    assert caught.value.first_line == "tm.Files('somewhere', format='parquet') has no schema"


@pytest.mark.parametrize("claimed", [999, 1001])
def test_a_file_that_claims_other_rows_than_it_has_is_an_error(tmp_path: Path, claimed: int) -> None:
    pq.write_table(pa.table({"v": pa.array(range(1000), pa.int32())}), tmp_path / "a.parquet", store_schema=False)
    data = (tmp_path / "a.parquet").read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    as_stored = (2 * 1000 & 0x7F | 0x80, 2 * 1000 >> 7), (2 * claimed & 0x7F | 0x80, 2 * claimed >> 7)
    footer = data[start:].replace(bytes(as_stored[0]), bytes(as_stored[1]))
    assert footer != data[start:]
    (tmp_path / "a.parquet").write_bytes(data[:start] + footer)
    with pytest.raises(InvalidInput, match="its columns do not have as many rows as its row groups"):
        blocks(Files(tmp_path, schema="v int"))


def test_a_page_that_claims_gigabytes_is_an_error(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([7] * 1000, pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False, write_statistics=False, store_schema=False)
    data = (tmp_path / "a.parquet").read_bytes()
    assert data[4:7] == bytes([0x15, 0, 0x15])  # in Thrift: a data page, and then its size
    after = 8 + next(i for i, byte in enumerate(data[7:]) if byte < 0x80)
    column = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0)
    assert column.data_page_offset == 4
    claim = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0x0F])  # 2**31 - 1
    changed = data[:7] + claim + data[after:]
    (tmp_path / "a.parquet").write_bytes(changed)
    with pytest.raises(InvalidInput, match="Parquet file: a page of [0-9]+ bytes claims 2147483647 bytes"):
        blocks(Files(tmp_path, schema="v int"))


@pytest.mark.parametrize(
    ("schema", "array"),
    [
        ("a int not null", pa.array([1, None], pa.int32())),
        ("a struct<x:int not null>", pa.array([{"x": 1}, {"x": None}], pa.struct([("x", pa.int32())]))),
    ],
)
def test_a_null_where_none_is_allowed_makes_the_file_unreadable(tmp_path: Path, schema: str, array: pa.Array) -> None:
    pq.write_table(pa.table({"a": array}), tmp_path / "a.parquet")
    with pytest.raises(
        InvalidInput, match="column `a`: found a null, expected a value, because it is declared not null"
    ):
        blocks(Files(tmp_path, schema=schema))


def test_a_file_without_any_column_of_the_schema_is_another_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"z": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="the file has the columns `z`, expected `a`, `b`"):
        blocks(Files(tmp_path, schema="a int, b string", missingColumns="null"))
