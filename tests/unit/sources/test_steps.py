"""Stateless steps: their results, their checks when they are built, and hidden columns, which they keep."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import InvalidInput
from tidemill.schema import to_arrow, to_ddl
from tidemill.sources import connections, sql
from tidemill.sources.contract import METADATA, METADATA_TYPE, ROW
from tidemill.sources.steps import Drop, MapBatches, Select, Sql

SCHEMA = to_arrow("x int, s string, l array<int>, t timestamp, st struct<a: int, b: string>, current_date int")
HIDDEN = [pa.field(METADATA, METADATA_TYPE), pa.field(ROW, pa.int64())]
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "x": i,
            "s": "a",
            "l": [1, 2],
            "t": datetime(2013, 1, 1, 3, tzinfo=UTC),
            "st": {"a": i, "b": "z"},
            "current_date": 5,
            METADATA: {"file_path": "file:///p/n", "file_name": "n", "file_size": 1},
            ROW: 10 + i,
        }
        for i in range(4)
    ],
    schema=pa.schema([*SCHEMA, *HIDDEN]),
)


def applied(step: Any, rows: pa.RecordBatch = ROWS, time_zone: str = "UTC") -> pa.RecordBatch:
    """Apply a step, check the rows against its declared output, and return them."""
    made = step.apply(rows, time_zone)
    hidden = [name for name in (METADATA, ROW) if name in rows.schema.names]
    assert made.schema.names == [*step.output(SCHEMA).names, *hidden]
    assert made.select(step.output(SCHEMA).names).schema.equals(step.output(SCHEMA))
    return made


def visible(made: pa.RecordBatch) -> list[dict[str, Any]]:
    return made.select([name for name in made.schema.names if name not in (METADATA, ROW)]).to_pylist()


def test_select_keeps_the_chosen_columns_in_order() -> None:
    made = applied(Select(("s", "x", "_metadata.file_name")))
    assert visible(made)[1] == {"s": "a", "x": 1, "file_name": "n"}
    assert made.column(ROW).to_pylist() == [10, 11, 12, 13]


def test_drop_keeps_the_others() -> None:
    assert applied(Drop(("x", "st"))).schema.names == ["s", "l", "t", "current_date", METADATA, ROW]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Select(("xx",)).output(SCHEMA), "unknown column `xx`; did you mean `x`?"),
        (lambda: Select(("x", "x")).output(SCHEMA), "select has column `x` twice"),
        (lambda: Select(()).output(SCHEMA), "select needs at least one column"),
        (lambda: Select((ROW,)).output(SCHEMA), "unknown column `_row`"),
        (lambda: Select(("_metadata.file_pat",)).output(SCHEMA), "did you mean `_metadata.file_path`?"),
        (lambda: Select((5,)).output(SCHEMA), "select: expected column names, found 5"),  # type: ignore[arg-type]
        (lambda: Drop(("cat",)).output(SCHEMA), "unknown column `cat`"),
        (lambda: Drop(tuple(SCHEMA.names)).output(SCHEMA), "drop removes every column"),
        (lambda: MapBatches(5, "x int"), "expected a function of a pyarrow.RecordBatch, found 5"),  # type: ignore[arg-type]
        (lambda: MapBatches(lambda rows: rows, "x itn"), "did you mean `int`?"),
    ],
)
def test_invalid_steps_are_refused_when_they_are_built(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "columns", "first"),
    [
        ("SELECT x, x * 2 AS y FROM rows WHERE x > 1", "x int, y int", {"x": 2, "y": 4}),
        ("from rows select s", "s string", {"s": "a"}),
        ("SELECT r.x + 1 AS x FROM ROWS r", "x int", {"x": 1}),
        ("SELECT rows.x, unnest(l) AS u FROM rows", "x int, u int", {"x": 0, "u": 1}),
        (
            "SELECT * EXCLUDE (l, t, st, s) REPLACE (x + 1 AS x) FROM rows",
            "x int, current_date int",
            {"x": 1, "current_date": 5},
        ),
        ("SELECT columns('x|s') FROM rows", "x int, s string, st struct<a: int, b: string>", None),
        ("SELECT _metadata.file_path, x FROM rows", "file_path string, x int", {"file_path": "file:///p/n", "x": 0}),
        ("SELECT st.b, st.a::varchar || 'é' AS c FROM rows", "b string, c string", {"b": "z", "c": "0é"}),
        ("SELECT x::hugeint AS h, x::utinyint AS u FROM rows", "h decimal(38,0), u smallint", None),
        (
            "SELECT list_sum(l) AS n, list_transform(l, lambda q: q + x) AS z FROM rows",
            "n decimal(38,0), z array<int>",
            None,
        ),
        ("SELECT nullif(x, 0) AS n, split_part(s, 'x', 1) AS p FROM rows", "n int, p string", {"n": None, "p": "a"}),
        ("SELECT current_date FROM rows", "current_date int", {"current_date": 5}),
        ("SELECT t FROM rows WHERE s LIKE 'a%' AND x IN (0, 1) AND x BETWEEN 0 AND 3", "t timestamp", None),
    ],
)
def test_sql_works_row_by_row(text: str, columns: str, first: dict[str, Any] | None) -> None:
    made = applied(Sql(text))
    assert to_ddl(Sql(text).output(SCHEMA)) == columns
    assert first is None or visible(made)[0] == first


def test_sql_keeps_the_numbers_of_rows() -> None:
    assert applied(Sql("SELECT x FROM rows WHERE x % 2 = 1")).column(ROW).to_pylist() == [11, 13]
    assert applied(Sql("SELECT unnest(l) AS u FROM rows WHERE x > 2")).column(ROW).to_pylist() == [13, 13]
    assert applied(Sql("SELECT * FROM rows"), ROWS.slice(0, 0)).num_rows == 0
    assert applied(Sql("SELECT x FROM rows"), ROWS.select(SCHEMA.names)).schema.names == ["x"]


def test_sql_is_in_the_pipelines_time_zone() -> None:
    text = "SELECT CAST(t AS DATE) AS d, hour(t) AS h FROM rows"
    assert visible(applied(Sql(text)))[0] == {"d": datetime(2013, 1, 1, tzinfo=UTC).date(), "h": 3}
    made = applied(Sql(text), time_zone="America/New_York")
    assert visible(made)[0] == {"d": datetime(2012, 12, 31, tzinfo=UTC).date(), "h": 22}


MORE = "needs more than one row"
CONSTANT = "does not depend on the row alone"
ALONE = "expected FROM `rows` alone"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT sum(x) FROM rows", f"the aggregate `sum` {MORE}"),
        ("SELECT x FROM rows WHERE count(*) > 1", f"the aggregate `count_star` {MORE}"),
        ("SELECT main.max(x) FROM rows", f"the aggregate `max` {MORE}"),
        ("SELECT weighted_avg(x, x) FROM rows", f"the aggregate `sum` {MORE}"),
        ("SELECT x, count(*) FROM rows GROUP BY x", f"GROUP BY {MORE}"),
        ("SELECT x FROM rows GROUP BY ALL", f"GROUP BY {MORE}"),
        ("SELECT x FROM rows HAVING x > 1", f"HAVING {MORE}"),
        ("SELECT DISTINCT x FROM rows", f"DISTINCT {MORE}"),
        ("SELECT x FROM rows LIMIT 1", f"LIMIT {MORE}"),
        ("SELECT x FROM rows ORDER BY x", f"ORDER BY {MORE}"),
        ("SELECT row_number() OVER () FROM rows", f"the window function `row_number` {MORE}"),
        ("SELECT x FROM rows QUALIFY lag(x) OVER () = 1", f"QUALIFY {MORE}"),
        ("SELECT x FROM rows USING SAMPLE 1", f"USING SAMPLE {MORE}"),
        ("SELECT x FROM rows TABLESAMPLE 10%", "TABLESAMPLE"),
        ("SELECT random() FROM rows", f"`random` {CONSTANT}"),
        ("SELECT now() FROM rows", f"`now` {CONSTANT}"),
        ("SELECT current_timestamp FROM rows", f"`current_timestamp` {CONSTANT}"),
        ("SELECT today() FROM rows", f"`today` {CONSTANT}"),
        ("SELECT localtime FROM rows", f"`localtime` {CONSTANT}"),
        ("SELECT age(t) FROM rows", f"`age` {CONSTANT}"),
        ("SELECT uuid() FROM rows", f"`uuid` {CONSTANT}"),
        ("SELECT list_transform(l, lambda q: random()) FROM rows", f"`random` {CONSTANT}"),
        ("SELECT getvariable('a') FROM rows", f"`getvariable` {CONSTANT}"),
        ("SELECT version() FROM rows", f"`version` {CONSTANT}"),
        ("SELECT x FROM rows WHERE x IN (SELECT 1)", "found a subquery"),
        ("SELECT (SELECT 1) FROM rows", "found a subquery"),
        ("SELECT rows FROM rows", "`rows` as a value is the whole row, expected columns"),
        ("SELECT to_json(R) AS j FROM rows AS r", "`r` as a value is the whole row, expected columns"),
        ("SELECT x FROM (SELECT x FROM rows)", f"found a subquery, {ALONE}"),
        ("SELECT a.x FROM rows a JOIN rows b ON a.x = b.x", f"found a join, {ALONE}"),
        ("SELECT a.x FROM rows a, rows b", f"found a join, {ALONE}"),
        ("SELECT * FROM other", f"found the table `other`, {ALONE}"),
        ("FROM other", f"found the table `other`, {ALONE}"),
        ("SELECT x FROM 'file.csv'", f"found the table `file.csv`, {ALONE}"),
        ("SELECT x FROM main.rows", ALONE),
        ("SELECT * FROM read_csv('x')", f"found a table function, {ALONE}"),
        ("SELECT 1", f"found no FROM, {ALONE}"),
        ("VALUES (1)", ALONE),
        ("DESCRIBE rows", ALONE),
        ("SELECT x FROM rows; SELECT x FROM rows", "found 2 statements, expected one SELECT"),
        ("SELECT x FROM rows UNION ALL SELECT x FROM rows", "found a union"),
        ("WITH a AS (SELECT 1) SELECT * FROM rows", "found WITH"),
        ("SELECT ? FROM rows", "found a parameter"),
        ("INSERT INTO rows VALUES (1)", "this is not a SELECT"),
        ("ATTACH 'x'", "this is not a SELECT"),
        ("SET threads = 4", "this is not a SELECT"),
        ("COPY rows TO 'x'", "this is not a SELECT"),
        ("SELEC x", 'syntax error at or near "SELEC"'),
        ("", "sql: found ''"),
        ("SELECT z FROM rows", 'Referenced column "z" not found'),
        ("SELECT sumx(x) FROM rows", "sumx does not exist"),
        ("SELECT x, X FROM rows", "has column `x` twice"),
        ("SELECT _metadata FROM rows", "the column `_metadata` is hidden"),
        ("SELECT _row FROM rows", "the column `_row` is hidden"),
        ("SELECT INTERVAL 1 DAY AS i FROM rows", "column `i` has type month_day_nano_interval"),
        ("SELECT TIME '00:00:00' AS n FROM rows", "column `n` has type time64[us]"),
    ],
)
def test_sql_that_is_not_row_wise_is_refused_when_it_is_built(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Sql(text).output(SCHEMA)
    assert message in str(caught.value)


def test_sql_uses_the_time_zone_from_the_first_block_of_a_process() -> None:
    step = Sql("SELECT hour(t) AS h, t::varchar AS text FROM rows")
    sql.with_hidden.cache_clear()
    assert visible(step.apply(ROWS, "America/New_York"))[0] == {"h": 22, "text": "2012-12-31 22:00:00-05"}
    assert visible(step.apply(ROWS, "UTC"))[0] == {"h": 3, "text": "2013-01-01 03:00:00+00"}


def test_a_connection_keeps_its_time_zone() -> None:
    held = connections.for_user_sql("America/New_York")
    connections.for_user_sql("Asia/Kolkata")
    connections.for_user_sql()
    assert held.execute("SELECT current_setting('TimeZone')").fetchall() == [("America/New_York",)]
    assert connections.for_user_sql("America/New_York") is held


@pytest.mark.parametrize(
    ("expression", "kind", "found"),
    [
        ("l[1]", "int", 1),
        ("CAST(1.9 AS int)", "int", 2),
        ("epoch(t + INTERVAL '0.9 seconds')::bigint", "bigint", 1357009201),
        ("log(100)", "double", 2.0),
        ("regexp_replace('aaa', 'a', 'b')", "string", "baa"),
        ("concat('a', NULL)", "string", "a"),
        ("1 / 0", "double", float("inf")),
        ("dayofweek(DATE '2020-03-08')", "bigint", 0),
        ("t::varchar", "string", "2012-12-31 22:00:00-05"),
        ("('2020-11-01 0' || st.a || ':30:00')::timestamptz", "timestamp", datetime(2020, 11, 1, 4, 30, tzinfo=UTC)),
        ("'2020-11-01 01:30:00'::timestamptz", "timestamp", datetime(2020, 11, 1, 6, 30, tzinfo=UTC)),
        (
            "date_trunc('hour', '2020-11-01 05:30:00+00'::timestamptz)",
            "timestamp",
            datetime(2020, 11, 1, 6, tzinfo=UTC),
        ),
    ],
)
def test_sql_differs_from_spark_as_the_manual_says(expression: str, kind: str, found: Any) -> None:
    """docs/compatibility.md lists these; a newer DuckDB may think otherwise."""
    made = applied(Sql(f"SELECT {expression} AS made FROM rows"), time_zone="America/New_York")
    assert to_ddl(pa.schema([made.schema.field("made")])) == f"made {kind}"
    assert made.column("made").to_pylist()[0] == found


def test_sql_that_fails_on_a_row_raises_an_error() -> None:
    step = Sql("SELECT CAST(s AS INT) AS i FROM rows")
    step.output(SCHEMA)
    with pytest.raises(InvalidInput, match=r"sql `SELECT CAST\(s AS INT\) AS i FROM rows`: Conversion Error"):
        step.apply(ROWS, "UTC")


def test_sql_reaches_no_file() -> None:
    with pytest.raises(InvalidInput):
        Sql("SELECT x FROM rows WHERE x IN (SELECT content FROM read_text('/etc/passwd'))").output(SCHEMA)


def test_map_batches_keeps_hidden_columns_if_the_rows_stay() -> None:
    def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
        assert rows.schema.names == SCHEMA.names
        return pa.RecordBatch.from_pydict({"y": [2 * x for x in rows.column("x").to_pylist()]})

    made = applied(MapBatches(doubled, "y bigint"))
    assert (visible(made)[3], made.column(ROW)[3].as_py()) == ({"y": 6}, 13)
    fewer = MapBatches(lambda rows: rows.select(["x"]).slice(1), "x int").apply(ROWS, "UTC")
    assert fewer.schema.names == ["x"]


def test_map_batches_casts_to_the_declared_types() -> None:
    made = MapBatches(lambda rows: rows.select(["s", "x"]), "x bigint, s string").apply(ROWS, "UTC")
    assert made.schema.field("x").type == pa.int64()
    assert made.schema.names[:2] == ["x", "s"]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda rows: rows, "did not return the declared columns: unexpected column `s string`"),
        (lambda rows: 5, "returned int, expected a pyarrow.RecordBatch"),
        (lambda rows: rows.select([]), "did not return the declared columns: missing column `x int`"),
        (lambda rows: pa.RecordBatch.from_pydict({"x": ["a"]}), "column `x` is string, expected int"),
    ],
)
def test_map_batches_errors_name_the_difference(fn: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        MapBatches(fn, "x int").apply(ROWS, "UTC")
    assert message in str(caught.value)
