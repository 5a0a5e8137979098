"""CSV: every record becomes a row or a reject, with its number, its line and a reason."""

from __future__ import annotations

import csv
import io
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sources.csv_source import csv_source
from tests.unit.sources.reading import blocks, file, rejects, rows, small_buffers, values
from tidemill.errors import InvalidInput
from tidemill.sources.contract import ReadContext

MESSY = b"""a,b,t
1,x,2013-01-01 00:00:00
2,"multi
line",2013-01-01 00:00:00
bad,y,2013-01-01 00:00:00

4,"q""uote",2013-01-01T00:00:00Z
5,short
6,too,2013-01-01,many
7,enc\xff,2013-01-01 00:00:00
8,"",2013-01-01 00:00:00
9,,
10,"a"b,2013-01-01 00:00:00
11,a"b,2013-01-01 00:00:00
 12, sp ,2013-01-01 00:00:00
13,"multi
line",nope
"""


def test_every_record_is_a_row_or_a_reject_with_its_number(tmp_path: Path) -> None:
    file(tmp_path, "messy.csv", MESSY)
    source = csv_source(tmp_path, "a int, b string, t timestamp", header=True, mode="PERMISSIVE")
    found = blocks(source)
    assert [(row["a"], row["b"], row["_row"]) for row in rows(found)] == [
        (1, "x", 0),
        (2, "multi\nline", 1),
        (4, '"q""uote"', 3),
        (8, None, 7),
        (9, None, 8),
        (10, '"a"b', 9),
        (11, 'a"b', 10),
    ]
    assert [(r["line"], r["column"], r["reason"], r["text"]) for r in rejects(found)] == [
        (5, "a", "found `bad`, expected int", "bad,y,2013-01-01 00:00:00"),
        (8, None, "too few columns: found 2, expected 3", "5,short"),
        (9, None, "too many columns: found 4, expected 3", "6,too,2013-01-01,many"),
        (10, None, "not UTF-8", "7,enc\\xff,2013-01-01 00:00:00"),
        (15, "a", "found ` 12`, expected int", " 12, sp ,2013-01-01 00:00:00"),
        (16, "t", "found `nope`, expected timestamp", '13,"multi\nline",nope'),
    ]
    assert {(r["source"], r["file"]) for r in rejects(found)} == {("source", "messy.csv")}


def test_small_pieces_give_the_same_rows_and_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file(tmp_path, "messy.csv", MESSY)
    source = csv_source(tmp_path, "a int, b string, t timestamp", header=True, mode="PERMISSIVE")
    whole = blocks(source)
    for size in (40, 64, 100):
        small_buffers(monkeypatch, size)
        cut = blocks(source)
        assert (rows(cut), rejects(cut)) == (rows(whole), rejects(whole))


def test_failfast_names_file_line_column_reason_and_text(tmp_path: Path) -> None:
    file(tmp_path, "messy.csv", MESSY)
    source = csv_source(tmp_path, "a int, b string, t timestamp", header=True)
    with pytest.raises(InvalidInput) as caught:
        blocks(source)
    assert str(caught.value) == (
        "read file `messy.csv` of source `source`, line 5, column `a`: found `bad`, expected int\n"
        "text: bad,y,2013-01-01 00:00:00\n"
        'hint: correct the file and abandon the plan: r.replan("…"), or `tidemill replan PIPELINE --root ROOT '
        '--reason "…"`; or leave the file out with `tidemill skip`; or use mode="PERMISSIVE", which quarantines '
        "unreadable rows"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.5"),
        ("int", "5.0"),
        ("int", "1e3"),
        ("int", "0x10"),
        ("int", "1_000"),
        ("int", " 7"),
        ("int", "7 "),
        ("int", "2147483648"),
        ("tinyint", "128"),
        ("bigint", "9223372036854775808"),
        ("double", "1_0"),
        ("double", "x"),
        ("decimal(4,2)", "100.00"),
        ("decimal(4,2)", "1_0"),
        ("boolean", "1"),
        ("boolean", "yes"),
        ("date", "2013-02-30"),
        ("date", "infinity"),
        ("date", "20130101"),
        ("date", "24-01-05"),
        ("date", "2024"),
        ("date", "epoch"),
        ("date", "2024-01-05 junk"),
        ("date", "10000-01-01"),
        ("timestamp", "infinity"),
        ("timestamp", "2013-01-01 25:00:00"),
        ("timestamp_ntz", "x"),
        ("timestamp_ntz", "2013-01-02 03:04:05Z"),
    ],
)
def test_a_value_that_does_not_fit_is_rejected_not_converted(tmp_path: Path, kind: str, text: str) -> None:
    file(tmp_path, "a.csv", f"{text},x\n")
    found = blocks(csv_source(tmp_path, f"v {kind}, s string", mode="PERMISSIVE"))
    assert rows(found) == []
    [reject] = rejects(found)
    assert (reject["line"], reject["column"]) == (1, "v")
    assert reject["reason"].startswith(f"found `{text}`, expected {kind}")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-5", -5),
        ("int", "+7", 7),
        ("smallint", "007", 7),
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("float", "0.5", 0.5),
        ("double", "1e3", 1000.0),
        ("double", "-Infinity", float("-inf")),
        ("decimal(10,2)", "12.30", Decimal("12.30")),
        ("decimal(10,2)", "-0.005", Decimal("-0.01")),
        ("decimal(38,20)", "0.12345678901234567891", Decimal("0.12345678901234567891")),
        ("boolean", "TRUE", True),
        ("boolean", "false", False),
        ("date", "2013-01-02", date(2013, 1, 2)),
        ("timestamp", "2013-01-02 03:04:05.678901", datetime(2013, 1, 2, 3, 4, 5, 678901, UTC)),
        ("timestamp", "2013-01-02T03:04:05+02:00", datetime(2013, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("timestamp_ntz", "2013-01-02 03:04:05", datetime(2013, 1, 2, 3, 4, 5)),
        ("timestamp_ntz", "2024-01-01 23:59:59.999999999", datetime(2024, 1, 1, 23, 59, 59, 999999)),
        ("timestamp", "2013-01-02 03", datetime(2013, 1, 2, 3, tzinfo=UTC)),
        ("string", " kept as it is ", " kept as it is "),
        ("binary", "abc", b"abc"),
    ],
)
def test_values_are_exact(tmp_path: Path, kind: str, text: str, value: object) -> None:
    file(tmp_path, "a.csv", f"{text},x\n")
    assert values(blocks(csv_source(tmp_path, f"v {kind}, s string"))) == [(value, "x")]


def test_times_without_offset_are_in_the_pipelines_zone(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "2013-01-01 00:00:00\n2013-07-01 00:00:00\n2013-01-01 00:00:00Z\n")
    found = blocks(csv_source(tmp_path, "t timestamp"), context=ReadContext(time_zone="America/New_York"))
    assert values(found) == [
        (datetime(2013, 1, 1, 5, tzinfo=UTC),),
        (datetime(2013, 7, 1, 4, tzinfo=UTC),),
        (datetime(2013, 1, 1, tzinfo=UTC),),
    ]


@pytest.mark.parametrize(
    ("text", "pattern", "instant"),
    [
        ("2013-11-03 01:30:00", None, datetime(2013, 11, 3, 5, 30, tzinfo=UTC)),
        ("2013/11/03 01:30", "yyyy/MM/dd HH:mm", datetime(2013, 11, 3, 5, 30, tzinfo=UTC)),
        ("2013-11-03 01:30:00-05:00", None, datetime(2013, 11, 3, 6, 30, tzinfo=UTC)),
        ("2013-11-03T01:30:00Z", None, datetime(2013, 11, 3, 1, 30, tzinfo=UTC)),
        ("2013-11-03 00:30:00", None, datetime(2013, 11, 3, 4, 30, tzinfo=UTC)),
        ("2013-11-03 02:30:00", None, datetime(2013, 11, 3, 7, 30, tzinfo=UTC)),
        ("2013-03-10 02:30:00", None, datetime(2013, 3, 10, 7, 30, tzinfo=UTC)),
    ],
)
def test_a_repeated_local_time_means_the_earlier_instant(
    tmp_path: Path, text: str, pattern: str | None, instant: datetime
) -> None:
    file(tmp_path, "a.csv", text + "\n")
    source = csv_source(tmp_path, "t timestamp", **({"timestampFormat": pattern} if pattern else {}))
    assert values(blocks(source, context=ReadContext(time_zone="America/New_York"))) == [(instant,)]


def test_date_formats_are_spark_patterns(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "02/01/2013;02.01.2013T03:04 Z\n")
    source = csv_source(
        tmp_path, "d date, t timestamp", sep=";", dateFormat="dd/MM/yyyy", timestampFormat="dd.MM.yyyy'T'HH:mm XXX"
    )
    assert values(blocks(source)) == [(date(2013, 1, 2), datetime(2013, 1, 2, 3, 4, tzinfo=UTC))]


def test_empty_cells_and_the_null_value_are_null(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,,x\n2,"",x\n3,NA,x\n4,"NA",x\n')
    assert [row[1] for row in values(blocks(csv_source(tmp_path, "a int, b string, c string")))] == [
        None,
        None,
        "NA",
        "NA",
    ]
    found = blocks(csv_source(tmp_path, "a int, b string, c string", nullValue="NA"))
    assert [row[1] for row in values(found)] == [None, "", None, None]  # as Spark 4.3 reads it


def test_not_null_columns_refuse_empty_cells(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "1,x\n,y\n")
    [reject] = rejects(blocks(csv_source(tmp_path, "a int not null, b string", mode="PERMISSIVE")))
    assert (reject["line"], reject["column"], reject["reason"]) == (2, "a", "found no value, expected int not null")


def test_an_escape_may_be_a_backslash(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,"say \\"a,\nb\\""\n2,y\n')
    assert values(blocks(csv_source(tmp_path, "a int, b string", escape="\\"))) == [(1, 'say "a,\nb"'), (2, "y")]


def test_files_of_one_column_skip_empty_lines(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "1\n\n3\nx\n\n\n7\n")
    found = blocks(csv_source(tmp_path, "a int", mode="PERMISSIVE"))
    assert [(row["a"], row["_row"]) for row in rows(found)] == [(1, 0), (3, 1), (7, 3)]
    assert [(r["line"], r["text"]) for r in rejects(found)] == [(4, "x")]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_both_kinds_of_line_ends_are_read(tmp_path: Path, ends: str) -> None:
    file(tmp_path, "a.csv", ends.join(["a,b", "1,x", "", "2,", "y", "3,z"]))
    found = blocks(csv_source(tmp_path, "a int, b string", header=True, mode="PERMISSIVE"))
    assert [(row["a"], row["b"], row["_row"]) for row in rows(found)] == [(1, "x", 0), (2, None, 1), (3, "z", 3)]
    assert [(r["line"], r["text"]) for r in rejects(found)] == [(5, "y")]


def test_mixed_line_ends_are_read(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,x\n2,"y\r\nz"\r\n3,w\n')
    assert values(blocks(csv_source(tmp_path, "a int, b string"))) == [(1, "x"), (2, "y\r\nz"), (3, "w")]


def test_an_unclosed_quote_on_the_last_line_is_a_reject(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,x\n2,"y\n')
    found = blocks(csv_source(tmp_path, "a int, b string", mode="PERMISSIVE"))
    assert values(found) == [(1, "x")]
    assert [(r["line"], r["text"]) for r in rejects(found)] == [(2, '2,"y\n')]


def test_an_unclosed_quote_before_the_last_line_makes_the_file_unreadable(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,x\n2,"y\n' + "3,z\n" * 1000)
    with pytest.raises(InvalidInput, match="line 2: a quote of the record on line 2 is not closed"):
        blocks(csv_source(tmp_path, "a int, b string", mode="PERMISSIVE"))


def test_stray_quotes_do_not_hide_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_buffers(monkeypatch, 50)
    lines = [f'{i},5" pipe\n{i},"two\nlines"\n' for i in range(40)]
    file(tmp_path, "a.csv", "".join(lines))
    found = blocks(csv_source(tmp_path, "a int, b string"))
    assert values(found) == [row for i in range(40) for row in ((i, '5" pipe'), (i, "two\nlines"))]
    assert [row["_row"] for row in rows(found)] == list(range(80))


def test_blocks_have_exactly_the_rows_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_buffers(monkeypatch, 3000)
    file(tmp_path, "a.csv", "".join(f"{i if i % 7 else 'bad'},x\n" for i in range(1000)))
    found = blocks(csv_source(tmp_path, "a int, b string", mode="PERMISSIVE"), block_rows=100)
    good = [i for i in range(1000) if i % 7]
    assert [block.number for block in found] == list(range(9))
    assert [block.rows.num_rows for block in found] == [100] * 8 + [len(good) - 800]
    assert [(row["a"], row["_row"]) for row in rows(found)] == [(i, i) for i in good]
    assert [r["line"] for r in rejects(found)] == [i + 1 for i in range(1000) if i % 7 == 0]


def test_a_carriage_return_ends_a_record(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,x\r2,"w\rw"\r\n3,v\r\r')
    assert values(blocks(csv_source(tmp_path, "a int, b string"))) == [(1, "x"), (2, "w\rw"), (3, "v")]


def test_a_long_line_takes_linear_time_and_one_reject(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "," * 10_000_000 + "\n1,x\n")
    found = blocks(csv_source(tmp_path, "a int, b string", mode="PERMISSIVE"))
    assert values(found) == [(1, "x")]
    assert [r["reason"] for r in rejects(found)] == ["too many columns: found 10000001, expected 2"]


def test_a_record_beyond_the_limit_is_one_error(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", '1,x\n2,"' + "y\n" * 100_000)
    source = csv_source(tmp_path, "a int, b string", maxRecordBytes="64 KiB", mode="PERMISSIVE")
    with pytest.raises(InvalidInput, match=r"line 2: the record on line 2 has more than 65536 bytes") as caught:
        blocks(source)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("if the record is right, raise maxRecordBytes; otherwise correct the file and ")
    assert caught.value.hint.endswith('or use badFiles="quarantine"')


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
CELL = st.one_of(TEXT, st.sampled_from(['"', '""', ',"', "\n", "\r\n", '"\n"', " ", "NULL", "\\", '\\"', "'"]))
STYLES = [("\n", csv.QUOTE_NONNUMERIC), ("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL)]


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), CELL, CELL), max_size=30),
    st.integers(5, 400),
    st.sampled_from(STYLES),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_written_by_python_is_read_back(
    monkeypatch: pytest.MonkeyPatch, table: list[tuple[int, str, str]], piece: int, style: tuple[str, int]
) -> None:
    small_buffers(monkeypatch, piece)
    with tempfile.TemporaryDirectory() as folder:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=style[0], quoting=style[1]).writerows(table)
        file(Path(folder), "a.csv", text.getvalue())
        found = blocks(csv_source(Path(folder), "a int, b string, c string", escape='"'), block_rows=7)
    assert values(found) == [(a, b or None, c or None) for a, b, c in table]
    assert [row["_row"] for row in rows(found)] == list(range(len(table)))


def test_without_an_escape_quotes_in_a_field_stay_as_they_are(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", 'w|"a"""|e\nw|"b"|e\nw|"c""d"|e\n')  # text after a closing quote
    source = csv_source(tmp_path, "p string, v string, q string", sep="|", escape="")
    assert values(blocks(source)) == [("w", 'a""', "e"), ("w", "b", "e"), ("w", '"c""d"', "e")]


def test_fields_may_be_filled_up_with_zeros(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "1,A" + "\0" * 9 + "\n2,B" + "\0" * 9 + "\n3,C" + "\0" * 9 + "\n")
    found = values(blocks(csv_source(tmp_path, "n int, t string")))
    assert found == [(n, letter + "\0" * 9) for n, letter in ((1, "A"), (2, "B"), (3, "C"))]
    file(tmp_path, "a.csv", b"\0" * 100)
    with pytest.raises(InvalidInput, match="begins with binary data"):
        blocks(csv_source(tmp_path, "n int, t string"))


@pytest.mark.parametrize("name", ["\ufeffa", "a\u200b", "a\xa0", "a\u0301"])
def test_characters_of_a_header_that_cannot_be_seen_are_shown(tmp_path: Path, name: str) -> None:
    file(tmp_path, "a.csv", ("\ufeff" + name + ",b\n").encode())
    with pytest.raises(InvalidInput) as caught:
        blocks(csv_source(tmp_path, "a int, b string", header=True))
    assert f"`{name}`" not in caught.value.message and "\\u{" in caught.value.message


@pytest.mark.parametrize("first", ["2024-03-31 03:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00"])
def test_a_time_does_not_depend_on_those_before_it(tmp_path: Path, first: str) -> None:
    file(tmp_path, "a.csv", f"{first}\n2024-01-15 12:00:00\n2024-07-15 12:00:00\n9999-12-31 00:00:00\n")
    source = csv_source(tmp_path, "t timestamp")
    found = values(blocks(source, context=ReadContext(time_zone="Europe/Berlin")))[1:]
    assert [str(row[0]) for row in found] == [
        "2024-01-15 11:00:00+00:00",
        "2024-07-15 10:00:00+00:00",
        "9999-12-30 23:00:00+00:00",
    ]
