"""CSV: headers, missing columns, encodings, compression, and files that cannot be read."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.sources.csv_source import csv_source
from tests.unit.sources.reading import blocks, file, rejects, rows, values
from tidemill.errors import InvalidInput


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "b,other,A\nx,?,1\n")
    assert values(blocks(csv_source(tmp_path, "a int, b string", header=True))) == [(1, "x")]
    file(tmp_path, "a.csv", "b,A\n1,x\n")
    assert values(blocks(csv_source(tmp_path, "a int, b string", header=True, enforceSchema=True))) == [(1, "x")]


@pytest.mark.parametrize(
    ("header", "options", "message", "hint"),
    [
        ("a,c,d", {}, "the header lacks `b`; found `a`, `c`, `d`", 'missingColumns="null"'),
        ("a,b,a", {}, "the header has `a`, `a`, expected one column `a`", "rename the columns"),
        ("a,b,a", {"missingColumns": "null"}, "the header has `a`, `a`, expected one column `a`", "rename the columns"),
        ("A,b,A", {"missingColumns": "null"}, "the header has `A`, `A`, expected one column `a`", "rename the columns"),
        (
            "x,y",
            {"missingColumns": "null"},
            "the header has the columns `x`, `y`, expected `a`, `b`",
            "another file, or",
        ),
        ("a,b,c", {"extraColumns": "fail"}, "the header has `c`, which the schema lacks", 'extraColumns="ignore"'),
    ],
)
def test_a_file_with_another_header_fails_in_every_mode(
    tmp_path: Path, header: str, options: dict[str, str], message: str, hint: str
) -> None:
    file(tmp_path, "a.csv", f"{header}\n")
    for mode in ("FAILFAST", "PERMISSIVE"):
        with pytest.raises(InvalidInput, match=f"line 1: {message}") as caught:
            blocks(csv_source(tmp_path, "a int, b string", header=True, mode=mode, **options))
        assert caught.value.hint is not None and hint in caught.value.hint


def test_a_missing_column_is_null_on_request(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "b\nx\n")
    assert values(blocks(csv_source(tmp_path, "a int, b string", header=True, missingColumns="null"))) == [(None, "x")]
    file(tmp_path, "a.csv", "b\nx\n")
    source = csv_source(tmp_path, "a int not null, b string", header=True, missingColumns="null", mode="PERMISSIVE")
    with pytest.raises(InvalidInput, match="the header lacks `a`; found `b`") as caught:
        blocks(source)
    assert caught.value.hint is not None and "`a` is declared not null" in caught.value.hint


def test_a_bad_file_is_quarantined_as_a_whole_on_request(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x,y\n1,x\n")
    found = blocks(csv_source(tmp_path, "a int, b string", header=True, badFiles="quarantine"))
    assert rows(found) == []
    assert [(r["line"], r["reason"]) for r in rejects(found)] == [
        (None, "line 1: the header has the columns `x`, `y`, expected `a`, `b`; its only row is not read")
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1\x15\x04\x15", "the file begins with the bytes 50 41 52 31, which is a Parquet file"),
        (b"PK\x03\x04\x14\0\0\0", "the bytes 50 4b 03 04, which is a zip archive"),
        (b"\xff\xfea\0,\0b\0\n\0", "the byte order mark of UTF-16"),
        (bytes(range(256)) * 8, "the file begins with binary data, expected text"),
    ],
)
def test_a_file_that_is_no_text_fails(tmp_path: Path, data: bytes, message: str) -> None:
    file(tmp_path, "a.csv", data)
    with pytest.raises(InvalidInput, match=message):
        blocks(csv_source(tmp_path, "a string, b string", mode="PERMISSIVE"))


@pytest.mark.parametrize("encoding", ["UTF-16", "ISO-8859-1", "windows-1252", "utf-8"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    file(tmp_path, "a.csv", "é,ü\nß,y\n".encode(encoding))
    assert values(blocks(csv_source(tmp_path, "a string, b string", encoding=encoding))) == [("é", "ü"), ("ß", "y")]


def test_text_of_another_script_is_no_binary_data(tmp_path: Path) -> None:
    text = "привет,мир\n" * 50
    file(tmp_path, "a.csv", text.encode("windows-1251"))
    read = blocks(csv_source(tmp_path, "a string, b string", encoding="windows-1251"))
    assert values(read) == [("привет", "мир")] * 50
    with pytest.raises(InvalidInput, match="binary data, expected text in UTF-8") as caught:
        blocks(csv_source(tmp_path, "a string, b string"))
    assert caught.value.hint is not None and "encoding=" in caught.value.hint


def test_rejects_with_another_line_end_are_parsed_again(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "x,1;y\nz,2;")
    source = csv_source(tmp_path, "a string, b boolean", lineSep=";", mode="PERMISSIVE")
    texts = [r["text"] for r in rejects(blocks(source))]
    assert texts == ["x,1", "y\nz,2"]
    made = source.parse("a.csv", [text[:-1] + "true" for text in texts], "UTC")
    assert isinstance(made, pa.Table) and made.column("a").to_pylist() == ["x", "y\nz"]


def test_a_record_with_a_header_in_another_order_is_parsed_again_with_it(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", "b,a\nx,bad\n")
    source = csv_source(tmp_path, "a int, b string", header=True, mode="PERMISSIVE")
    [reject] = rejects(blocks(source))
    assert (reject["text"], reject["header"]) == ("x,bad", "b,a")
    made = source.parse("a.csv", ["x,5"], "UTC", reject["header"])
    assert isinstance(made, pa.Table) and made.to_pylist() == [{"a": 5, "b": "x"}]


def test_a_header_may_be_quoted_and_have_a_byte_order_mark(tmp_path: Path) -> None:
    file(tmp_path, "a.csv", b'\xef\xbb\xbf"a","b ""c"""\r\n1,x\r\n')
    assert values(blocks(csv_source(tmp_path, 'a int, `b "c"` string', header=True, escape='"'))) == [(1, "x")]


@pytest.mark.parametrize("content", ["", "a,b\n", "a,b"])
def test_a_file_without_rows_has_no_blocks(tmp_path: Path, content: str) -> None:
    file(tmp_path, "a.csv", content)
    assert rows(blocks(csv_source(tmp_path, "a int, b string", header=True))) == []


def test_compressed_files_are_read_by_their_ending(tmp_path: Path) -> None:
    text = "".join(f"{i},x{i}\n" for i in range(1000)).encode()
    file(tmp_path, "a.csv.gz", gzip.compress(text[: len(text) // 2]) + gzip.compress(text[len(text) // 2 :]))
    file(tmp_path, "b.csv.zst", pa.Codec("zstd").compress(text, asbytes=True))
    expected = [(i, f"x{i}") for i in range(1000)]
    assert values(blocks(csv_source(tmp_path, "a int, b string"))) == expected + expected


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst", "a.csv.bz2", "a.csv"])
def test_a_damaged_compressed_file_fails_or_is_quarantined_as_a_whole(tmp_path: Path, name: str) -> None:
    text = "".join(f"{i},x{i}\n" for i in range(50_000)).encode()
    made = {"zst": lambda: pa.Codec("zstd").compress(text, asbytes=True), "bz2": lambda: bz2.compress(text)}
    whole = made.get(name.rpartition(".")[2], lambda: gzip.compress(text))()
    file(tmp_path, name, whole)
    assert len(rows(blocks(csv_source(tmp_path, "a int, b string"), block_rows=10_000))) == 50_000
    file(tmp_path, name, whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="damaged"):
        blocks(csv_source(tmp_path, "a int, b string", mode="PERMISSIVE"), block_rows=10_000)
    found = blocks(csv_source(tmp_path, "a int, b string", badFiles="quarantine"), block_rows=10_000)
    [reject] = rejects(found)
    assert rows(found) == []
    assert reject["line"] is None
    assert "damaged" in reject["reason"]
