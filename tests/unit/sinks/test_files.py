"""Sinks: the same rows give the same bytes, files are as Spark writes them, and decoding returns exact values."""

from __future__ import annotations

import decimal
import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tidemill.errors import InvalidInput
from tidemill.schema import to_arrow
from tidemill.sinks.files import Json, Parquet
from tidemill.sinks.forms import unstaged

SCHEMA = to_arrow(
    "i int, d double, e decimal(10,2), t timestamp, n timestamp_ntz, dt date, b binary, a array<int>, "
    "m map<string,int>, s struct<p: int, q: string>, x string, y boolean, f float, l bigint, mi map<int,date>, "
    "_batch_id bigint not null"
)
FULL: dict[str, Any] = {
    "i": 1,
    "d": float("nan"),
    "e": Decimal("1.10"),
    "t": datetime(2013, 1, 1, 5, 0, 0, 123456, UTC),
    "n": datetime(2013, 1, 1, 5),
    "dt": date(2013, 1, 1),
    "b": b"ab",
    "a": [1, None],
    "m": [("k", None)],
    "s": {"p": 1, "q": None},
    "x": 'é"\n\u2028\\',
    "y": True,
    "f": 0.1,
    "l": 2**62,
    "mi": [(1, date(2013, 1, 1))],
    "_batch_id": 7,
}


def decoded(sink: Parquet, files: list[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
    return unstaged(files, schema, sink.extension, "a test")


def table(*rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal to the last bit, NaN equal to NaN."""
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())


def test_json_equals_the_json_of_spark() -> None:
    [encoded] = Json("out").stage(table(FULL, {"_batch_id": 7}))
    assert (encoded.suffix, encoded.extension, encoded.rows) == ("", ".json", 2)
    first, second, rest = encoded.data.decode().split("\n")
    assert (second, rest) == ('{"_batch_id":7}', "")
    assert first == (
        '{"i":1,"d":"NaN","e":1.10,"t":"2013-01-01T05:00:00.123456Z","n":"2013-01-01T05:00:00.000","dt":"2013-01-01",'
        '"b":"YWI=","a":[1,null],"m":{"k":null},"s":{"p":1},"x":"é\\"\\n\u2028\\\\","y":true,"f":0.1,'
        '"l":4611686018427387904,"mi":{"1":"2013-01-01"},"_batch_id":7}'
    )


@pytest.mark.parametrize("sink", [Parquet("out"), Json("out")])
def test_decoding_returns_exact_values(sink: Parquet) -> None:
    rows = table(
        FULL,
        {"_batch_id": 1},
        {"d": -0.0, "f": float("-inf"), "s": {}, "a": [], "m": [], "e": Decimal("-99999999.99"), "_batch_id": 2},
        {"d": 5e-324, "t": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "dt": date(1, 1, 1), "_batch_id": 3},
        {"d": 1e300, "t": datetime(9999, 12, 31, tzinfo=UTC), "x": "", "b": b"", "l": -(2**63), "_batch_id": 4},
    )
    [encoded] = sink.stage(rows)
    assert same(decoded(sink, [(encoded.data, encoded.suffix)], SCHEMA), rows)


def test_no_rows_are_an_empty_file() -> None:
    for sink in (Parquet("out"), Json("out")):
        [encoded] = sink.stage(SCHEMA.empty_table())
        assert encoded.rows == 0
        assert same(decoded(sink, [(encoded.data, "")], SCHEMA), SCHEMA.empty_table())
        assert same(decoded(sink, [], SCHEMA), SCHEMA.empty_table())


@pytest.mark.parametrize("sink", [Parquet("out", partitionBy=["y"]), Json("out")])
def test_the_same_rows_give_the_same_bytes_however_they_are_chunked(sink: Parquet) -> None:
    rows = table(*({**FULL, "i": i, "y": bool(i % 3)} for i in range(100)))
    chunked = pa.concat_tables([rows.slice(0, 37), rows.slice(37, 1), rows.slice(38)])
    assert sink.stage(rows) == sink.stage(chunked)


def test_json_of_sliced_rows() -> None:
    rows = table(*({"x": str(i), "_batch_id": i} for i in range(10)))
    [encoded] = Json("out").stage(rows.slice(3, 2))
    assert encoded.data == b'{"x":"3","_batch_id":3}\n{"x":"4","_batch_id":4}\n'


LONG = to_arrow("e decimal(38,20), d double, n decimal(38,0), z array<decimal(30,10)>")


def test_json_keeps_more_digits_than_a_double() -> None:
    rows = table(
        {
            "e": Decimal("123456789012345678.12345678901234567891"),
            "d": 0.1234567890123456789,
            "n": Decimal(10**37 + 1),
            "z": [Decimal("12345678901234567890.0123456789")],
        },
        schema=LONG,
    )
    [encoded] = Json("out").stage(rows)
    assert same(decoded(Json("out"), [(encoded.data, "")], LONG), rows)


def test_columns_may_have_any_name() -> None:
    schema = to_arrow("_row int, line string, `a b` int, x0 array<int>, `q\"'` struct<`_ _`: int>")
    rows = table({"_row": 1, "line": "x", "a b": 2, "x0": [3], "q\"'": {"_ _": 4}}, schema=schema)
    for sink in (Parquet("out"), Json("out")):
        assert same(decoded(sink, [(sink.stage(rows)[0].data, "")], schema), rows)


PARTITIONED = to_arrow("country string, n int, at timestamp, v double, _batch_id bigint not null")


def test_partition_columns_become_folders_as_spark_names_them() -> None:
    at = datetime(2013, 1, 1, 5, 0, 0, 500000, UTC)
    rows = table(
        {"country": "UK", "n": 1, "at": at, "v": 1.0, "_batch_id": 0},
        {"country": "a/b=c:d", "n": None, "at": None, "v": 2.0, "_batch_id": 0},
        {"country": None, "n": 2, "at": at, "v": 3.0, "_batch_id": 0},
        {"country": "UK", "n": 1, "at": at, "v": 4.0, "_batch_id": 0},
        {"country": "Île {x}", "n": -1, "at": at, "v": 5.0, "_batch_id": 0},
        schema=PARTITIONED,
    )
    for sink in (Parquet("out", partitionBy=["country", "n", "at"]), Json("out", partitionBy=["country", "n", "at"])):
        found = sink.stage(rows)
        time = "at=2013-01-01 05%3A00%3A00.5/"
        null = "__HIVE_DEFAULT_PARTITION__"
        assert [one.suffix for one in found] == [
            f"country=UK/n=1/{time}",
            f"country={null}/n=2/{time}",
            f"country=a%2Fb%3Dc%3Ad/n={null}/at={null}/",
            f"country=Île %7Bx}}/n=-1/{time}",
        ]
        assert [one.rows for one in found] == [2, 1, 1, 1]
        back = decoded(sink, [(one.data, one.suffix) for one in found], PARTITIONED)
        assert same(back, rows.take([0, 3, 2, 1, 4]))


def test_other_readers_read_the_files(tmp_path: Path) -> None:
    rows = table({**FULL, "d": 0.5, "mi": None})
    (tmp_path / "a.json").write_bytes(Json("out").stage(rows)[0].data)
    (tmp_path / "a.parquet").write_bytes(Parquet("out").stage(rows)[0].data)
    from_json = duckdb.sql(f"SELECT * FROM read_json('{tmp_path}/a.json')").fetchall()[0]
    assert (from_json[0], from_json[1], str(from_json[5])) == (1, 0.5, "2013-01-01")
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == rows.to_pylist()
    assert json.loads((tmp_path / "a.json").read_text())["s"] == {"p": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parquet(""), "a sink's path is '', expected a folder or an s3:// URI"),
        (lambda: Parquet("out", partitionBy=["contry"]).check(PARTITIONED), "did you mean `country`?"),
        (lambda: Parquet("out", partitionBy=["n", "n"]), "partitionBy names a column twice: n, n"),
        (
            lambda: Parquet("out", partitionBy="s").check(SCHEMA),
            "the partition column `s` is struct<p: int, q: string>",
        ),
        (lambda: Parquet("out", partitionBy="n").check(to_arrow("n int")), "but at least one must remain"),
        (lambda: Json("out").check(to_arrow("m map<struct<a: int>, int>")), "JSON cannot hold such keys"),
    ],
)
def test_sinks_refuse_schemas_that_they_cannot_write(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert message in str(caught.value)


CELLS = {
    "i": st.integers(-(2**31), 2**31 - 1),
    "d": st.floats(),
    "e": st.decimals(min_value=-99999999, max_value=99999999, places=2),
    "t": st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)),
    "dt": st.dates(),
    "b": st.binary(max_size=5),
    "a": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "m": st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), st.none() | st.integers(-5, 5)).map(
        lambda d: list(d.items())
    ),
    "s": st.fixed_dictionaries({"p": st.none() | st.integers(-5, 5), "q": st.none() | st.text(max_size=3)}),
    "x": st.text(st.characters(codec="utf-8"), max_size=20),
    "y": st.booleans(),
    "f": st.floats(width=32),
    "l": st.integers(-(2**63), 2**63 - 1),
}


@pytest.mark.slow("long random runs")
@given(st.lists(st.fixed_dictionaries({k: st.none() | v for k, v in CELLS.items()}), min_size=1, max_size=5))
@settings(max_examples=examples(100), deadline=None)
def test_json_round_trips_and_agrees_with_pythons_json(rows: list[dict[str, Any]]) -> None:
    given_rows = table(*({**row, "_batch_id": 0} for row in rows))
    [encoded] = Json("out").stage(given_rows)
    assert same(decoded(Json("out"), [(encoded.data, "")], SCHEMA), given_rows)
    for row, line in zip(given_rows.to_pylist(), io.BytesIO(encoded.data), strict=True):
        parsed = json.loads(line)
        assert set(parsed) == {name for name, value in row.items() if value is not None}
        for name in ("i", "l", "x", "y"):
            assert parsed.get(name) == row[name]
        if row["d"] is not None and math.isfinite(row["d"]):
            assert parsed["d"] == row["d"]


def test_folders_by_floats_are_named_as_java_writes_them() -> None:
    values = [math.nan, math.inf, -math.inf, 1e-7, 1e7, 9999999.0, 12345678.5, 1e300, 0.001, 0.00099, -0.5, 100.0, 0.0]
    rows = pa.table({"x": pa.array(values), "f": pa.array(values, pa.float32()), "n": range(len(values))})
    files = Parquet("out", partitionBy=["x"]).stage(rows.drop_columns(["f"]))
    assert sorted(file.suffix for file in files) == sorted(
        f"x={text}/"
        for text in (
            *("NaN", "Infinity", "-Infinity", "1.0E-7", "1.0E7", "9999999.0", "1.23456785E7", "1.0E300"),
            *("0.001", "9.9E-4", "-0.5", "100.0", "0.0"),
        )
    )


def folders(values: list[float], kind: pa.DataType) -> list[str]:
    """The folders of rows with these values, in their order."""
    rows = [pa.table({"x": pa.array([value], kind), "n": [1]}) for value in values]
    return [file.suffix for one in rows for file in Parquet("out", partitionBy=["x"]).stage(one)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e-7, "1.0E-7"),
        (16777216.0, "1.6777216E7"),
        (123456.79, "123456.79"),
        (3.4028235e38, "3.4028235E38"),
        (8388608.0, "8388608.0"),
        (1e10, "1.0E10"),
        (-0.0, "-0.0"),
    ],
)
def test_folders_by_32_bit_floats_have_the_digits_of_java(value: float, text: str) -> None:
    assert folders([value], pa.float32()) == [f"x={text}/"]


def test_folders_by_floats_ignore_the_threads_decimal_context() -> None:
    with decimal.localcontext(prec=4):
        assert folders([12345678.5, 0.123456789, 1e300, 1200.0, 0.0], pa.float64()) == [
            *("x=1.23456785E7/", "x=0.123456789/", "x=1.0E300/", "x=1200.0/", "x=0.0/")
        ]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_every_nan_is_in_one_folder(kind: pa.DataType) -> None:
    rows = pa.table({"x": pa.array([math.nan, -math.nan, math.copysign(math.nan, -1)], kind), "n": [1, 2, 3]})
    (file,) = Parquet("out", partitionBy=["x"]).stage(rows)
    assert (file.suffix, file.rows) == ("x=NaN/", 3)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_read_back_beside_long_decimals(special: float) -> None:
    schema = to_arrow("d decimal(38,18), x double, f float")
    rows = pa.table({"d": [Decimal("12345678901234.5")], "x": [special], "f": [special]}, schema=schema)
    (encoded,) = Json("out").stage(rows)
    assert repr(decoded(Json("out"), [(encoded.data, encoded.suffix)], schema).to_pylist()) == repr(rows.to_pylist())
