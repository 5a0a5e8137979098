"""JSON lines: every line is a row or a reject, numbers keep their digits, nested values are checked at any depth."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sources.reading import blocks, file, rejects, rows, small_buffers, values
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ReadContext
from tidemill.sources.files import Files


def json_source(folder: Path, schema: str, **options: object) -> Files:
    return Files(folder, format="json", schema=schema, **options)


def test_every_line_is_a_row_or_a_reject_with_its_number(tmp_path: Path) -> None:
    lines = [
        b'{"a":1,"b":"x"}',
        b"",
        b'{"a":1.5}',
        b'{"a":2}{"a":3}',
        b'[{"a":4}]',
        b'  {"b":"missing a","other":[1]} \r',
        b"not json",
        b'{"a":"5"}',
        b'{"b":"\xff"}',
        b" \t ",
        b'{"a":null,"b":null}',
    ]
    file(tmp_path, "a.json", b"\n".join(lines))
    found = blocks(json_source(tmp_path, "a int, b string", mode="PERMISSIVE"))
    assert [(row["a"], row["b"], row["_row"]) for row in rows(found)] == [
        (1, "x", 0),
        (4, None, 3),
        (None, "missing a", 4),
        (None, None, 8),
    ]
    assert [(r["line"], r["column"], r["reason"], r["text"]) for r in rejects(found)] == [
        (3, "a", "found `1.5`, expected int", '{"a":1.5}'),
        (4, None, "not a JSON object: byte 8: expected the end of the line", '{"a":2}{"a":3}'),
        (7, None, "not a JSON object: byte 1: expected a value", "not json"),
        (8, "a", 'found `"5"`, expected int', '{"a":"5"}'),
        (9, None, "not UTF-8", '{"b":"\\xff"}'),
    ]


def test_small_pieces_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file(tmp_path, "a.json", "".join('{"a":%s}\n' % (i if i % 9 else '"bad"') for i in range(200)))
    source = json_source(tmp_path, "a int", mode="PERMISSIVE")
    whole = blocks(source, 50)
    small_buffers(monkeypatch, 64)
    cut = blocks(source, 50)
    assert [block.rows.num_rows for block in cut] == [50, 50, 50, 27]
    assert (rows(cut), rejects(cut)) == (rows(whole), rejects(whole))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-5", -5),
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("double", "1", 1.0),
        ("double", "1.5e300", 1.5e300),
        ("double", '"-Infinity"', float("-inf")),
        ("float", "0.1", 0.10000000149011612),
        ("decimal(10,2)", "1.10", Decimal("1.10")),
        ("decimal(10,2)", '"1.10"', Decimal("1.10")),
        ("decimal(38,20)", "0.12345678901234567891", Decimal("0.12345678901234567891")),
        ("decimal(38,0)", "12345678901234567890123456789012345678", Decimal("12345678901234567890123456789012345678")),
        ("string", '"\\u00e9\\n"', "é\n"),
        ("string", "5", "5"),
        ("string", '{"b": [1.10]}', '{"b": [1.10]}'),
        ("string", "1.10", "1.10"),
        ("string", "12345678901234567.89", "12345678901234567.89"),
        ("boolean", "true", True),
        ("binary", '"YWI="', b"ab"),
        ("date", '"2013-01-02"', date(2013, 1, 2)),
        ("timestamp", '"2013-01-02T03:04:05.678901Z"', datetime(2013, 1, 2, 3, 4, 5, 678901, UTC)),
        ("timestamp", "5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("timestamp_ntz", '"2013-01-02T03:04:05"', datetime(2013, 1, 2, 3, 4, 5)),
        ("array<int>", "[1,null,3]", [1, None, 3]),
        ("array<array<double>>", "[[1.5],[],null]", [[1.5], [], None]),
        ("map<string,int>", '{"k":1,"n":null}', [("k", 1), ("n", None)]),
        ("map<int,date>", '{"7":"2013-01-02"}', [(7, date(2013, 1, 2))]),
        (
            "struct<p: int, q: array<struct<r: string>>>",
            '{"q":[{"r":"x"},{}]}',
            {"p": None, "q": [{"r": "x"}, {"r": None}]},
        ),
        ("struct<p: int>", "{}", {"p": None}),
    ],
)
def test_values_are_exact(tmp_path: Path, kind: str, text: str, value: object) -> None:
    file(tmp_path, "a.json", f'{{"v":{text}}}\n')
    assert values(blocks(json_source(tmp_path, f"v {kind}"))) == [(value,)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.0"),
        ("int", "1e2"),
        ("int", "true"),
        ("int", "2147483648"),
        ("double", '"1.5"'),
        ("double", "true"),
        ("decimal(4,2)", "100.00"),
        ("boolean", '"true"'),
        ("boolean", "1"),
        ("binary", '"!"'),
        ("date", '"x"'),
        ("date", "20130101"),
        ("timestamp", '"infinity"'),
        ("timestamp", "1.5"),
        ("timestamp_ntz", '"2013-01-02T03:04:05Z"'),
        ("date", '"12345"'),
        ("array<int>", '[1,"x"]'),
        ("array<int>", '{"a":1}'),
        ("array<int>", "5"),
        ("map<string, int>", '{"k":1.5}'),
        ("map<int, int>", '{"k":1}'),
        ("map<string, int>", "[1]"),
        ("struct<p: int, q: array<struct<r: int>>>", '{"q":[{"r":1},{"r":"x"}]}'),
        ("struct<p: int>", "[1]"),
    ],
)
def test_a_value_that_does_not_fit_is_rejected_at_any_depth(tmp_path: Path, kind: str, text: str) -> None:
    file(tmp_path, "a.json", f'{{"v":{text}}}\n{{}}\n')
    found = blocks(json_source(tmp_path, f"v {kind}", mode="PERMISSIVE"))
    assert values(found) == [(None,)]
    [reject] = rejects(found)
    assert (reject["line"], reject["column"]) == (1, "v")
    assert reject["reason"].endswith(f", expected {kind.replace(': ', ':').replace(', ', ',')}")


def test_failfast_names_file_line_column_reason_and_text(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"a":1}\n{"a":"x"}\n')
    with pytest.raises(InvalidInput) as caught:
        blocks(json_source(tmp_path, "a int"))
    assert str(caught.value).startswith(
        'read file `a.json` of source `source`, line 2, column `a`: found `"x"`, expected int\ntext: {"a":"x"}\n'
    )


def test_long_numbers_keep_their_value_beside_exact_decimals(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"e":1234567890.12345678901,"d":0.12345678901234567891,"s":"9.12345678901234567891"}\n')
    found = blocks(json_source(tmp_path, "e decimal(30,11), d double, s string"))
    assert values(found) == [(Decimal("1234567890.12345678901"), 0.12345678901234568, "9.12345678901234567891")]


def test_long_integers_are_read_beside_exact_decimals(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"e":8,"n":1571485583933440,"s":{"n":-9223372036854775808}}\n')
    found = blocks(json_source(tmp_path, "e decimal(30,11), n bigint, s struct<n: bigint>"))
    assert values(found) == [(Decimal(8), 1571485583933440, {"n": -(2**63)})]


def test_times_without_offset_are_in_the_pipelines_zone(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"t":"2013-01-01 00:00:00"}\n')
    found = blocks(json_source(tmp_path, "t timestamp"), context=ReadContext(time_zone="America/New_York"))
    assert values(found) == [(datetime(2013, 1, 1, 5, tzinfo=UTC),)]


def test_date_formats_are_spark_patterns(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"d":"02.01.2013"}\n')
    assert values(blocks(json_source(tmp_path, "d date", dateFormat="dd.MM.yyyy"))) == [(date(2013, 1, 2),)]


@pytest.mark.parametrize("text", ['[{"a":1},\n {"a":2}]', ' {\n"a": 1} '])
def test_multi_line_files_are_one_value(tmp_path: Path, text: str) -> None:
    file(tmp_path, "a.json", text)
    expected = [(1,), (2,)] if text.startswith("[") else [(1,)]
    assert values(blocks(json_source(tmp_path, "a int", multiLine=True))) == expected


def test_a_multi_line_file_that_is_not_json_fails_or_is_quarantined_as_a_whole(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '[{"a":1},\n')
    with pytest.raises(InvalidInput, match=r"line 2: not JSON: the file ends within a value"):
        blocks(json_source(tmp_path, "a int", multiLine=True, mode="PERMISSIVE"))
    found = blocks(json_source(tmp_path, "a int", multiLine=True, badFiles="quarantine"))
    assert values(found) == []
    assert [r["reason"] for r in rejects(found)] == [
        "line 2: not JSON: the file ends within a value; its rows are not read and cannot be counted"
    ]


def test_a_reject_of_several_lines_is_parsed_again(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '[{"a":1},\n{"a":\n"x"}]')
    source = json_source(tmp_path, "a int", multiLine=True, mode="PERMISSIVE")
    (reject,) = rejects(blocks(source))
    assert (reject["line"], reject["text"]) == (2, '{"a":\n"x"}')
    made = source.parse("a.json", [reject["text"].replace('"x"', "2"), '{"a":3}'], "UTC")
    assert isinstance(made, pa.Table) and made.to_pylist() == [{"a": 2}, {"a": 3}]


def test_the_last_of_equal_names_counts(tmp_path: Path) -> None:
    file(tmp_path, "a.json", '{"a":1,"m":{"x":1,"y":2,"x":3},"a":2}\n')
    assert values(blocks(json_source(tmp_path, "a int, m map<string,int>"))) == [(2, [("y", 2), ("x", 3)])]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("allowComments", '/* c */ {"a":1} // d'),
        ("allowUnquotedFieldNames", "{a:1}"),
        ("allowNumericLeadingZeros", '{"a":01}'),
        ("allowBackslashEscapingAnyCharacter", '{"b":"\\q","a":1}'),
        ("allowUnquotedControlChars", '{"b":"\t","a":1}'),
    ],
)
def test_options_allow_more_than_json(tmp_path: Path, option: str, text: str) -> None:
    file(tmp_path, "a.json", text + "\n")
    assert values(blocks(json_source(tmp_path, "a int", **{option: True}))) == [(1,)]
    assert len(rejects(blocks(json_source(tmp_path, "a int", mode="PERMISSIVE")))) == 1


def test_single_quotes_and_nan_are_read_unless_refused(tmp_path: Path) -> None:
    file(tmp_path, "a.json", "{'a':1,'d':-INF}\n")
    assert values(blocks(json_source(tmp_path, "a int, d double"))) == [(1, float("-inf"))]
    for option in ("allowSingleQuotes", "allowNonNumericNumbers"):
        source = json_source(tmp_path, "a int", mode="PERMISSIVE", **{option: False})
        assert len(rejects(blocks(source))) == 1


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    file(tmp_path, "a.json", json.dumps({"a b": 1, 'q"x': 2, "é'": 3, "_number": 4}) + "\n")
    assert values(blocks(json_source(tmp_path, "`a b` int, `q\"x` int, `é'` int, `_number` int"))) == [(1, 2, 3, 4)]


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = {
    "a": st.none() | st.integers(-(2**63), 2**63 - 1),
    "b": st.none() | TEXT,
    "c": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "d": st.none() | st.lists(st.none() | TEXT, max_size=3),
    "e": st.none() | st.booleans(),
}


@given(st.lists(st.fixed_dictionaries({}, optional=VALUES), max_size=20), st.booleans(), st.integers(10, 500))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_written_by_python_is_read_back(
    monkeypatch: pytest.MonkeyPatch, objects: list[dict[str, Any]], ascii_only: bool, piece: int
) -> None:
    small_buffers(monkeypatch, piece)
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(json.dumps(one, ensure_ascii=ascii_only) + "\n" for one in objects)
        file(Path(folder), "a.json", text)
        found = blocks(json_source(Path(folder), "a bigint, b string, c double, d array<string>, e boolean"))
    assert values(found) == [tuple(one.get(name) for name in VALUES) for one in objects]
    assert [row["_row"] for row in rows(found)] == list(range(len(objects)))
