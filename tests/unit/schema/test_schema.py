"""Schemas from DDL, Arrow, Spark and dataclasses, their differences, and data cast to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import InvalidInput
from tidemill.schema import (
    casts,
    conform,
    difference,
    is_unnamed,
    normalise,
    one_batch,
    spark_json,
    to_arrow,
    to_ddl,
    to_duckdb,
)

EVERY = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h decimal(10,2), i string, j binary, "
    "k date, l timestamp, m timestamp_ntz, n array<int>, o map<string, array<double>>, "
    "p struct<x: int not null, `y z`: array<struct<q: date>>>, `q r` string not null"
)


def test_every_type_is_read_and_written() -> None:
    schema = to_arrow(EVERY)
    assert to_ddl(schema) == EVERY
    assert schema.field("l").type == pa.timestamp("us", tz="UTC")
    assert schema.field("m").type == pa.timestamp("us")
    assert not schema.field("q r").nullable


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("a byte, b short, c integer, d long, e real", "a tinyint, b smallint, c int, d bigint, e float"),
        ("a varchar(10), b char(3), c bool", "a string, b string, c boolean"),
        ("a decimal, b dec(5), c numeric(5,1)", "a decimal(10,0), b decimal(5,0), c decimal(5,1)"),
        ("a: int, B: STRUCT<X:INT,y string>", "a int, B struct<X: int, y string>".replace("y string", "y: string")),
        ("a int COMMENT 'it is, <one>' NOT NULL, timestamp date", "a int not null, timestamp date"),
        ("struct<a: int>", "a int"),
        ("été int, `a``b` int", "`été` int, `a``b` int"),
    ],
)
def test_other_spellings_are_read(written: str, canonical: str) -> None:
    assert to_ddl(to_arrow(written)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a dubble", "read schema `a dubble`: at character 3: unknown type `dubble`; did you mean `double`?"),
        ("a int,", "at character 7: the text ends, but expected a column name"),
        ("a int b", "at character 7: found `b`, expected `,` or the end"),
        ("a array<int", "at character 12: the text ends, but expected `>`"),
        ("a-b int", "put a name with other characters in backquotes"),
        ("decimal(40,2)", "found decimal(40,2), expected a precision of 1 to 38"),
        ("a decimal(2,3)", "found decimal(2,3)"),
        ("a int not", "the text ends, but expected `null`"),
        ("a map<string>", "at character 13: found `>`, expected `,`"),
        ("a int comment x", "expected a comment in single quotes"),
        ("a int, A string", "has column `A` twice (also as `a`; column names are case-insensitive)"),
        ("a struct<b: int, b: int>", "struct<…> has column `b` twice"),
        ("", "it has no columns"),
        ("double", "found a type without a column name"),
        ("a interval", "unknown type `interval`"),
    ],
)
def test_an_invalid_schema_text_names_the_position(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        to_arrow(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("schema", ["double", "decimal(3,1)", "array<int>", pa.float64()])
def test_a_bare_type_is_one_column_without_a_name(schema: Any) -> None:
    assert is_unnamed(schema)
    assert to_arrow(schema, unnamed="state").names == ["state"]


@pytest.mark.parametrize("schema", ["a double", "timestamp date", "struct<a: int>", pa.schema([("a", pa.int32())])])
def test_columns_with_names_are_not_bare(schema: Any) -> None:
    assert not is_unnamed(schema)
    assert to_arrow(schema, unnamed="state").names != ["state"]


@dataclass
class Inner:
    x: float


@dataclass
class Everything:
    a: int
    b: str | None
    c: list[Inner]
    d: dict[str, date]
    e: Decimal
    f: Annotated[Decimal, "decimal(10,2)"]
    g: datetime
    h: bool
    i: bytes


def test_dataclasses_are_schemas() -> None:
    assert to_ddl(to_arrow(Everything)) == (
        "a bigint, b string, c array<struct<x: double>>, d map<string, date>, e decimal(38,18), f decimal(10,2), "
        "g timestamp, h boolean, i binary"
    )


def test_an_annotation_without_a_type_is_refused() -> None:
    @dataclass
    class Odd:
        a: complex

    with pytest.raises(InvalidInput, match=r"field `Odd\.a` is annotated <class 'complex'>"):
        to_arrow(Odd)


class SparkType:
    """Only what is asked of Spark's types."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def json(self) -> str:
        return json.dumps(self.raw)

    def simpleString(self) -> str:
        return "…"


def test_spark_types_are_read_by_their_json() -> None:
    schema = to_arrow(EVERY)
    assert to_arrow(SparkType(json.loads(spark_json(schema)))) == schema
    assert is_unnamed(SparkType("long"))
    with pytest.raises(InvalidInput, match="column `a` has Spark type `interval year`"):
        to_arrow(SparkType({"type": "struct", "fields": [{"name": "a", "type": "interval year", "nullable": True}]}))


def test_spark_reads_written_schemas() -> None:
    from pyspark.sql.types import DoubleType, StructType

    schema = to_arrow(EVERY)
    spark = StructType.fromJson(json.loads(spark_json(schema)))
    assert to_arrow(spark) == schema
    assert to_arrow(DoubleType(), unnamed="v") == to_arrow("v double")


def test_arrow_types_become_canonical() -> None:
    found = pa.schema(
        [
            ("a", pa.large_string()),
            ("b", pa.dictionary(pa.int8(), pa.string_view())),
            ("c", pa.timestamp("ns", tz="Europe/Berlin")),
            ("d", pa.timestamp("s")),
            ("e", pa.uint64()),
            ("f", pa.uint8()),
            ("g", pa.date64()),
            ("h", pa.large_list(pa.field("element", pa.uint16()))),
            ("i", pa.list_(pa.int8(), 3)),
            ("j", pa.decimal256(20, 2)),
            ("k", pa.binary(4)),
            ("l", pa.struct([("x", pa.float16())])),
            ("m", pa.map_(pa.large_string(), pa.large_binary())),
        ]
    )
    assert to_ddl(normalise(found)) == (
        "a string, b string, c timestamp, d timestamp_ntz, e decimal(20,0), f smallint, g date, h array<int>, "
        "i array<tinyint>, j decimal(20,2), k binary, l struct<x: float>, m map<string, binary>"
    )


@pytest.mark.parametrize(
    "kind", [pa.duration("s"), pa.time64("us"), pa.null(), pa.decimal256(50, 2), pa.month_day_nano_interval()]
)
def test_a_type_without_counterpart_names_its_column(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"column `a\.x\.element` has type"):
        normalise(pa.schema([("a", pa.struct([("x", pa.list_(kind))]))]))


@pytest.mark.parametrize(
    ("expected", "found", "text"),
    [
        ("a int, b string", "a int, b string", None),
        ("a int not null", "a int", None),
        ("a int", "a bigint", "column `a` is bigint, expected int"),
        ("a int, b int", "a int, c date", "missing column `b int`; unexpected column `c date`"),
        ("a int, b int", "b int, a int", "the columns are in the order `b`, `a`, expected `a`, `b`"),
        ("a struct<x: int>", "a struct<y: int>", "column `a` is struct<y: int>, expected struct<x: int>"),
    ],
)
def test_differences_are_named(expected: str, found: str, text: str | None) -> None:
    assert difference(to_arrow(expected), to_arrow(found)) == text


def test_data_is_cast_to_a_schema_without_loss() -> None:
    rows = pa.table({"b": pa.array(["x"]).dictionary_encode(), "a": pa.array([5], pa.int64()), "z": [1]})
    made = conform(rows, to_arrow("a int, b string"), "here")
    assert made.schema == to_arrow("a int, b string")
    assert made.to_pylist() == [{"a": 5, "b": "x"}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"a": [2**40]}), "here: column `a` is bigint, expected int: Integer value"),
        (pa.table({"a": ["x"]}), "here: column `a` is string, expected int"),
        (pa.table({"a": [1.5]}), "here: column `a` is double, expected int"),
        (pa.table({"b": [1]}), "here: column `a` is missing; found `b`, expected `a`"),
        (
            pa.table({"a": pa.array([None], pa.int32())}),
            "column `a` is declared `not null`, but holds 1 null",
        ),
    ],
)
def test_data_that_does_not_fit_names_its_column(rows: pa.Table, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        conform(rows, to_arrow("a int not null"), "here")
    assert message in str(caught.value)


SCALARS = st.sampled_from(
    [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(7,3)",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6).map(
    lambda name: "`" + name.replace("`", "``") + "`"
)
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(SCALARS, inner).map(lambda pair: f"map<{pair[0]}, {pair[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: f"struct<{', '.join(f'f{i}: {t}' for i, t in enumerate(ts))}>"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=4, unique_by=lambda pair: pair[0].lower()))
@settings(max_examples=100, deadline=None)
def test_ddl_spark_and_duckdb_forms_mean_the_same(columns: list[tuple[str, str]]) -> None:
    schema = to_arrow(", ".join(f"{name} {kind}" for name, kind in columns))
    assert to_arrow(to_ddl(schema)).equals(schema)
    assert to_arrow(SparkType(json.loads(spark_json(schema)))).equals(schema)
    casts = ", ".join(f"CAST(NULL AS {to_duckdb(field.type)}) AS c{i}" for i, field in enumerate(schema))
    found = duckdb.sql(f"SELECT {casts}").to_arrow_table().schema
    assert [field.type for field in normalise(found)] == [field.type for field in schema]


def test_rows_become_one_batch_or_an_error_never_a_part() -> None:
    part = pa.record_batch({"a": [1, 2]})
    table = pa.Table.from_batches([part, part])
    assert one_batch(table, "here").to_pydict() == {"a": [1, 2, 1, 2]}
    assert one_batch(table.schema.empty_table(), "here").num_rows == 0
    with pytest.raises(
        InvalidInput, match="^source `s`: one column of 4 rows holds more than 2 GiB of text or list items"
    ):
        casts._only([part, part], part.schema, "source `s`")
    lists = pa.table({"a": pa.ListArray.from_arrays([0, 2**30], pa.nulls(2**30))})  # nulls take no memory
    with pytest.raises(InvalidInput, match="^here: one column of 2 rows holds more than 2 GiB of text or list items"):
        one_batch(pa.concat_tables([lists, lists]), "here")
