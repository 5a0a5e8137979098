"""`schema_of`: the schema that fits some files, and what they do not decide."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tidemill as tm
from tests.unit.sources.reading import blocks, file, rejects, values
from tidemill.cli.main import main, tidemill
from tidemill.cli.output import Output
from tidemill.inference.schema_of import infer
from tidemill.schema import to_ddl
from tidemill.sources.files import Files

CSV = """id,big,zip,amount,paid,day,at,flag,none,text
1,3000000000,01234,1.50,1e3,2024-01-05,2024-01-05 10:00:00,true,,x
2,1,98765,2.25,2,2024-02-29,2024-01-05T10:00:00.5,FALSE,,"y, z"
"""
JSON = """{"a":1,"b":1.5,"c":{"d":[1,2],"e":null},"f":"2024-01-05T10:00:00Z","g":true}
{"a":3000000000,"c":{"d":[]},"h":"x"}
"""


def test_csv_columns_have_the_narrowest_type_that_fits(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv.gz", gzip.compress(CSV.encode()))
    found = infer([str(path)], None, {"header": True})
    assert to_ddl(found.schema) == (
        "id int, big bigint, zip string, amount double, paid double, day date, at timestamp, flag boolean, "
        "none string, text string"
    )
    assert found.notes == [
        "column `zip` has numbers with leading zeros: string keeps them",
        "column `amount` has up to 2 digits after the point: decimal(18,2) keeps amounts exact",
        "column `paid` has fractions: double",
        "column `at` has times without an offset: they are in the time zone of the pipeline",
        "column `none` has no values: string is a guess",
    ]
    source = Files(tmp_path, format="csv", header=True, schema=found.schema, mode="PERMISSIVE")
    assert rejects(blocks(source)) == []


def test_json_columns_may_be_nested(tmp_path: Path) -> None:
    path = file(tmp_path, "a.jsonl", JSON)
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == (
        "a bigint, b double, c struct<d: array<int>, e: string>, f timestamp, g boolean, h string"
    )
    assert "column `c.e` has no values: string is a guess" in found.notes


def test_types_of_several_files_are_widened_and_missing_columns_noted(tmp_path: Path) -> None:
    one, two = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"v": pa.array([1], pa.int32()), "t": pa.array([1], pa.time32("s"))}), one)
    pq.write_table(pa.table({"v": pa.array([1], pa.int64()), "w": ["x"]}), two)
    found = infer([str(one), str(two)], None, {})
    assert to_ddl(found.schema) == "v bigint, w string"
    assert found.notes == [
        f"column `t` of `{one}` has type time, which cannot be read",
        f'column `w` is not in `{one}`: declare missingColumns="null" if it is right',
    ]


def test_a_file_without_a_known_ending_or_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="the ending of .* says no format"):
        tm.schema_of(file(tmp_path, "a.dat", "1\n"))
    with pytest.raises(tm.InvalidInput, match="not a valid Parquet file"):
        tm.schema_of(file(tmp_path, "a.parquet", "1\n"))
    with pytest.raises(tm.InvalidInput, match="No such file"):
        tm.schema_of(tmp_path / "none.csv")
    with pytest.raises(tm.InvalidInput, match="unknown option of tm.Files `heade`"):
        tm.schema_of(file(tmp_path, "a.csv", "1\n"), heade=True)


@pytest.mark.parametrize("options", [{}, {"format": "csv"}, {"format": "json"}, {"format": "parquet"}])
def test_a_folder_is_refused_with_what_to_write(tmp_path: Path, options: dict[str, Any]) -> None:
    path = file(tmp_path, "a.csv", "1\n")
    with pytest.raises(tm.InvalidInput) as caught:
        tm.schema_of(path, tmp_path, **options)
    assert caught.value.message == f"schema_of: `{tmp_path}` is a folder, expected files"
    assert f'glob.glob("{tmp_path}/*.{options.get("format", "csv")}")' in str(caught.value.hint)


def test_the_command_prints_ddl_and_notes(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", CSV.replace(",", ";"))
    call = ["schema", str(path), "--header", "--option", "sep=;"]
    done = CliRunner().invoke(tidemill, call, obj=Output(), standalone_mode=False)
    assert done.stdout.startswith("id int, big bigint, zip string, ")
    assert "note: column `zip` has numbers with leading zeros" in done.stderr
    assert main(["schema", str(path), "--option", "sep"]) == 2


def ddl_of(path: Path, **options: object) -> str:
    return to_ddl(infer([str(path)], None, dict(options)).schema)


def notes_of(*paths: Path, **options: object) -> list[str]:
    return infer([str(path) for path in paths], None, dict(options)).notes


def test_json_is_read_by_the_reader_of_batches(tmp_path: Path) -> None:
    text = '{"n": "é", "k": 1}\n'
    assert ddl_of(file(tmp_path, "a.json", "{'n': 'x', 'k': 1}\n")) == "n string, k int"
    assert ddl_of(file(tmp_path, "b.json", text.encode("utf-16")), encoding="UTF-16") == "n string, k int"
    assert ddl_of(file(tmp_path, "c.json", text.encode("latin-1")), encoding="ISO-8859-1") == "n string, k int"
    assert (
        ddl_of(file(tmp_path, "d.json", "{n: 1 /* x */}"), allowComments=True, allowUnquotedFieldNames=True) == "n int"
    )
    assert ddl_of(file(tmp_path, "e.json", '{"n":1};{"n":true};'), lineSep=";") == "n string"
    assert ddl_of(file(tmp_path, "f.json", '{"n":"a\u2028b\x85c","k":1}\n')) == "n string, k int"
    assert ddl_of(file(tmp_path, "g.json", gzip.compress(text.encode()))) == "n string, k int"
    assert ddl_of(file(tmp_path, "h.json", '[{"n":1},\n{"n":2.5}]'), multiLine=True) == "n double"
    assert ddl_of(file(tmp_path, "i.json", '{"n":NaN}\n{"n":1}\n')) == "n double"
    assert ddl_of(file(tmp_path, "j.json", '{"d":"5.1.2024"}'), dateFormat="d.M.yyyy") == "d date"


def test_the_last_of_equal_names_counts_and_halves_of_surrogate_pairs_are_noted(tmp_path: Path) -> None:
    path = file(tmp_path, "a.json", '{"a":1,"a":"x"}\n{"b":"\\ud800"}\n')
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == "a string, b string"
    assert found.notes == ["column `b` has halves of surrogate pairs, which are no text: such records are rejected"]
    assert len(rejects(blocks(Files(tmp_path, format="json", schema=found.schema, mode="PERMISSIVE")))) == 1


def test_names_of_any_characters_are_columns(tmp_path: Path) -> None:
    path = file(tmp_path, "a.json", '{"a`b": {"c`d": 1}, "\\u001b[31m": 1}\n')
    found = infer([str(path)], None, {})
    assert found.schema.names == ["a`b", "\x1b[31m"]
    assert Files(tmp_path, format="json", schema=to_ddl(found.schema)).schema == found.schema


def test_names_that_differ_by_case_are_one_column_in_csv_and_only_the_first_one_in_json(tmp_path: Path) -> None:
    one, two = file(tmp_path, "a.csv", "Name,x\n1,1\n"), file(tmp_path, "b.csv", "x,name\n1,30000000000\n")
    assert to_ddl(infer([str(one), str(two)], None, {"header": True}).schema) == "Name bigint, x int"
    three = file(tmp_path, "c.json", '{"Name":1}\n{"name":"x","s":{"Ab":1,"aB":2}}\n')
    found = infer([str(three)], None, {})
    assert to_ddl(found.schema) == "Name int, s struct<Ab: int>"
    assert found.notes == [
        "column `name` cannot be declared: column names are case-insensitive, and there is `Name` already",
        "column `s.aB` cannot be declared: column names are case-insensitive, and there is `Ab` already",
    ]


def test_values_that_are_nested_too_deep_are_text(tmp_path: Path) -> None:
    path = file(tmp_path, "a.json", '{"a":' + "[" * 30 + "]" * 30 + "}\n" + '{"a":' + "[" * 3000 + "]" * 3000 + "}\n")
    found = infer([str(path)], None, {})
    assert Files(tmp_path, format="json", schema=found.schema).schema == found.schema
    assert found.notes == [
        f"one record of `{path}` is not a JSON object: line 2: not a JSON object: byte 1005: nested too deeply",
        "column `a" + ".element" * 19 + "` is nested deeper than types can be: string keeps its text",
    ]


def test_a_header_alone_names_columns(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "id,name\n")
    assert ddl_of(path, header=True) == "id string, name string"
    assert f"`{path}` has no rows" in notes_of(path, header=True)


def test_names_that_a_header_has_twice_are_left_out(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "a,a,a0,b\n1,2,3,4\n")
    found = infer([str(path)], None, {"header": True})
    assert to_ddl(found.schema) == "a1 int, b int"
    assert found.notes == [f"column `a0` of `{path}` cannot be declared: several columns have this name"]
    assert values(blocks(Files(tmp_path, format="csv", header=True, schema=found.schema))) == [(2, 4)]


def test_patterns_of_dates_are_applied(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "05.01.2024,5.1.24 10:00\n")
    assert ddl_of(path, dateFormat="dd.MM.yyyy", timestampFormat="d.M.yy HH:mm") == "_c0 date, _c1 timestamp"
    assert ddl_of(path, timestampNTZFormat="d.M.yy HH:mm") == "_c0 string, _c1 timestamp_ntz"


def test_long_whole_numbers_are_decimals_and_advice_has_room_for_all_digits(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "1" * 30 + "," + "9" * 39 + ",1.5," + "1" * 20 + ".25,5.\n")
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == "_c0 decimal(38,0), _c1 string, _c2 double, _c3 decimal(22,2), _c4 double"
    assert found.notes == [
        "column `_c0` has whole numbers beyond bigint: decimal(38,0) has room for 38 digits",
        "column `_c1` has numbers of more than 38 digits: string keeps them",
        "column `_c2` has one digit after the point: decimal(18,1) keeps amounts exact",
        "column `_c3` has numbers that double would change: decimal(22,2) keeps them exact",
        "column `_c4` has fractions: double",
    ]


@pytest.mark.parametrize(
    ("texts", "ddl"),
    [
        (["9007199254740993", "1.5"], "decimal(18,1)"),
        (["9007199254740992", "1.5"], "double"),
        (["0.1234567890123456789"], "decimal(19,19)"),
        (["12345678901234567.80"], "decimal(19,2)"),
        (["12345678901234567.8" + "0" * 40], "decimal(18,1)"),
        (["1." + "0" * 500, "0e999999999", "0.1"], "double"),
        (["1e30", "0.25"], "double"),
        (["12345678901234567890e-3"], "decimal(19,2)"),
        (["9007199254740993", "1e25"], "decimal(26,0)"),
        (["9007199254740993", "1e38"], "string"),
        (["1e400"], "string"),
        (["1E-400"], "string"),
        (["1e" + "9" * 5000], "string"),
        (["1.5", "NaN"], "double"),
        (["9007199254740993", "NaN"], "string"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_numbers_have_a_type_that_keeps_them_exactly(tmp_path: Path, texts: list[str], ddl: str, kind: str) -> None:
    lines = texts if kind == "csv" else [f'{{"_c0":{text}}}' for text in texts]
    path = file(tmp_path, f"a.{kind}", "".join(f"{line}\n" for line in lines))
    assert ddl_of(path) == f"_c0 {ddl}"
    source = Files(path, format=kind, schema=f"_c0 {ddl}", mode="PERMISSIVE")  # type: ignore[arg-type]
    assert rejects(blocks(source)) == []


def test_why_numbers_are_strings_is_noted(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "1e400,9007199254740993\n1,NaN\n")
    assert notes_of(path) == [
        "column `_c0` has numbers of more than 38 digits: string keeps them",
        "column `_c1` has NaN or infinity, and numbers that double would change: string keeps both",
    ]
    path = file(tmp_path, "a.json", '{"a":9007199254740993}\n{"a":NaN}\n')
    assert notes_of(path) == ["column `a` has NaN or infinity, and numbers that double would change: string keeps both"]


@pytest.mark.parametrize(
    ("kinds", "ddl"),
    [
        ([pa.decimal128(5, 2), pa.decimal128(10, 4)], "decimal(10,4)"),
        ([pa.decimal128(20, 2), pa.decimal128(10, 8)], "decimal(26,8)"),
        ([pa.decimal128(5, 2), pa.int32()], "decimal(12,2)"),
        ([pa.int64(), pa.int8(), pa.decimal128(5, 5)], "decimal(24,5)"),
        ([pa.uint64(), pa.int8()], "decimal(20,0)"),
        ([pa.decimal128(38, 2), pa.decimal128(38, 4)], None),
        ([pa.decimal128(5, 2), pa.float64()], None),
    ],
)
def test_decimals_of_several_files_are_widened(tmp_path: Path, kinds: list[pa.DataType], ddl: str | None) -> None:
    files = [tmp_path / f"{number}.parquet" for number in range(len(kinds))]
    for path, kind in zip(files, kinds, strict=True):
        pq.write_table(
            pa.table({"k": ["x"], "v": pa.array([Decimal(0) if pa.types.is_decimal(kind) else 0], kind)}), path
        )
    found = infer([str(path) for path in files], None, {})
    assert to_ddl(found.schema) == ("k string" if ddl is None else f"k string, v {ddl}")
    assert len(values(blocks(Files(tmp_path, schema=found.schema)))) == len(kinds)


def test_records_that_are_rejects_are_counted(tmp_path: Path) -> None:
    path = file(tmp_path, "a.json", '{"a":1}\n7\n')
    assert notes_of(path) == [f"one record of `{path}` is not a JSON object: line 2: not a JSON object"]
    path = file(tmp_path, "b.json", '{"a":1}\n7\n\x1b\n')
    assert notes_of(path)[0].startswith(f"2 records of `{path}` are not JSON objects. The first is on line 2: ")
    path = file(tmp_path, "a.csv", "1,2\n3\n")
    assert notes_of(path) == [f"one record of `{path}` is not a row: line 2: too few columns: found 1, expected 2"]


def test_parquet_types_that_no_type_reads_are_left_out(tmp_path: Path) -> None:
    one, two = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"v": pa.array([1], pa.int32()), "t": [1], "f": pa.array([1], pa.int16())}), one)
    pq.write_table(pa.table({"v": ["x"], "T": pa.array([1], pa.int8()), "f": pa.array([1], pa.float32())}), two)
    found = infer([str(one), str(two)], None, {})
    assert to_ddl(found.schema) == "t bigint, f double"
    assert found.notes == [
        "column `v` is left out: no type reads `int`, `string`; declare a source for each kind of file"
    ]
    assert len(blocks(Files(tmp_path, schema=found.schema))) == 2


def test_files_of_several_formats_are_refused(tmp_path: Path) -> None:
    one, two = file(tmp_path, "a.csv", "1\n"), file(tmp_path, "b.json", '{"a":1}\n')
    with pytest.raises(tm.InvalidInput, match="found files of the formats `csv`, `json`, expected one format"):
        tm.schema_of(one, two)


def test_control_characters_of_files_are_escaped_in_what_the_command_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, "a.csv", "\x1b[31mid,x\n1,\n")
    done = CliRunner().invoke(tidemill, ["schema", str(path), "--header"], obj=Output(), standalone_mode=False)
    assert done.stdout == "`\\u{1b}[31mid` int, x string\n"
    assert "note: names with control characters are shown escaped" in done.stderr
    assert "\x1b" not in done.output
    assert main(["schema", str(path), "--header", "--json"]) == 0
    assert "\\u001b[31mid" in capfd.readouterr().out


def test_more_rejects_and_elements_than_a_block_has_are_looked_at(tmp_path: Path) -> None:
    array = "[" + ", ".join(['{"a":1}'] * 20_000 + ["7"] * 20_000) + "]"
    path = file(tmp_path, "a.json", "7\n" * 20_000 + array + '\n{"b":2}\n')
    found = infer([str(path)], None, {})
    assert to_ddl(found.schema) == "a int, b int"
    assert found.notes == [
        f"40,000 records of `{path}` are not JSON objects. The first is on line 1: not a JSON object"
    ]


def test_another_separator_and_a_header_that_was_not_declared_are_noted(tmp_path: Path) -> None:
    lines = file(tmp_path, "a.csv", "id;name\n1;x\n2;y\n")
    shown = f"`{lines}` has one column, and its first line has ';': is it the separator, sep=';'?"
    assert infer([str(lines)], None, {"header": True}).notes == [shown]
    assert infer([str(lines)], None, {}).notes == [shown]
    note = f"the first line of `{lines}` looks like a header: is it one, header=True?"
    found = infer([str(lines)], None, {"sep": ";"})
    assert to_ddl(found.schema) == "_c0 string, _c1 string"
    assert found.notes == [note], "and no note on the text among the numbers"
    assert infer([str(lines)], None, {"sep": ";", "header": True}).notes == []


def test_the_declared_separator_is_not_suggested(tmp_path: Path) -> None:
    quoted = file(tmp_path, "a.csv", '"a,b"\n"1,2"\n')
    assert infer([str(quoted)], None, {"header": True}).notes == []
    assert infer([str(quoted)], None, {}).notes == []
    other = file(tmp_path, "b.csv", "a;b,c\n1;2,3\n")
    (note,) = infer([str(other)], None, {"header": True, "sep": "|"}).notes
    assert note.endswith(("sep=';'?", "sep=','?"))


@pytest.mark.parametrize("text", ["a,b\nc,d\n", "1,x\n2,y\n", "x,1\n2,3\n", "id,at\n", ""])
def test_a_first_line_like_the_others_is_no_header(text: str, tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", text)
    assert not any("header" in note for note in infer([str(path)], None, {}).notes)


def test_a_text_among_numbers_is_noted(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "n,name,few\n1,x,a\n2,7,b\nn/a,y,1\n4,z,c\n")
    found = infer([str(path)], None, {"header": True})
    assert to_ddl(found.schema) == "n string, name string, few string"
    assert [note.partition(":")[0] for note in found.notes] == ["column `n` has numbers, and texts such as `n/a`"]
    assert to_ddl(infer([str(path)], None, {"header": True, "nullValue": "n/a"}).schema) == (
        "n int, name string, few string"
    )
    late = file(tmp_path, "b.csv", "n\n" + "1\n" * 20_000 + "\x1b" + "x" * 50 + "\n" + "2\n" * 20_000)
    (note,) = infer([str(late)], None, {"header": True}).notes
    assert note.startswith("column `n` has numbers, and texts such as `\\u{1b}" + "x" * 39 + "…`")
